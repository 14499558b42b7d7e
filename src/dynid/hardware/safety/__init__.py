"""The safety guard: pure decisions on what may reach the motors, braking and holding."""
