"""Identification while the arm moves: each segment where the model in hand is least certain, until it is certain."""
