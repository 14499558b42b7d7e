"""The control loop: one cycle, its pacing, its requests, its diagnostics."""
