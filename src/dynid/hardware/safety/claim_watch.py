"""Watch over an arm of which its commander says that it is held: a joint that moves far meanwhile is a fault.

Whoever commands the arm watches it as well, and brakes or gives it up. That watch may fail with the commander itself:
a torque that outlives its motion, a model of another arm, a hold that is begun anew again and again. So the driver
looks by itself. Without such a claim nothing is watched here.
"""

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.safety.limit_kernels import farthest
from dynid.robot import FloatArray

MOVED_RAD = 0.7  # an executor gives way to a push by half of this, and then holds the arm where it is
WINDOW_S = 1.5  # within this time or twice as long; slower, a hand may lead a held arm anywhere


class ClaimWatch:
    """Compares a held arm with where it was; one per driver."""

    def __init__(self, size: int) -> None:
        self._places: FloatArray = np.zeros((2, size))  # one and two windows ago, or where the claim began
        self._since_s, self._claimed = 0.0, False

    def moved(self, claimed: bool, q: FloatArray, valid: NDArray[np.bool_], now_s: float) -> int | None:
        """Return the joint that moved too far while the arm was said to be held; None if none did.

        Args:
            claimed: whether the command in force says that it holds the arm.
            q: joint angles, (n,) [rad].
            valid: which of them were read in this cycle, (n,).
            now_s: time [s].
        """
        if not claimed:
            self._claimed = False
            return None
        if not self._claimed:
            self._claimed, self._since_s = True, now_s
            self._places[:] = q
        elif now_s - self._since_s >= WINDOW_S:
            self._since_s = now_s
            self._places[0], self._places[1] = self._places[1], q
        joint, way_rad = farthest(q, self._places, valid)
        return joint if way_rad > MOVED_RAD else None
