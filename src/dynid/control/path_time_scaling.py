"""How fast a motion runs along its path: as planned, slower, or not at all. The path itself never changes.

Braking along the path instead of beside it keeps a cancelled or paused motion where it was checked to be safe.
"""

import numpy as np

from dynid.robot import FloatArray
from dynid.trajectory.sampling import scale_reference

BRAKE_RAD_S2 = 4.0  # what braking and getting under way again may add to the acceleration of the fastest joint
SLOWEST_PEAK_RAD_S = 0.4  # a slower motion is not braked more sharply than one with this peak velocity


class PathTimeScaling:
    """The rate at which the time of a path passes, between 0 (standing) and 1 (as planned)."""

    def __init__(self, size: int) -> None:
        self.value = self._target = 1.0
        self._rate = 1.0
        scale_reference(1.0, 0.0, np.zeros(size), np.zeros(size))  # compiled now, not when the arm must brake

    @property
    def standing(self) -> bool:
        """Whether the path has come to rest."""
        return self.value == 0.0

    def begin(self, peak_velocity: float) -> None:
        """Run as planned along a path whose fastest joint reaches `peak_velocity` [rad/s]."""
        self.value = self._target = 1.0
        self._rate = BRAKE_RAD_S2 / max(peak_velocity, SLOWEST_PEAK_RAD_S)

    def brake(self) -> None:
        """Come to rest and stay there."""
        self._target = 0.0

    def slowed(self, factor: float) -> None:
        """At once slower by a factor in [0, 1]: for when the arm was slowed; then under way again."""
        self.value *= factor

    def advance(self, dt: float) -> tuple[float, float]:
        """Pass dt [s]; returns how much of it the path's time passed [s], and the change of the rate [1/s]."""
        before = self.value
        if before == self._target:
            return before * dt, 0.0
        change = min(self._rate * dt, abs(self._target - before))
        self.value = before + change if self._target > before else before - change
        return 0.5 * (before + self.value) * dt, (self.value - before) / dt

    def scale(self, slope: float, dq: FloatArray, ddq: FloatArray) -> None:
        """Velocities and accelerations by path time, (n,) [rad/s, rad/s^2], as those by time, in place; slope [1/s]."""
        if self.value != 1.0 or slope != 0.0:
            scale_reference(self.value, slope, dq, ddq)
