"""DIDIM: the direct and inverse dynamic identification model's Jacobian (paper's reference 5).

Where the simulated loop tracks its reference whatever phi is, the simulated state hardly depends on phi, and the
torque's derivative is the inverse-dynamics regressor W on the simulated motion. That is cheaper than the variational
equations but not the derivative: the iteration converges to a point with a slightly larger closed-loop input error.
"""

from dynid.identification.closed_loop import ClosedLoop, LoopSimulation
from dynid.robot import FloatArray


def didim_jacobian(loop: ClosedLoop, simulation: LoopSimulation, phi: FloatArray, stride: int = 4) -> FloatArray:
    """W on the simulated motion in place of the derivative of the simulated torques, (S, n, p)."""
    return loop.regressor(simulation, phi, stride)
