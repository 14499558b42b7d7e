"""Emulated servos: their control tables, all servos of an arm on one bus line, and a record of the arm's motion."""
