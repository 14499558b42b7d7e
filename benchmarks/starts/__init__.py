"""Starts of the chain: with empty and with full caches, beside other work, on one processor."""
