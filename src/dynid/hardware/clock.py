"""The clock that the driver lives by: the system's, a simulated one that lock-step runs hand in, or a held one."""

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """What the driver asks of time."""

    def monotonic_ns(self) -> int:
        """Time that never steps [ns]."""
        ...

    def line_ns(self) -> int:
        """Time by which bytes travel on the line [ns]: the same, but where that is held while they do."""
        return self.monotonic_ns()

    def realtime_ns(self) -> int:
        """The wall clock: time since the epoch [ns]; it may step."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return no sooner than after so long [s]."""
        ...

    def wait_until(self, deadline_ns: int, awaits: Callable[[], bool]) -> None:
        """Return at a moment of `monotonic_ns` [ns], where a control cycle begins; at once if it has passed.

        `awaits` tells whether something that the cycle wants is still on its way. Time does not wait for that, unless
        it is an arm's that can be held.
        """
        ahead_ns = deadline_ns - self.monotonic_ns()
        if ahead_ns > 0:
            self.sleep(ahead_ns * 1e-9)

    def let_go(self) -> None:
        """No more cycles will begin, which matters to a time that waits for them."""
        return


class SystemClock(Clock):
    """The operating system's clocks."""

    def monotonic_ns(self) -> int:
        """Time that never steps [ns]."""
        return time.monotonic_ns()

    def realtime_ns(self) -> int:
        """The wall clock: time since the epoch [ns]."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Return no sooner than after so long [s]."""
        time.sleep(seconds)


SYSTEM_CLOCK = SystemClock()
