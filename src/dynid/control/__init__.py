"""Control laws and filters."""
