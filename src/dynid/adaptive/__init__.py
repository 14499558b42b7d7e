"""Adaptive identification: each segment moves where the current model is least certain, until it is precise enough."""
