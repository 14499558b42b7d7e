"""Sensorless contact detection: external joint torques, forces at the tool, and the payload of an arm."""
