"""Kernel limit of real-time programs' processor time: warning if it is too low, and detection of its effects."""

import time
from collections import deque

from dynid.recording.periodic_gaps import RealtimeLimit, throttling_sentence

KEPT_GAPS = 64  # number of most recent gaps that are recorded
SHORTEST_GAP_NS = 5_000_000  # shortest delay of a cycle that counts as a gap
# Largest fraction of the kernel's limit for the driver, if an executor needs the same processor, and if it does not.
MOST_WITH_OTHERS, MOST_ALONE = 0.55, 0.9


def room_warning(share: float, processors: int, limit: RealtimeLimit | None) -> str:
    """Return a warning that the driver leaves too little of the time that the kernel grants real-time programs.

    Args:
        share: fraction of one processor's time that the driver uses under a real-time policy.
        processors: number of usable processors. If it is 1, the driver must leave more of the limit, because the
            executor of motions runs on the same processor.
        limit: the kernel's limit of real-time processor time (RT throttling); None if there is none.

    Returns:
        The warning; "" if the driver leaves enough of the limit, or if there is no limit.
    """
    if limit is None or share <= (MOST_WITH_OTHERS if processors == 1 else MOST_ALONE) * limit.share:
        return ""
    return (
        f"the driver takes {share:.0%} of a processor with real-time priority, and the kernel stops real-time programs "
        f"that take more than {limit.share:.0%} of one for {limit.pause_s * 1e3:.0f} ms in each {limit.period_s:g} s "
        "(sched_rt_runtime_us): give the executor another processor or no real-time priority, lower rate_hz, or raise "
        "that limit"
    )


class ShareMeter:
    """Meter of the processor time of this process, as a fraction of elapsed time.

    Attributes:
        share: last measured fraction of one processor's time; 0 before the first measurement.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self._before: tuple[int, int] | None = None

    def restart(self) -> None:
        """Start a new measurement of the used processor time with the next call of `note`."""
        self._before = None

    def note(self, longest_s: float = 1.0) -> None:
        """Update the used fraction of processor time if at least `longest_s` [s] have passed since the last update.

        The first call only starts the measurement.
        """
        now = time.monotonic_ns(), time.process_time_ns()
        if self._before is None:
            self._before = now
        elif now[0] - self._before[0] >= longest_s * 1e9:
            self.share = (now[1] - self._before[1]) / (now[0] - self._before[0])
            self._before = now


class GapWatch:
    """Record of the last gaps in which a control loop did not run although a cycle was due.

    Args:
        period_ns: cycle time [ns].
        limit: kernel limit of real-time programs; None if there is none.
    """

    def __init__(self, period_ns: int, limit: RealtimeLimit | None) -> None:
        self._period_ns, self._limit, self._before_ns = period_ns, limit, 0
        self._holes = deque[tuple[int, int]](maxlen=KEPT_GAPS)

    def note(self, began_ns: int) -> None:
        """Record `began_ns`, the start time of a cycle [ns], and a gap before it, if there was one."""
        gap_ns = began_ns - self._before_ns - self._period_ns
        if gap_ns > SHORTEST_GAP_NS and self._before_ns:
            self._holes.append((began_ns, gap_ns))
        self._before_ns = began_ns

    @property
    def text(self) -> str:
        """Message that RT throttling caused the recorded gaps: the kernel stops real-time programs that run too long.

        The message is "" if the kernel has no such limit, or if the gaps do not recur with the limit's period.
        """
        if self._limit is None or len(self._holes) <= 1:
            return ""
        holes = tuple(self._holes)
        return throttling_sentence(
            [end * 1e-9 for end, _ in holes], [length * 1e-9 for _, length in holes], self._limit
        )
