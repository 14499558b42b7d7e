"""How uneven the stamps of states come: on a host that does other things too, more than robot.yaml says.

A stamp that is off by e shifts the positions of all joints by v e, and torques act for a time that is off by as much.
"""

import math
from statistics import median

MEMORY_S = 1.0
FIRST = 21  # intervals whose median is the cycle, until more are known


class StampJitter:
    """The deviation of stamps from an even cycle, as it was lately; states that were lost leave whole cycles out.

    Args:
        least_s: what it is at least, as robot.yaml says [s].

    Attributes:
        deviation_s: of one stamp [s].
    """

    def __init__(self, least_s: float) -> None:
        self._least_s = self.deviation_s = least_s
        self._cycle_s = self._square = 0.0
        self._first: list[float] = []

    def update(self, dt: float) -> None:
        """The next state came dt [s] after the last."""
        if len(self._first) < FIRST:
            self._first.append(dt)
            self._cycle_s = median(self._first)
        share, cycles = min(dt / MEMORY_S, 1.0), max(1, round(dt / self._cycle_s))
        off = dt - cycles * self._cycle_s
        self._cycle_s += share * off / cycles
        self._square += share * (off * off - self._square)
        self.deviation_s = max(self._least_s, math.sqrt(0.5 * self._square))  # an interval has two stamps
