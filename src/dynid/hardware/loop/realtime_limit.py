"""The kernel's limit of real-time programs: whether it leaves a control loop enough room, and whether it struck."""

import time
from collections import deque

from dynid.recording.periodic_holes import RealtimeLimit, named_holes

KEPT_HOLES = 64
SHORTEST_HOLE_NS = 5_000_000
# Of what real-time programs may take together: more leaves an executor on the same processor no room, or nothing spare.
MOST_WITH_OTHERS, MOST_ALONE = 0.55, 0.9


def room_warning(share: float, processors: int, limit: RealtimeLimit | None) -> str:
    """Return that real-time programs have too little room beside a driver, and what helps; "" if they have enough.

    Args:
        share: what the driver takes of a processor under a real-time policy.
        processors: how many it may use; with one, the executor may have to share it.
        limit: of real-time programs; None if there is none.
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
    """Measures what share of a processor this process takes, from one reading to the next.

    Attributes:
        share: the last one; 0 before it is known.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self._before: tuple[int, int] | None = None

    def restart(self) -> None:
        """Begin anew."""
        self._before = None

    def note(self, longest_s: float = 1.0) -> None:
        """Read the clocks; a share is measured over this time at least [s]."""
        now = time.monotonic_ns(), time.process_time_ns()
        if self._before is None:
            self._before = now
        elif now[0] - self._before[0] >= longest_s * 1e9:
            self.share = (now[1] - self._before[1]) / (now[0] - self._before[0])
            self._before = now


class HoleWatch:
    """Keeps the last times at which a control loop stood still.

    Args:
        period_ns: of the cycle [ns].
        limit: of real-time programs; None if there is none.
    """

    def __init__(self, period_ns: int, limit: RealtimeLimit | None) -> None:
        self._period_ns, self._limit, self._before_ns = period_ns, limit, 0
        self._holes = deque[tuple[int, int]](maxlen=KEPT_HOLES)

    def note(self, began_ns: int) -> None:
        """Take the time at which a cycle began [ns]."""
        hole_ns = began_ns - self._before_ns - self._period_ns
        if hole_ns > SHORTEST_HOLE_NS and self._before_ns:
            self._holes.append((began_ns, hole_ns))
        self._before_ns = began_ns

    @property
    def text(self) -> str:
        """What the holes are if they came with the period of the limit; "" if they did not."""
        if self._limit is None or len(self._holes) <= 1:
            return ""
        holes = tuple(self._holes)
        return named_holes([end * 1e-9 for end, _ in holes], [length * 1e-9 for _, length in holes], self._limit)
