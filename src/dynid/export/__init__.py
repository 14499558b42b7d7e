"""Exports of an identified model: URDF, MuJoCo model, and friction files."""
