"""Scaling of path time, the time variable of a planned motion, so that the arm moves more slowly on the same path.

A cancelled or paused motion brakes along its path, so the arm stays on the path that was checked before the motion.
"""

import numpy as np

from dynid.robot import FloatArray
from dynid.trajectory.sampling import scale_reference

BRAKE_RAD_S2 = 4.0  # largest additional acceleration of the fastest joint by braking and restarting
LEAST_PEAK_RAD_S = 0.4  # least peak velocity assumed for the braking rate, so that slow motions brake gently


class PathTimeScaling:
    """Rate of path time relative to real time, from 0 (the reference stands still) to 1 (it moves as planned).

    Args:
        size: number of joints.

    Attributes:
        value: present rate.
    """

    def __init__(self, size: int) -> None:
        self.value = self._target = 1.0
        self._rate = 1.0
        scale_reference(1.0, 0.0, np.zeros(size), np.zeros(size))  # compile now, not when the arm must brake

    @property
    def standing(self) -> bool:
        """Whether path time stands still, so that the reference is at rest."""
        return self.value == 0.0

    def begin(self, peak_velocity: float) -> None:
        """Set the rate to 1 for a new path; the path's peak velocity [rad/s] sets how fast braking reduces the rate."""
        self.value = self._target = 1.0
        self._rate = BRAKE_RAD_S2 / max(peak_velocity, LEAST_PEAK_RAD_S)

    def brake(self) -> None:
        """Reduce the rate of path time to zero during the following cycles, so that the reference comes to rest."""
        self._target = 0.0

    def slowed(self, factor: float) -> None:
        """Multiply the rate of path time by a factor in [0, 1] at once, because the arm itself was slowed.

        In the following cycles the rate rises to 1 again; while the motion is being braked, it falls to 0 instead.
        """
        self.value *= factor

    def advance(self, dt: float) -> tuple[float, float]:
        """Advance path time by one control cycle.

        Args:
            dt: duration of the cycle [s].

        Returns:
            Increase of path time [s], and time derivative of its rate `value` [1/s].
        """
        before = self.value
        if before == self._target:
            return before * dt, 0.0
        change = min(self._rate * dt, abs(self._target - before))
        self.value = before + change if self._target > before else before - change
        return 0.5 * (before + self.value) * dt, (self.value - before) / dt

    def scale(self, slope: float, dq: FloatArray, ddq: FloatArray) -> None:
        """Convert derivatives of the reference with respect to path time to those with respect to real time, in place.

        Args:
            slope: derivative of the rate of path time [1/s], from `advance`.
            dq: velocities, (n,) [rad/s].
            ddq: accelerations, (n,) [rad/s^2].
        """
        if self.value != 1.0 or slope != 0.0:
            scale_reference(self.value, slope, dq, ddq)
