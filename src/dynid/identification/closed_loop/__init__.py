"""Closed-loop input error refinement: simulation of the control loop, its sensitivities, and the optimiser."""
