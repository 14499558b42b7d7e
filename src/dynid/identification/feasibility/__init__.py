"""Physical feasibility: projection onto physically consistent parameters; audit of the inertia matrix at all poses."""
