"""Tests whether payload, joint zeros, torque scales and offsets, friction or mount changed during the recordings."""
