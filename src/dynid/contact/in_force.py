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
        newest_ns: stamp of the newest answer; -1 without one.
        missing: intervals between two states to the first of which no answer is known; the one before is taken.
    """

    def __init__(self, size: int, delay_s: float = 0.0) -> None:
        self._nothing, self.delay_s, self.missing = np.zeros(size), delay_s, 0
        self._written: deque[tuple[int, FloatArray]] = deque(maxlen=KEPT)

    @property
    def newest_ns(self) -> int:
        """See the class."""
        return self._written[-1][0] if self._written else -1

    def note(self, stamp_ns: int, tau: FloatArray) -> None:
        """The answer to the state of this stamp [ns] is tau (n,) [N m]; one that comes again does not count.

        A stamp that is older than the last begins anew: the clock was set, or the driver is another one.
        """
        if stamp_ns < self.newest_ns:
            self._written.clear()
        if stamp_ns != self.newest_ns:
            self._written.append((stamp_ns, tau))

    def between(self, begin_ns: int, end_ns: int) -> FloatArray:
        """The mean torque (n,) [N m] from one stamp to a later one; nothing is in force before the first answer."""
        total, until_ns, delay_ns = self._nothing, end_ns, round(self.delay_s * 1e9)
        answered = False
        for stamp_ns, tau in reversed(self._written):
            from_ns = max(stamp_ns + delay_ns, begin_ns)
            answered |= stamp_ns == begin_ns
            if from_ns < until_ns:
                total, until_ns = total + tau * (until_ns - from_ns), from_ns
            if stamp_ns + delay_ns <= begin_ns:
                break
        self.missing += not answered
        return total / (end_ns - begin_ns) if end_ns > begin_ns else total
