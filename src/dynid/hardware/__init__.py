"""Drivers of servo arms: the servo bus, the arm on it, the control loop, start-up checks and safety."""
