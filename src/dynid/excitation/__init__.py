"""Optimised excitation, and single-joint excitation, which is easiest to predict; see docs/methods.md."""
