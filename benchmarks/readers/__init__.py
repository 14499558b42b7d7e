"""Hostile files: mutated inputs of every reader, and the checks of the outcomes."""
