"""Emulated servos: control table, chain on one line, record of the arm's motion."""
