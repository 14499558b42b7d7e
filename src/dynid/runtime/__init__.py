"""Identified model at run time: compiled calls, a controller for a loop, and the model as C source."""
