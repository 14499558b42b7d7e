"""Simulated arm: MuJoCo with the nuisances of a real one."""
