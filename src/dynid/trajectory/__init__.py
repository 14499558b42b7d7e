"""Joint-space motions: excitation for identification and validation, and trajectories from files of the user."""
