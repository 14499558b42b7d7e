"""A model in the forms that others load: MJCF, URDF and their side files."""
