"""Estimators of base parameters, and how far their estimates may be off."""
