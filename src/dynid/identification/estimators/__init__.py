"""Estimators of base parameters, and the uncertainty of their estimates."""
