"""Timestamp jitter of the arm's states, which on a busy host exceeds the value in robot.yaml.

A timestamp error e shifts the position of each joint by its velocity times e.
"""

import math
from statistics import median

MEMORY_S = 1.0
FIRST_INTERVALS = 21  # number of intervals whose median gives the initial cycle


class StampJitter:
    """Estimator of recent timestamp jitter: standard deviation of timestamps about evenly spaced times.

    An interval that contains lost states counts as several cycles.

    Args:
        least_s: lower bound of the standard deviation, from robot.yaml [s].

    Attributes:
        deviation_s: standard deviation of one timestamp [s].
    """

    def __init__(self, least_s: float) -> None:
        self._least_s = self.deviation_s = least_s
        self._cycle_s = self._square = 0.0
        self._first: list[float] = []

    def update(self, dt: float) -> None:
        """Update the standard deviation of timestamps with the time dt [s] between the last two states."""
        if len(self._first) < FIRST_INTERVALS:
            self._first.append(dt)
            self._cycle_s = median(self._first)
        share, cycles = min(dt / MEMORY_S, 1.0), max(1, round(dt / self._cycle_s))
        off = dt - cycles * self._cycle_s
        self._cycle_s += share * off / cycles
        self._square += share * (off * off - self._square)
        self.deviation_s = max(self._least_s, math.sqrt(0.5 * self._square))  # an interval has two errors
