"""Rigid-body model: geometry, base parameters, regressor, standard parameters, friction."""
