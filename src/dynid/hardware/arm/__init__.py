"""Arm on the servo bus: opening, reading, driving by currents, and switching torque off."""
