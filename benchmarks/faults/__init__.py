"""Injected faults: the required outcome of each, and what the arm did."""
