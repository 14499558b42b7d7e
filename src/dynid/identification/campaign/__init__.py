"""The campaign: every bag at every sampling interval, then one accepted model."""
