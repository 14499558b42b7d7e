"""Identified model at run time: compiled functions, a controller for a user's loop, and the model as C source."""
