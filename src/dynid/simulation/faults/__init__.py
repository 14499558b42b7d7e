"""Fault injection: scripts of faults, and the effect of a bad line on replies."""
