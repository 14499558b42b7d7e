"""Counters and timing statistics of the control loop."""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.safety.guard_states import Reason

WINDOW = 4096  # cycles in the statistics of the last cycles
BIN_NS, BINS = 2_000, 25_000  # histogram of durations up to 50 ms; the last bin holds longer ones
LATE_FRACTION = 0.5  # a cycle that begins later than this fraction of the period is late


class CycleCounts(NamedTuple):
    """Counters of a control loop at one time of its clock.

    Attributes:
        now_ns: time of the count [ns].
        cycles: number of cycles that ran.
        incomplete: number of cycles whose read missed at least one servo.
        late: number of cycles that began more than half a period late.
    """

    now_ns: int
    cycles: int
    incomplete: int
    late: int


@dataclass(frozen=True)
class LoopStatistics:
    """Statistics of a control loop since its start.

    Attributes:
        seconds: time since the start [s].
        cycles: number of cycles that ran.
        incomplete: number of cycles whose read missed at least one servo.
        skipped: number of planned cycles that never ran, because the loop was too late to catch up.
        missed: number of planned cycles without a complete sample, because they were incomplete or skipped.
        late: number of cycles that began more than half a period late.
        behind: number of planned cycles that a late loop still has to run.
        rate_hz: complete samples per second [Hz].
        cycle_p50_us: median duration of the last 4096 cycles (read, guard, write, callback; without reads of slow
            data).
        cycle_p99_us: 99th percentile of the durations of the last 4096 cycles.
        late_p99_us: 99th percentile of the delay with which a cycle began, over the last 4096 cycles.
        run_p50_us: median duration of all cycles since the start, with a resolution of 2 us.
        run_p99_us: 99th percentile of the durations of all cycles since the start.
        run_p999_us: 99.9th percentile of the durations of all cycles since the start.
        commands_out_of_order: number of commands older than a command that had arrived before.
        interventions: number of cycles in which the guard changed the commanded currents, for each reason of such
            changes, by the reason's name in lower case, see `Reason`; the reason DISABLED does not count.
    """

    seconds: float
    cycles: int
    incomplete: int
    skipped: int
    missed: int
    late: int
    rate_hz: float
    cycle_p50_us: float
    cycle_p99_us: float
    late_p99_us: float
    run_p50_us: float = 0.0
    run_p99_us: float = 0.0
    run_p999_us: float = 0.0
    commands_out_of_order: int = 0
    behind: int = 0
    interventions: Mapping[str, int] = field(default_factory=dict)


class CycleMeter:
    """Collector of the data of `LoopStatistics`; the loop's thread writes it, any thread may read it.

    Args:
        period_ns: planned time between cycles [ns].
    """

    def __init__(self, period_ns: int) -> None:
        self.cycles = self.incomplete = self.skipped = self.late = 0
        self.commands_out_of_order = 0
        self.started_ns = 0
        # torque off is not an intervention
        self._guard = {reason: 0 for reason in Reason if reason is not Reason.DISABLED}
        self._period_ns = period_ns
        self._behind = 0
        self._busy_ns = np.zeros(WINDOW, dtype=np.int64)
        self._late_ns = np.zeros(WINDOW, dtype=np.int64)
        self._durations = array("q", [0]) * BINS

    def add(self, busy_ns: int, late_ns: int, complete: bool, *, skipped: int = 0) -> None:
        """Count one cycle of the control loop.

        Args:
            busy_ns: duration of the cycle [ns].
            late_ns: delay with which the cycle began [ns].
            complete: whether the cycle's sample was complete.
            skipped: number of planned cycles that were skipped before this cycle.
        """
        self.skipped += skipped
        slot = self.cycles % WINDOW
        self._busy_ns[slot] = busy_ns
        self._late_ns[slot] = late_ns
        self._behind = max(0, late_ns // self._period_ns - skipped)
        self._durations[min(busy_ns // BIN_NS, BINS - 1)] += 1
        self.late += late_ns > LATE_FRACTION * self._period_ns
        self.incomplete += not complete
        self.cycles += 1

    def add_reasons(self, reasons: Iterable[Reason]) -> None:
        """Count the reasons for which the guard changed the currents of one cycle."""
        for reason in reasons:
            if reason is not Reason.DISABLED:
                self._guard[reason] += 1

    def counts(self, now_ns: int) -> CycleCounts:
        """Return the present counters with `now_ns`, the time of the count [ns]; unlike `statistics`, this is cheap."""
        return CycleCounts(now_ns, self.cycles, self.incomplete, self.late)

    def statistics(self, now_ns: int) -> LoopStatistics:
        """Return the statistics from the start of the loop to `now_ns`, a time on the monotonic clock [ns]."""
        seconds = (now_ns - self.started_ns) * 1e-9 if self.started_ns else 0.0
        filled = min(self.cycles, WINDOW)
        p50 = p99 = late_p99 = 0.0
        cumulative = np.cumsum(np.array(self._durations))
        if filled:
            p50, p99 = np.percentile(self._busy_ns[:filled] * 1e-3, (50, 99)).tolist()
            late_p99 = float(np.percentile(self._late_ns[:filled] * 1e-3, 99))
        return LoopStatistics(
            seconds=seconds,
            cycles=self.cycles,
            incomplete=self.incomplete,
            skipped=self.skipped,
            missed=self.incomplete + self.skipped,
            late=self.late,
            rate_hz=(self.cycles - self.incomplete) / seconds if seconds else 0.0,
            cycle_p50_us=p50,
            cycle_p99_us=p99,
            late_p99_us=late_p99,
            run_p50_us=_percentile(cumulative, 0.5),
            run_p99_us=_percentile(cumulative, 0.99),
            run_p999_us=_percentile(cumulative, 0.999),
            commands_out_of_order=self.commands_out_of_order,
            behind=self._behind,
            interventions={reason.name.lower(): count for reason, count in self._guard.items()},
        )


def _percentile(cumulative: NDArray[np.int64], share: float) -> float:
    """Return a percentile of all cycles' durations as the upper edge of its histogram bin [us]; 0 without cycles.

    Args:
        cumulative: number of durations up to and including each bin, (BINS,).
        share: the percentile as a fraction, such as 0.99.
    """
    return float(np.searchsorted(cumulative, share * cumulative[-1]) + 1) * BIN_NS * 1e-3 if cumulative[-1] else 0.0
