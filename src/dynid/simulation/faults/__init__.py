"""Fault injection: scripts of what goes wrong, and what a bad line does to replies."""
