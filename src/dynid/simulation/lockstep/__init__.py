"""Simulation in lock-step (arm and controller advance cycle by cycle, not in real time), and bags of such runs."""
