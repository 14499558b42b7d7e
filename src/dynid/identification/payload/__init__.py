"""Comparison of two runs of one arm, to identify a payload or to check torque constants with a known mass."""
