"""Scaling of path time: a motion runs as planned, slower, or not at all, along an unchanged path.

A cancelled or paused motion brakes along its path, so it stays where it was checked to be safe.
"""

import numpy as np

from dynid.robot import FloatArray
from dynid.trajectory.sampling import scale_reference

BRAKE_RAD_S2 = 4.0  # largest additional acceleration of the fastest joint by braking and restarting
LEAST_PEAK_RAD_S = 0.4  # least peak velocity assumed for the braking rate, so that slow motions brake gently


class PathTimeScaling:
    """Rate at which the time of a path passes, between 0 (standing) and 1 (as planned)."""

    def __init__(self, size: int) -> None:
        self.value = self._target = 1.0
        self._rate = 1.0
        scale_reference(1.0, 0.0, np.zeros(size), np.zeros(size))  # compile now, not when the arm must brake

    @property
    def standing(self) -> bool:
        """Whether the path has come to rest."""
        return self.value == 0.0

    def begin(self, peak_velocity: float) -> None:
        """Start at the planned rate along a path with a peak velocity of `peak_velocity` [rad/s]."""
        self.value = self._target = 1.0
        self._rate = BRAKE_RAD_S2 / max(peak_velocity, LEAST_PEAK_RAD_S)

    def brake(self) -> None:
        """Brake the path to rest, where it stays."""
        self._target = 0.0

    def slowed(self, factor: float) -> None:
        """Multiply the rate by a factor in [0, 1] at once, because the arm was slowed; then it rises again."""
        self.value *= factor

    def advance(self, dt: float) -> tuple[float, float]:
        """Advance the scaling by dt [s]; return the path time that passed [s] and the slope of the rate [1/s]."""
        before = self.value
        if before == self._target:
            return before * dt, 0.0
        change = min(self._rate * dt, abs(self._target - before))
        self.value = before + change if self._target > before else before - change
        return 0.5 * (before + self.value) * dt, (self.value - before) / dt

    def scale(self, slope: float, dq: FloatArray, ddq: FloatArray) -> None:
        """Convert derivatives by path time to those by time in place: dq, ddq, (n,) [rad/s, rad/s^2]; slope [1/s]."""
        if self.value != 1.0 or slope != 0.0:
            scale_reference(self.value, slope, dq, ddq)
