"""History of the torques that the driver wrote, and their mean between two states.

The driver reads a state and writes its answer, a torque, a moment later. The torque acts until the next one is written.
The history stores these answers instead of the controller's last command, which may belong to another state.
"""

from collections import deque

import numpy as np

from dynid.robot import FloatArray

HISTORY = 256  # length of the history; a longer time between two states is a gap that clears it


class TorqueHistory:
    """History of the torques that a driver wrote: one torque vector, called the answer, for each state that it read.

    Args:
        size: number of joints n.
        delay_s: delay from the timestamp of a state until the answer to it acts [s].

    Attributes:
        delay_s: delay from the timestamp of a state until the answer to it acts [s]; may be changed.
        newest_ns: timestamp of the newest answered state [ns]; -1 before the first.
        missing: number of calls of `between` for which no answer to the state at `begin_ns` was stored. The answer to
            an earlier state was used instead.
    """

    def __init__(self, size: int, delay_s: float = 0.0) -> None:
        self._nothing, self.delay_s, self.missing = np.zeros(size), delay_s, 0
        self._written: deque[tuple[int, FloatArray]] = deque(maxlen=HISTORY)

    @property
    def newest_ns(self) -> int:
        """Timestamp of the newest state for which the driver's torque is known [ns]; -1 before the first."""
        return self._written[-1][0] if self._written else -1

    def note(self, stamp_ns: int, tau: FloatArray) -> None:
        """Store the torque that the driver wrote in answer to a state; a repeated timestamp is ignored.

        A timestamp earlier than the newest one clears the history: the clock was set, or the driver was replaced.

        Args:
            stamp_ns: timestamp of the state [ns].
            tau: torque that the driver wrote, (n,) [N m].
        """
        if stamp_ns < self.newest_ns:
            self._written.clear()
        if stamp_ns != self.newest_ns:
            self._written.append((stamp_ns, tau))

    def between(self, begin_ns: int, end_ns: int) -> FloatArray:
        """Return the mean of the driver's torques between two timestamps, (n,) [N m].

        The torque counts as zero before the first stored torque takes effect.

        Args:
            begin_ns: first timestamp [ns].
            end_ns: second timestamp [ns].
        """
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
