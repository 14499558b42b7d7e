"""Fault injection: scripts of servo bus faults, and functions that corrupt replies as a bad line does."""
