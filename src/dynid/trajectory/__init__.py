"""Motions in joint space for identification, validation and trajectories of the user."""
