"""Clock of the driver: the system clock, unless a simulation provides a simulated clock."""

import time
from collections.abc import Callable
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the ID of the system's present boot, or '' on a system without such an ID.

    Monotonic times of two processes are comparable if both processes have the same ID.
    """
    return BOOT_ID.read_text(encoding="utf-8").strip() if BOOT_ID.is_file() else ""


class Clock:
    """Clock interface of the driver; this implementation uses the system clock."""

    # Monotonic time, which never steps [ns]. It is the system's function itself, because a control cycle calls it a
    # dozen times.
    monotonic_ns = staticmethod(time.monotonic_ns)

    def line_ns(self) -> int:
        """Return the present time [ns] on the clock that measures transfers on the serial line.

        This clock is `monotonic_ns`, except for a simulated arm with a pausing clock. A pausing clock may stop during a
        transfer, so the system clock then measures transfers.
        """
        return self.monotonic_ns()

    def realtime_ns(self) -> int:
        """Return the wall clock's time since the epoch [ns]; it may step."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Sleep for at least `seconds`."""
        time.sleep(seconds)

    def wait_until(self, deadline_ns: int, awaits: Callable[[], bool]) -> None:
        """Wait until the start of a control cycle; return at once if this time has passed.

        Args:
            deadline_ns: start of the cycle on the clock `monotonic_ns` [ns].
            awaits: function that returns whether an input of the cycle is still missing. The system clock ignores it;
                the clock of a simulated arm may pause until the input arrives.
        """
        ahead_ns = deadline_ns - self.monotonic_ns()
        if ahead_ns > 0:
            self.sleep(ahead_ns * 1e-9)

    def pace(self, period_ns: int) -> None:
        """Announce the period of the control cycles [ns] to a clock that may pause; the system clock ignores it."""
        return

    def end_pacing(self) -> None:
        """Announce that no further control cycles follow, so that a clock that may pause no longer does.

        The system clock ignores it.
        """
        return


SYSTEM_CLOCK = Clock()
CHECK_INTERVAL_S = 0.1  # longest wait of one attempt
LONGEST_FACTOR = 3.0  # ratio of the longest wait by the system clock to the timeout by the arm's clock


def succeeds_within(clock: Clock, attempt: Callable[[float], bool], timeout_s: float) -> bool:
    """Repeat an attempt until it succeeds or a timeout on the arm's clock is over; return whether it succeeded.

    The clock of a simulated arm may pause while the host is busy. The time on the system clock is therefore limited
    separately, to `LONGEST_FACTOR` times the timeout.

    Args:
        clock: the arm's clock.
        attempt: function of a wait time [s] that waits for at most this time and returns whether the attempt succeeded.
        timeout_s: timeout on the arm's clock [s].
    """
    end_ns = clock.monotonic_ns() + round(timeout_s * 1e9)
    last_s = time.monotonic() + LONGEST_FACTOR * timeout_s
    while not attempt(min(CHECK_INTERVAL_S, timeout_s)):
        if clock.monotonic_ns() >= end_ns or time.monotonic() >= last_s:
            return False
    return True
