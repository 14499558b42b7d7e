"""Benchmarks of the chain of processes: the demo, cycle times under load, the recorder, and faults of processes."""
