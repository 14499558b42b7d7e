"""What dynid promises, measured on this machine; beside the wheel, run from a checkout."""
