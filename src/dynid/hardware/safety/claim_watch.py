"""Check of a commander's claim that it holds the arm still: a joint that moves far meanwhile is a fault.

The commander is the program that sends torque commands. It performs the same check, and brakes or stops the arm. But an
error of the commander may also disable its own check. Examples are torque commands that continue after the motion has
ended, a model of another arm, or a hold that restarts repeatedly, each time where the joint is by then. So the driver
checks independently. Without such a claim nothing is checked here.
"""

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.safety.limit_kernels import farthest
from dynid.robot import FloatArray

DISPLACEMENT_LIMIT_RAD = 0.7  # displacement that is a fault; an executor yields to a push by at most half of it
WINDOW_S = 1.5  # the displacement counts over one to two windows, so that slow hand guiding is no fault


class ClaimWatch:
    """Detector of a joint that moves far although the sender of commands (the commander) claims to hold the arm still.

    Args:
        size: number of joints n.
    """

    def __init__(self, size: int) -> None:
        # angles two windows and one window ago, or at the start of the claim, (2, n) [rad]
        self._earlier_q: FloatArray = np.zeros((2, size))
        self._since_s, self._claimed = 0.0, False

    def moved(self, claimed: bool, q: FloatArray, valid: NDArray[np.bool_], now_s: float) -> int | None:
        """Return the index of the joint that moved too far while the sender of commands claims to hold the arm still.

        The result is None if no joint moved too far, or without such a claim.

        Args:
            claimed: whether the present command contains this claim.
            q: joint angles, (n,) [rad].
            valid: mask of the joints that were read in this cycle, (n,).
            now_s: present time [s].
        """
        if not claimed:
            self._claimed = False
            return None
        if not self._claimed:
            self._claimed, self._since_s = True, now_s
            self._earlier_q[:] = q
        elif now_s - self._since_s >= WINDOW_S:
            self._since_s = now_s
            self._earlier_q[0], self._earlier_q[1] = self._earlier_q[1], q
        joint, distance_rad = farthest(q, self._earlier_q, valid)
        return joint if distance_rad > DISPLACEMENT_LIMIT_RAD else None
