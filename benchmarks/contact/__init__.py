"""Benchmarks of contact detection, payload estimation and hand guiding, in lock-step on the simulated arm."""
