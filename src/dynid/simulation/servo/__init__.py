"""Emulated servos: control table of a servo, all servos of an arm on one bus line, and record of the arm's motion."""
