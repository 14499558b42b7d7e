"""The clock that the driver lives by: the system's, unless a lock-step run or a paused arm brings its own."""

import time
from collections.abc import Callable
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return what is the same for all processes that read the same monotonic clock; "" if the system does not say."""
    return BOOT_ID.read_text(encoding="utf-8").strip() if BOOT_ID.is_file() else ""


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
LOOK_S = 0.1
LONGEST_FACTOR = 3.0


def wait_in_time(clock: Clock, attempt: Callable[[float], bool], timeout_s: float) -> bool:
    """Whether something succeeds within a time of this clock.

    A clock that is held by a busy host passes slowly, and an arm that is lowered in its time takes as much longer. So
    it may take up to `LONGEST_FACTOR` times as long by the system's clock.

    Args:
        clock: the arm's.
        attempt: waits so long at most [s]; returns whether it succeeded.
        timeout_s: of the arm's time [s].
    """
    end_ns = clock.monotonic_ns() + round(timeout_s * 1e9)
    last_s = time.monotonic() + LONGEST_FACTOR * timeout_s
    while not attempt(min(LOOK_S, timeout_s)):
        if clock.monotonic_ns() >= end_ns or time.monotonic() >= last_s:
            return False
    return True
