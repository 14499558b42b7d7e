"""Simulated arm: MuJoCo plant and servo bus."""
