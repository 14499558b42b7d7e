"""The clock that the driver lives by: the system's, or a simulated one that lock-step runs hand in."""

import time
from typing import Protocol


class Clock(Protocol):
    """What the driver asks of time."""

    def monotonic_ns(self) -> int:
        """Time that never steps [ns]."""
        ...

    def realtime_ns(self) -> int:
        """The wall clock: time since the epoch [ns]; it may step."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return no sooner than after so long [s]."""
        ...


class SystemClock:
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
