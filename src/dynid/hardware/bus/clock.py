"""The clock that the driver lives by: the system's, unless a lock-step run or a paused arm brings its own."""

import time
from collections.abc import Callable


class Clock:
    """What the driver asks of time; here the operating system answers."""

    def monotonic_ns(self) -> int:
        """Time that never steps [ns]."""
        return time.monotonic_ns()

    def line_ns(self) -> int:
        """Time by which bytes travel on the line [ns]: the same, but where that is held while they do."""
        return self.monotonic_ns()

    def realtime_ns(self) -> int:
        """The wall clock: time since the epoch [ns]; it may step."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Return no sooner than after so long [s]."""
        time.sleep(seconds)

    def wait_until(self, deadline_ns: int, awaits: Callable[[], bool]) -> None:
        """Return at a moment of `monotonic_ns` [ns], where a control cycle begins; at once if it has passed.

        `awaits` returns whether something that the cycle needs is still to arrive. Time does not wait for that, unless
        it is an arm's that can be held.
        """
        ahead_ns = deadline_ns - self.monotonic_ns()
        if ahead_ns > 0:
            self.sleep(ahead_ns * 1e-9)

    def pace(self, period_ns: int) -> None:
        """Cycles of this length are about to begin [ns], which matters to a time that is held within them."""
        return

    def let_go(self) -> None:
        """No more cycles will begin, which matters to a time that waits for them."""
        return


SYSTEM_CLOCK = Clock()
