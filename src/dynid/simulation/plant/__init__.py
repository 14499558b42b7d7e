"""Simulated arm behind the servos: MuJoCo, with the friction, noise, backlash and sensor errors of a real arm."""
