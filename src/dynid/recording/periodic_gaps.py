"""Detection of recording gaps that Linux's throttling of real-time programs (RT throttling) may have caused.

Linux lets the real-time programs of a processor run only for a part of each period: `sched_rt_runtime_us` of
`sched_rt_period_us`, by default 0.95 s of 1 s. Programs that use up this time are stopped for the rest of the period,
so such gaps recur with this period.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FEWEST_STEPS = 3  # minimum number of whole-period steps between gaps; one of 1000 recordings with random gaps has it
STEP_TOLERANCE = 0.05  # tolerated deviation of a step from whole periods [periods]
LEAST_SHARE = 0.8  # minimum fraction of the steps that are whole periods
SHORTEST, LONGEST = 0.2, 1.5  # range of gap lengths, relative to the time in which real-time programs are stopped


class RealtimeLimit(NamedTuple):
    """Limit of Linux's RT throttling: time that real-time programs may use of one processor in each period.

    Attributes:
        runtime_s: maximum running time in each period [s].
        period_s: length of the period [s].
    """

    runtime_s: float
    period_s: float

    @property
    def pause_s(self) -> float:
        """Time in each period for which RT throttling stops programs that have used up their running time [s]."""
        return self.period_s - self.runtime_s

    @property
    def share(self) -> float:
        """Fraction of each period for which real-time programs may run."""
        return self.runtime_s / self.period_s


DEFAULT_LIMIT = RealtimeLimit(0.95, 1.0)


def throttling_gaps(ends_s: Sequence[float], lengths_s: Sequence[float], limit: RealtimeLimit = DEFAULT_LIMIT) -> int:
    """Return the number of recording gaps that recur with the period of RT throttling; 0 if they may be random.

    Args:
        ends_s: end of each gap, ascending [s].
        lengths_s: length of each gap [s].
        limit: running time that RT throttling grants to real-time programs in each period.
    """
    if limit.pause_s <= 0.0:
        return 0
    lengths: NDArray[np.float64] = np.asarray(lengths_s, dtype=np.float64)
    such = (lengths >= SHORTEST * limit.pause_s) & (lengths <= LONGEST * limit.pause_s)
    steps = np.diff(np.asarray(ends_s, dtype=np.float64)[such]) / limit.period_s
    whole = (np.rint(steps) >= 1) & (np.abs(steps - np.rint(steps)) <= STEP_TOLERANCE)
    count = int(np.count_nonzero(whole))
    return int(np.count_nonzero(such)) if count >= FEWEST_STEPS and count >= LEAST_SHARE * len(steps) else 0


def throttling_sentence(
    ends_s: Sequence[float], lengths_s: Sequence[float], limit: RealtimeLimit = DEFAULT_LIMIT
) -> str:
    """Return a sentence that attributes recording gaps to RT throttling; "" if they do not recur with its period.

    Args:
        ends_s: end of each gap, ascending [s].
        lengths_s: length of each gap [s].
        limit: running time that RT throttling grants to real-time programs in each period.
    """
    count = throttling_gaps(ends_s, lengths_s, limit)
    if not count:
        return ""
    return (
        f"{count} holes of up to {limit.pause_s * 1e3:.0f} ms came with a period of {limit.period_s:g} s: the kernel "
        f"stopped real-time programs, which used up their {limit.share:.0%} of a processor (sched_rt_runtime_us); give "
        "the executor another processor, lower the cycle rate, or raise that limit"
    )
