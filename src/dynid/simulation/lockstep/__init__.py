"""Simulated runs without a wall clock: plant, servo registers and controller advance in lock-step, written as bags."""
