"""Contact without a sensor: external torques, forces at the tool, and what an arm holds."""
