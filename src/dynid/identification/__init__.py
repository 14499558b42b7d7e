"""Identification of a dynamic model: from recordings to an accepted model."""
