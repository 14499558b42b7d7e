"""Kernel limit of real-time programs: whether it leaves room for a control loop, and whether it has stopped one."""

import time
from collections import deque

from dynid.recording.periodic_gaps import RealtimeLimit, throttling_sentence

KEPT_GAPS = 64  # number of gaps that are kept
SHORTEST_GAP_NS = 5_000_000  # shortest delay of a cycle that counts as a gap
# Largest share of the limit for the driver, if an executor needs the same processor, and if the driver is alone on it.
MOST_WITH_OTHERS, MOST_ALONE = 0.55, 0.9


def room_warning(share: float, processors: int, limit: RealtimeLimit | None) -> str:
    """Return a warning that a driver leaves too little time for other real-time programs; "" if it leaves enough.

    Args:
        share: share of a processor that the driver uses under a real-time policy.
        processors: number of usable processors; with one, the executor may have to share it.
        limit: limit of real-time programs; None if there is none.
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
    """Meter of this process' share of a processor between two readings.

    Attributes:
        share: last measured share; 0 before the first.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self._before: tuple[int, int] | None = None

    def restart(self) -> None:
        """Start a new measurement of the processor share."""
        self._before = None

    def note(self, longest_s: float = 1.0) -> None:
        """Read the clocks, and update the share if the last update is at least `longest_s` ago [s]."""
        now = time.monotonic_ns(), time.process_time_ns()
        if self._before is None:
            self._before = now
        elif now[0] - self._before[0] >= longest_s * 1e9:
            self.share = (now[1] - self._before[1]) / (now[0] - self._before[0])
            self._before = now


class GapWatch:
    """Record of the last gaps in which a control loop stood still.

    Args:
        period_ns: cycle time [ns].
        limit: limit of real-time programs; None if there is none.
    """

    def __init__(self, period_ns: int, limit: RealtimeLimit | None) -> None:
        self._period_ns, self._limit, self._before_ns = period_ns, limit, 0
        self._holes = deque[tuple[int, int]](maxlen=KEPT_GAPS)

    def note(self, began_ns: int) -> None:
        """Record the start time of a cycle [ns]."""
        gap_ns = began_ns - self._before_ns - self._period_ns
        if gap_ns > SHORTEST_GAP_NS and self._before_ns:
            self._holes.append((began_ns, gap_ns))
        self._before_ns = began_ns

    @property
    def text(self) -> str:
        """Explanation of the gaps if they recur with the period of the kernel's limit; "" if they do not."""
        if self._limit is None or len(self._holes) <= 1:
            return ""
        holes = tuple(self._holes)
        return throttling_sentence(
            [end * 1e-9 for end, _ in holes], [length * 1e-9 for _, length in holes], self._limit
        )
