"""Emulated servos: control table, chain on one line, trace of what the arm did."""
