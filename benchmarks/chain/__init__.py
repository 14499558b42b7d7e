"""The chain of processes under load: cycle times, recorder, faults of processes."""
