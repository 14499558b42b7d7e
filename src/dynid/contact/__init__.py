"""Sensorless contact: external joint torques, forces at the tool, and the payload of an arm."""
