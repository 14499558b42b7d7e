"""Bags and other recordings."""
