"""Campaigns: identification from every bag at every sampling interval, and selection of one accepted model."""
