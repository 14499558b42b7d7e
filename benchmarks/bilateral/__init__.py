"""Two simulated arms in lock-step under bilateral control: a hand, a wall, faults, figures."""
