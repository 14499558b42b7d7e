"""Runs without a wall clock: plant, servos and controller in lock-step, written as bags."""
