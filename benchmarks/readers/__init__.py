"""Hostile files: mutated inputs of every reader, and what must not come of them."""
