"""Comparison of dynid's excitation motions with those of other software, within the same limits."""
