"""The servo bus, the arm on it, and its safety."""
