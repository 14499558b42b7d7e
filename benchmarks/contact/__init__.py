"""Contact, payload estimation and hand guiding, measured in lock-step on the simulated arm."""
