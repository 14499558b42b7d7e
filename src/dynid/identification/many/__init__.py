"""Identification from more recordings than memory holds, spread over processes and machines."""
