"""Identified model at run time: compiled functions, a controller for a user's control loop, and C source code."""
