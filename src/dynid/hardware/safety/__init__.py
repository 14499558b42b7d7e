"""Safety of a driven arm: the guard, which limits motor currents, stops and lowers the arm, and monitors the servos."""
