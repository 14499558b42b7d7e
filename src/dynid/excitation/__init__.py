"""Optimised excitation, and the excitation that is easiest to foresee; see docs/methods.md."""
