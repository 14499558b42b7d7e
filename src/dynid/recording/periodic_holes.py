"""Names the cause of holes that come with the period in which the kernel stops real-time programs.

Linux lets real-time programs of a processor run for a part of each period only (`sched_rt_runtime_us` of
`sched_rt_period_us`, 0.95 of 1 s): who uses it up stands still for the rest.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FEWEST_STEPS = 3  # from one hole to the next; chance gives as many in a period's steps once in a thousand
SAME_STEP = 0.05  # of the period: deviation of a step from whole periods
MOST_STEPS = 0.8  # of all steps are whole periods
SHORTEST, LONGEST = 0.2, 1.5  # of the time in which real-time programs stand still


class RealtimeLimit(NamedTuple):
    """How long real-time programs of a processor may run in each period [s]."""

    runtime_s: float
    period_s: float

    @property
    def pause_s(self) -> float:
        """Rest of the period, in which real-time programs stand still if they used up their time [s]."""
        return self.period_s - self.runtime_s

    @property
    def share(self) -> float:
        """Share of a processor that real-time programs may take."""
        return self.runtime_s / self.period_s


USUAL_LIMIT = RealtimeLimit(0.95, 1.0)


def limited_holes(ends_s: Sequence[float], lengths_s: Sequence[float], limit: RealtimeLimit = USUAL_LIMIT) -> int:
    """Return how many holes came with the period of a limit; 0 if chance explains their times as well.

    Args:
        ends_s: when each hole ended, ascending [s].
        lengths_s: how long each was [s].
        limit: of real-time programs.
    """
    if limit.pause_s <= 0.0:
        return 0
    lengths: NDArray[np.float64] = np.asarray(lengths_s, dtype=np.float64)
    such = (lengths >= SHORTEST * limit.pause_s) & (lengths <= LONGEST * limit.pause_s)
    steps = np.diff(np.asarray(ends_s, dtype=np.float64)[such]) / limit.period_s
    whole = (np.rint(steps) >= 1) & (np.abs(steps - np.rint(steps)) <= SAME_STEP)
    count = int(np.count_nonzero(whole))
    return int(np.count_nonzero(such)) if count >= FEWEST_STEPS and count >= MOST_STEPS * len(steps) else 0


def named_holes(ends_s: Sequence[float], lengths_s: Sequence[float], limit: RealtimeLimit = USUAL_LIMIT) -> str:
    """Return what holes that came with the period of a limit are, in words; "" if they did not."""
    count = limited_holes(ends_s, lengths_s, limit)
    if not count:
        return ""
    return (
        f"{count} holes of up to {limit.pause_s * 1e3:.0f} ms came with a period of {limit.period_s:g} s: the kernel "
        f"stopped real-time programs, which used up their {limit.share:.0%} of a processor (sched_rt_runtime_us); give "
        "the executor another processor, lower the cycle rate, or raise that limit"
    )
