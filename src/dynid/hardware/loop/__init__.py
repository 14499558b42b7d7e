"""Control loop: one cycle, its pacing, requests from other threads, and diagnostics."""
