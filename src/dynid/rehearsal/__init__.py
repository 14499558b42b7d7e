"""Rehearsals: each process runs its work once on dummy data before it starts.

All functions are then compiled and all modules imported before the real work.
"""
