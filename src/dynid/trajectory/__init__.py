"""Identification and validation motions."""
