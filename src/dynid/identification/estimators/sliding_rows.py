"""States near standstill, in which joints may stick, and regression rows in which these states are masked.

The low-pass filter of the states spreads a standstill over neighbouring states, which all count as near standstill.
"""

from typing import NamedTuple

import numpy as np

from dynid.identification.data.fine_states import grid_step_s
from dynid.identification.data.preprocessing import Samples
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray

STICK_PERIODS = 0.5  # half width over which the states' filter spreads a standstill, in periods of its cut-off
# multiples of slow_rad_s: largest filtered speed of a joint that may have stopped; recorded speed that is a stop
STOPPING, STOPPED = 3.0, 0.5


def sliding_states(dq: FloatArray, slow_rad_s: float, width: int, slowest: FloatArray | None = None) -> FloatArray:
    """Return a mask (M, n): 0.0 for states near a standstill of the joint, else 1.0.

    A state is near a standstill if it is at most `width` / 2 states before or after a state in which the joint may
    stick, because the low-pass filter of the states spreads a standstill over `width` states.

    Args:
        dq: velocities after the states' filter, (M, n) [rad/s].
        slow_rad_s: speed below which joints may stick [rad/s].
        width: number of successive states over which the filter spreads one state.
        slowest: smallest recorded velocity near each state, (M, n) [rad/s], with a positive sign for the direction of
            dq, so that short stops and reversals give values near 0 or below. None if no velocity was recorded.
    """
    slow = np.abs(dq) < slow_rad_s
    if slowest is not None:
        slow |= (np.abs(dq) < STOPPING * slow_rad_s) & (slowest < STOPPED * slow_rad_s)
    before = np.vstack((np.zeros((1, dq.shape[1]), dtype=int), np.cumsum(slow, axis=0)))
    first = np.arange(len(dq)) - width // 2
    near = before[np.minimum(first + width, len(dq))] > before[np.maximum(first, 0)]
    return np.where(near, 0.0, 1.0)


def sliding_masks(samples: Samples, slow_rad_s: float) -> list[FloatArray]:
    """Return a mask (M, n) for each recording: 0.0 for states near a standstill of the joint, else 1.0.

    The states are those on the fine time grid. The low-pass filter of the states spreads a standstill over neighbouring
    states, which count as near the standstill, see `sliding_states`.

    Args:
        samples: samples with states on a fine grid.
        slow_rad_s: speed below which a joint may stick [rad/s].
    """
    step = grid_step_s(samples.settings.interval_s, samples.fine[0])
    width = 2 * round(STICK_PERIODS / ((samples.settings.state_cutoff_hz or np.inf) * step)) + 1
    return [sliding_states(one.dq, slow_rad_s, width, one.slowest) for one in samples.fine]


class SlidingRows(NamedTuple):
    """Regression rows at the samples; states near standstill were set to zero before the low-pass of the torques.

    Attributes:
        W: regressor, (N, n, p).
        tau: torques, (N, n) [N m].
        share: fraction of moving (not masked) states among the states that the low-pass combines in each row, (N, n).
        by_other_current: torques from the other recorded current minus `tau`, (N, n) [N m]. A recording may contain a
            measured and a commanded current, and `tau` uses one of them.
    """

    W: FloatArray
    tau: FloatArray
    share: FloatArray
    by_other_current: FloatArray


def sliding_rows(model: ArmModel, samples: Samples, slow_rad_s: float) -> SlidingRows:
    """Return regression rows at the samples, with states near standstill set to zero before the low-pass.

    Args:
        model: model of the arm.
        samples: samples with states on a fine grid.
        slow_rad_s: velocity below which a joint may stick [rad/s].
    """
    found = []
    for one, slides in zip(samples.fine, sliding_masks(samples, slow_rad_s), strict=True):
        raw = one.raw if len(one.raw) else one.tau
        more = np.zeros_like(raw) if one.other_raw is None else one.other_raw - raw
        W = model.regressor(one.q, one.dq, one.ddq) * slides[..., None]
        found.append([one.low_pass(values) for values in (W, raw * slides, slides, more * slides)])
    return SlidingRows(*(np.concatenate(rows) for rows in zip(*found, strict=True)))
