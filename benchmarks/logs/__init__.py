"""Logs that people already have: the simulated arm under its servos' own position loop, and what its logs give."""
