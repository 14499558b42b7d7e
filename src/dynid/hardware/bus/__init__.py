"""Servo bus: port, protocol, control table, and the 1 kHz exchange with all servos."""
