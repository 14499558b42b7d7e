"""Trial of whether a machine keeps the rate of its control cycle, in real cycles before torque comes on.

The serial line limits the rate, but so does the machine's other load, which shows only while all nodes run. Therefore
each time window of real cycles is evaluated. The rate counts as kept if few cycles are missing or late, and if the
driver leaves enough processor time for nodes that work only once the arm moves. A rate that is not kept is replaced by
the next lower rate. A simulated arm whose clock pauses waits for the machine, so it needs no trial.
"""

from dataclasses import dataclass

from dynid.hardware.arm.cycle_rate import RATES_HZ
from dynid.hardware.loop.cycle_meter import CycleCounts, CycleMeter

WINDOW_S = 1.0  # length of a window
MISSING_SHARE = 0.01  # largest fraction of missing cycles in a window in which the rate counts as kept
# Largest fraction of late cycles in a window in which the rate counts as kept. More would leave no time for the
# commander and the recorder, which need as much processor time as the driver once the arm moves.
LATE_SHARE = 0.25
# Largest share of the usable processors' time that the driver may take. The other nodes of the chain idle during the
# trial, and need processor time once the arm moves: on one processor, of which the driver took 29 to 35 % at 1 kHz, up
# to 60 % of the cycles were then missed; none at 500 Hz, where it took 22 to 25 %.
MOST_SHARE = 0.28
KEPT_WINDOWS = 2  # consecutive kept windows before a rate counts as kept
SETTLING_WINDOWS = 4  # failed windows before a rate is lowered by itself: programs may still be starting
DECIDING_WINDOWS = 2  # failed windows before a rate is lowered when torque is requested
ON_TRIAL = "on trial"
MARK_NS = 200_000_000  # time between two readings of a running loop's counters


@dataclass(frozen=True)
class Window:
    """Numbers of cycles in a time window in which a cycle rate was tried.

    Attributes:
        rate_hz: cycle rate [Hz].
        planned: number of cycles that fit into the window at this rate.
        missing: number of cycles without a complete sample, because they did not run or were incomplete.
        incomplete: number of cycles that ran, but lack a servo's reply.
        late: number of cycles that began more than half a period late.
        share: fraction of the usable processors' time that the driver took; 0 if it was not measured.
    """

    rate_hz: int
    planned: int
    missing: int
    incomplete: int
    late: int
    share: float = 0.0

    @classmethod
    def between(cls, rate_hz: int, first: CycleCounts, last: CycleCounts, share: float = 0.0) -> "Window":
        """Return the time window between two readings of the loop's counters, `first` and `last`.

        Args:
            rate_hz: cycle rate [Hz].
            first: counters at the start of the window.
            last: counters at the end of the window.
            share: fraction of the usable processors' time that the driver took; 0 if it was not measured.
        """
        planned = round((last.now_ns - first.now_ns) * 1e-9 * rate_hz)
        incomplete = last.incomplete - first.incomplete
        missing = max(0, planned - (last.cycles - first.cycles)) + incomplete
        return cls(rate_hz, planned, missing, incomplete, last.late - first.late, share)

    @property
    def kept(self) -> bool:
        """Whether the cycle rate was kept in this time window.

        The rate was kept if few cycles were missing or late, and if the driver left enough processor time.
        """
        return self._on_time and not self.crowded

    @property
    def _on_time(self) -> bool:
        """Whether few cycles were missing or late; a cycle that is still in progress does not count as missing."""
        return self.missing <= MISSING_SHARE * self.planned + 1 and self.late <= LATE_SHARE * self.planned

    @property
    def crowded(self) -> bool:
        """Whether the driver leaves too little processor time for other nodes; always False at the lowest rate."""
        return self.share > MOST_SHARE and self.rate_hz > RATES_HZ[-1]

    @property
    def caused_by_servos(self) -> bool:
        """Whether servos cause the missed cycles: most of these lack a servo's reply, and few cycles begin late."""
        return self.late <= LATE_SHARE * self.planned and 2 * self.incomplete > self.missing

    @property
    def cause(self) -> str:
        """Reason why the cycle rate was not kept in this time window."""
        if self._on_time:
            return f"the driver alone takes {self.share:.0%} of the processors' time, which other nodes need, too"
        return "servos do not reply in time" if self.caused_by_servos else "this machine is too busy or too slow"

    def describe(self, since: str = "") -> str:
        """Return text with the numbers of missing and late cycles, and their cause if the rate was not kept.

        `since` names the start of the window, such as "since torque came on".
        """
        late = f" and {self.late} late" if self.late else ""
        span = f" {since}" if since else ""
        figures = f"of {self.planned} cycles at {self.rate_hz} Hz{span}, {self.missing} were missing{late}"
        return figures if self.kept else f"{figures}: {self.cause}"


