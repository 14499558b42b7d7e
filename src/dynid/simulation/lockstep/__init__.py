"""Runs without a wall clock: plant, servos and controller in lock-step, as bags."""
