"""Whether a machine keeps the rate of its control cycle: judged by the cycle itself, before torque comes on.

The line says how fast a cycle can be; what else the machine has to do, only cycles show that are paced and published
while all nodes are there. Each window of such cycles is kept or not. A rate that is not kept gives way to the next
lower one. A simulated arm whose clock is paused waits for the machine, so it needs no trial.
"""

from dataclasses import dataclass

from dynid.hardware.arm.cycle_rate import RATES_HZ
from dynid.hardware.loop.cycle_meter import CycleCounts, CycleMeter

WINDOW_S = 1.0
MISSING_SHARE = 0.01  # of the planned cycles: more of them missing, and the rate is not kept
# Of the cycles that ran, begun more than half a period late: as many leave no room for the commander and the recorder,
# which take as much of the machine as the driver once the arm moves.
LATE_SHARE = 0.25
KEPT_WINDOWS = 2  # kept in sequence before a rate counts as kept
SETTLING_WINDOWS = 4  # not kept before a rate is lowered unasked: programs may still be starting
DECIDING_WINDOWS = 2  # the same when torque is asked for
ON_TRIAL = "on trial"
MARK_NS = 200_000_000  # between two readings of a running loop's counters


@dataclass(frozen=True)
class Window:
    """The cycles of a time in which a rate was tried.

    Attributes:
        rate_hz: the rate.
        planned: cycles that this time has room for.
        missing: those without a complete sample.
        incomplete: those that ran, and lack a servo's reply.
        late: those that began more than half a period late.
    """

    rate_hz: int
    planned: int
    missing: int
    incomplete: int
    late: int

    @classmethod
    def between(cls, rate_hz: int, first: CycleCounts, last: CycleCounts) -> "Window":
        """Return the cycles between two readings of the loop's counters."""
        planned = round((last.now_ns - first.now_ns) * 1e-9 * rate_hz)
        incomplete = last.incomplete - first.incomplete
        missing = max(0, planned - (last.cycles - first.cycles)) + incomplete
        return cls(rate_hz, planned, missing, incomplete, last.late - first.late)

    @property
    def kept(self) -> bool:
        """Whether the rate was kept; one cycle may be under way."""
        return self.missing <= MISSING_SHARE * self.planned + 1 and self.late <= LATE_SHARE * self.planned

    @property
    def on_line(self) -> bool:
        """Whether what is missing are servos' replies: most missing cycles lack one, and cycles begin in time."""
        return self.late <= LATE_SHARE * self.planned and 2 * self.incomplete > self.missing

    @property
    def cause(self) -> str:
        """What keeps the rate from being kept."""
        return "servos do not reply in time" if self.on_line else "this machine is too busy or too slow"

    def said(self, since: str = "") -> str:
        """Return the figures and their cause in words; `since` says since when, such as "since torque came on"."""
        late = f" and {self.late} late" if self.late else ""
        span = f" {since}" if since else ""
        figures = f"of {self.planned} cycles at {self.rate_hz} Hz{span}, {self.missing} were missing{late}"
        return figures if self.kept else f"{figures}: {self.cause}"


class RateTrial:
    """Decides, window after window, at which rate the cycle continues.

    Args:
        rate_hz: the first to try, the highest that the line allows, or the one that a user has fixed.
        fixed: a user has fixed it: it is judged, and not lowered.
        needed: whether the machine matters; without it, every rate is kept.

    Attributes:
        rate_hz: the present rate.
        last: the last window at this rate; None before the first.
    """

    def __init__(self, rate_hz: int, *, fixed: bool = False, needed: bool = True) -> None:
        self.rate_hz, self.fixed, self.needed = rate_hz, fixed, needed
        self.last: Window | None = None
        self._failures = self._successes = 0  # since the rate was kept for the last time; in sequence

    @property
    def kept(self) -> bool:
        """Whether the rate was kept in the last windows."""
        return not self.needed or self._successes >= KEPT_WINDOWS

    def note(self, window: Window) -> None:
        """Take one more window at the present rate."""
        self.last = window
        self._successes = self._successes + 1 if window.kept else 0
        self._failures = 0 if self.kept else self._failures + (not window.kept)

    def lower(self, after: int) -> bool:
        """Choose the next lower rate after so many windows that were not kept; return whether it was done."""
        slower = [rate for rate in RATES_HZ if rate < self.rate_hz]
        if self.kept or self.fixed or self._failures < after or not slower:
            return False
        self.rate_hz, self.last, self._failures, self._successes = slower[0], None, 0, 0
        return True

    def exhausted(self, after: int) -> bool:
        """Whether not even the lowest rate was kept, in so many windows."""
        return self.needed and not self.fixed and self.rate_hz == RATES_HZ[-1] and self._failures >= after

    @property
    def text(self) -> str:
        """How the rate is kept, in a few words; begins with `ON_TRIAL` until that is decided."""
        if not self.needed:
            return "kept: the simulated arm waits for the machine"
        said = self.last.said() if self.last is not None else "no cycles yet"
        if self.fixed:
            return f"fixed by rate_hz: {said}"
        return f"{'kept' if self.kept else 'not kept' if self.exhausted(DECIDING_WINDOWS) else ON_TRIAL}: {said}"


class RunWatch:
    """Watches which cycles are missed while torque is on, so that whoever gives a run up can name that first.

    The newest cycles do not count: a servo that falls silent makes them long by itself, before that is a fault.

    Args:
        period_ns: of the cycle [ns].
    """

    def __init__(self, period_ns: int) -> None:
        self._rate_hz = round(1e9 / period_ns)
        self._first: CycleCounts | None = None
        self._marks: tuple[CycleCounts, CycleCounts] | None = None

    def begin(self, counts: CycleCounts) -> None:
        """Torque came on."""
        self._first, self._marks = counts, (counts, counts)

    def note(self, now_ns: int, meter: CycleMeter) -> None:
        """Take the loop's counters at a time of its clock [ns]; to be called in every cycle that follows commands."""
        if self._marks is not None and now_ns - self._marks[1].now_ns >= MARK_NS:
            self._marks = self._marks[1], meter.counts(now_ns)

    @property
    def complaint(self) -> str:
        """That this machine missed more cycles than it may, since torque came on; "" if it did not."""
        if self._first is None or self._marks is None:
            return ""
        window = Window.between(self._rate_hz, self._first, self._marks[0])
        return "" if window.kept or window.on_line else window.said("since torque came on") + "; "
