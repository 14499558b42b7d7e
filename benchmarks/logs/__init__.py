"""Identification from logs that users already have: the simulated arm under its servos' own position loop."""
