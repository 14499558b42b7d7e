"""Campaigns: identification from every bag at every sampling interval, and choice of one model for acceptance."""
