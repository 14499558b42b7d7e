"""Clock of the driver: the system's, unless a lock-step run or a paused simulated arm provides its own."""

import time
from collections.abc import Callable
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the ID of the system's present boot, which all processes on the same monotonic clock share.

    It is '' on a system that has no such ID.
    """
    return BOOT_ID.read_text(encoding="utf-8").strip() if BOOT_ID.is_file() else ""


class Clock:
    """Clock interface of the driver; this implementation uses the system clock."""

    # Monotonic time, which never steps [ns]. It is the system's function itself, because a control cycle calls it a
    # dozen times.
    monotonic_ns = staticmethod(time.monotonic_ns)

    def line_ns(self) -> int:
        """Return the time by which transfers on the line are measured [ns].

        It equals `monotonic_ns`, except for a simulated arm with a pausing clock: that clock may pause during a
        transfer, so transfers are measured in the system's time.
        """
        return self.monotonic_ns()

    def realtime_ns(self) -> int:
        """Return the wall clock's time since the epoch [ns]; it may step."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Sleep for at least `seconds`."""
        time.sleep(seconds)

    def wait_until(self, deadline_ns: int, awaits: Callable[[], bool]) -> None:
        """Wait until the start of a control cycle; return at once if it has passed.

        Args:
            deadline_ns: start of the cycle on the clock `monotonic_ns` [ns].
            awaits: returns whether an input that the cycle needs is still missing. A system clock does not wait for the
                input; the clock of a simulated arm may pause until the input arrives.
        """
        ahead_ns = deadline_ns - self.monotonic_ns()
        if ahead_ns > 0:
            self.sleep(ahead_ns * 1e-9)

    def pace(self, period_ns: int) -> None:
        """Announce the period of the control cycles [ns] to a clock that may pause; the system clock ignores it."""
        return

    def end_pacing(self) -> None:
        """Announce the end of the control cycles to a clock that waits for them; the system clock ignores it."""
        return


SYSTEM_CLOCK = Clock()
CHECK_INTERVAL_S = 0.1  # longest wait of one attempt
LONGEST_FACTOR = 3.0  # ratio of the longest wait by the system clock to the timeout by the arm's clock


def succeeds_within(clock: Clock, attempt: Callable[[float], bool], timeout_s: float) -> bool:
    """Return whether an attempt succeeds within a timeout in the arm's time.

    The clock of a simulated arm may pause while the host is busy, so an attempt takes longer by the system clock. It
    may therefore take up to `LONGEST_FACTOR` times the timeout by the system clock.

    Args:
        clock: the arm's clock.
        attempt: called repeatedly with a wait time [s]; waits for at most this time and returns whether it succeeded.
        timeout_s: timeout in the arm's time [s].
    """
    end_ns = clock.monotonic_ns() + round(timeout_s * 1e9)
    last_s = time.monotonic() + LONGEST_FACTOR * timeout_s
    while not attempt(min(CHECK_INTERVAL_S, timeout_s)):
        if clock.monotonic_ns() >= end_ns or time.monotonic() >= last_s:
            return False
    return True
