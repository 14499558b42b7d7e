"""Closed-loop input error refinement: simulation of the loop, its sensitivities, and the optimiser."""
