"""Benchmarks of two simulated arms in lock-step under bilateral control, with a hand, a wall and faults."""
