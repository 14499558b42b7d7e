"""Identification from more recordings than fit into memory, distributed over processes and machines."""
