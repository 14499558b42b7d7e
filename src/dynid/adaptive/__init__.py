"""Adaptive identification: motion segments are planned to reduce the model's uncertainty, until it is low enough."""
