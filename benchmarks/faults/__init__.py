"""Injected faults with their required outcomes, and judges of the simulated arm's motion."""
