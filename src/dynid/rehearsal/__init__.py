"""Rehearsals: each process runs its work once on dummy data before it starts, to compile, load and import."""
