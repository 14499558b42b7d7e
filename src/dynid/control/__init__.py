"""Control laws, the phases of a motion, and checks before a motion."""
