"""Rehearsals: runs on dummy data, which compile all functions and import all modules before the real work starts."""
