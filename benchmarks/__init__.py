"""Benchmarks, studies beside the pipeline, and measurements on this machine; all of them need a checkout."""
