"""Safety of a driven arm: the guard that limits motor currents, stops and lowers the arm, and watches the servos."""
