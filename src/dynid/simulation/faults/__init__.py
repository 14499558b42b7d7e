"""Fault injection: scripts of servo bus faults, and functions that corrupt replies like a bad line."""
