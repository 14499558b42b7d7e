"""Starts of the chain with empty and with full caches, beside other load, and on one processor."""
