"""Which torques were in force between two states, by what the driver wrote in answer to each.

A state is read, its answer is written a moment later and holds until the next one is written. What a controller
commanded last is another thing: it answers a state that the driver may not have read yet, or one of some cycles ago.
"""

from collections import deque

import numpy as np

from dynid.robot import FloatArray

KEPT = 256  # answers; a longer time between two states is a gap, after which everything begins anew


class InForce:
    """What a driver wrote, a cycle at a time.

    Args:
        size: of the robot, n.
        delay_s: from the stamp of a state to where its answer is in force [s].

    Attributes:
        delay_s: as given; it may be changed.
    """

    def __init__(self, size: int, delay_s: float = 0.0) -> None:
        self._nothing, self.delay_s = np.zeros(size), delay_s
        self._written: deque[tuple[int, FloatArray]] = deque(maxlen=KEPT)

    def note(self, stamp_ns: int, tau: FloatArray) -> None:
        """The answer to the state of this stamp [ns] is tau (n,) [N m]; one that is no newer does not count."""
        begins_ns = stamp_ns + round(self.delay_s * 1e9)
        if not self._written or begins_ns > self._written[-1][0]:
            self._written.append((begins_ns, tau))

    def between(self, begin_ns: int, end_ns: int) -> FloatArray:
        """The mean torque (n,) [N m] from one stamp to a later one; nothing is in force before the first answer."""
        total, until_ns = self._nothing, end_ns
        for begins_ns, tau in reversed(self._written):
            from_ns = max(begins_ns, begin_ns)
            if from_ns < until_ns:
                total, until_ns = total + tau * (until_ns - from_ns), from_ns
            if begins_ns <= begin_ns:
                break
        return total / (end_ns - begin_ns) if end_ns > begin_ns else total
