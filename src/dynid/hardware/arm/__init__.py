"""Arm on the servo bus: opening, reading, driving by currents, and leaving it without torque."""
