"""How uneven the stamps of states come: on a host that does other things too, more than robot.yaml says.

A stamp that is off by e shifts the positions of all joints by v e, and torques act for a time that is off by as much.
"""

import math

MEMORY_S = 1.0
OFF_MOST = 0.5  # of a cycle: what is farther from it is a state that was lost


class StampJitter:
    """The deviation of stamps from an even cycle, as it was lately.

    Args:
        least_s: what it is at least, as robot.yaml says [s].

    Attributes:
        deviation_s: of one stamp [s].
    """

    def __init__(self, least_s: float) -> None:
        self._least_s = self.deviation_s = least_s
        self._cycle_s = self._square = 0.0

    def update(self, dt: float) -> None:
        """The next state came dt [s] after the last."""
        if not self._cycle_s:
            self._cycle_s = dt
        most, share = OFF_MOST * self._cycle_s, min(dt / MEMORY_S, 1.0)
        off = min(max(dt - self._cycle_s, -most), most)
        self._cycle_s += share * off
        self._square += share * (off * off - self._square)
        self.deviation_s = max(self._least_s, math.sqrt(0.5 * self._square))  # an interval has two stamps
