"""Emulated servo bus: a pseudo-terminal, and the process that serves it."""
