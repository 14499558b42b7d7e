"""Figures that a person can rerun: our refinement against what it replaces."""
