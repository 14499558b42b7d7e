"""Comparison of two runs of one arm: a payload, or a known mass that checks the torque constants."""
