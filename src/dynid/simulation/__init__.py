"""The simulated arm: MuJoCo plant and servo bus."""