class RateTrial:
    """Decision about the rate of the control cycle, made anew after each time window.

    Args:
        rate_hz: first rate to try [Hz], either the highest that the line allows or one that a user has fixed.
        fixed: whether a user has fixed the rate; a fixed rate is judged, but not lowered.
        needed: whether a trial is needed. It is not needed if a simulated arm's clock waits for this machine; every
            rate then counts as kept.

    Attributes:
        rate_hz: present rate [Hz].
        fixed: whether a user has fixed the rate.
        needed: whether a trial is needed.
        last: last time window at the present rate; None before the first window.
    """

    def __init__(self, rate_hz: int, *, fixed: bool = False, needed: bool = True) -> None:
        self.rate_hz, self.fixed, self.needed = rate_hz, fixed, needed
        self.last: Window | None = None
        self._failures = self._successes = 0  # windows not kept since the last success; consecutive kept windows

    @property
    def kept(self) -> bool:
        """Whether the cycle rate was kept in the last `KEPT_WINDOWS` time windows, or no trial is needed."""
        return not self.needed or self._successes >= KEPT_WINDOWS

    def note(self, window: Window) -> None:
        """Record the result of another time window at the present rate."""
        self.last = window
        self._successes = self._successes + 1 if window.kept else 0
        self._failures = 0 if self.kept else self._failures + (not window.kept)

    def lower(self, after: int) -> bool:
        """Choose the next lower cycle rate if the present one has failed in `after` time windows or more.

        The number of failed windows starts from 0 when a rate is chosen, and whenever the rate is judged as kept. A
        fixed rate is never lowered.

        Returns:
            Whether the rate was lowered.
        """
        lower_rates = [rate for rate in RATES_HZ if rate < self.rate_hz]
        if self.kept or self.fixed or self._failures < after or not lower_rates:
            return False
        self.rate_hz, self.last, self._failures, self._successes = lower_rates[0], None, 0, 0
        return True

    def exhausted(self, after: int) -> bool:
        """Return whether the lowest cycle rate has failed in `after` time windows or more, so that no rate is kept."""
        return self.needed and not self.fixed and self.rate_hz == RATES_HZ[-1] and self._failures >= after

    @property
    def text(self) -> str:
        """Short text on whether the cycle rate is kept; it begins with `ON_TRIAL` while the trial is undecided."""
        if not self.needed:
            return "kept: the simulated arm waits for the machine"
        figures = self.last.describe() if self.last is not None else "no cycles yet"
        if self.fixed:
            return f"fixed by rate_hz: {figures}"
        return f"{'kept' if self.kept else 'not kept' if self.exhausted(DECIDING_WINDOWS) else ON_TRIAL}: {figures}"


class RunWatch:
    """Record of cycles that a loop missed while torque is on, which may explain why a run was aborted.

    The cycles of the last 0.2 to 0.4 s are excluded: the counters are read every 0.2 s (`MARK_NS`), and the newest
    reading is not used. The reason is that cycles become longer for a short time before a run is aborted because a
    servo has stopped answering. This must not count as a slow machine.

    Args:
        period_ns: cycle time [ns].
    """

    def __init__(self, period_ns: int) -> None:
        self._rate_hz = round(1e9 / period_ns)
        self._first: CycleCounts | None = None
        self._marks: tuple[CycleCounts, CycleCounts] | None = None

    def begin(self, counts: CycleCounts) -> None:
        """Start a new record of missed cycles; `counts` are the loop's counters at the time when torque came on."""
        self._first, self._marks = counts, (counts, counts)

    def note(self, now_ns: int, meter: CycleMeter) -> None:
        """Record the loop's counters at the time `now_ns` of its clock [ns], once per `MARK_NS`.

        Must be called in each cycle in which the guard's state is ENABLED. A call before `MARK_NS` has passed does
        nothing.
        """
        if self._marks is not None and now_ns - self._marks[1].now_ns >= MARK_NS:
            self._marks = self._marks[1], meter.counts(now_ns)

    @property
    def complaint(self) -> str:
        """Text on the cycles that this machine missed since torque came on.

        The text is "" if the rate was kept, or if the servos caused the missing cycles.
        """
        if self._first is None or self._marks is None:
            return ""
        window = Window.between(self._rate_hz, self._first, self._marks[0])
        return "" if window.kept or window.caused_by_servos else window.describe("since torque came on") + "; "
