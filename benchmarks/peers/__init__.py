"""Comparison of dynid with other identification software, on the same recordings and by the same held-out rows."""
