"""The arm on the bus: opened, read, driven by currents, left without torque."""
