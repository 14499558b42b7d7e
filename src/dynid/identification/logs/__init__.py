"""Identification from logs that nobody made for it: low rates, unknown delays, position control."""
