"""The chain of processes: the demo, and under load: cycle times, recorder, faults of processes."""
