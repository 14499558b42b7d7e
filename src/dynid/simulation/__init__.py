"""Simulated arm: its physics in MuJoCo (the plant) and its emulated servo bus."""
