"""The rigid-body model: geometry, base parameters, regressor, standard parameters, URDF."""
