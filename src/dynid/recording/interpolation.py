"""Interpolation between the times of a recording."""

from itertools import pairwise

import numpy as np
import scipy  # `scipy.interpolate` is loaded at first use: most commands need no splines
from numpy.typing import NDArray

from dynid.robot import FloatArray

GAP_STEPS = 2.5  # a longer step between rows is a gap without known values [median steps]
DEGREE = 3


def interpolate(fine: FloatArray, time: FloatArray, values: FloatArray) -> FloatArray:
    """Interpolate values linearly at other times; return them as (K, n).

    Args:
        fine: times at which values are wanted, (K,) [s].
        time: times of the given values, (N,) [s].
        values: given values, (N, n), any unit.
    """
    return np.stack([np.interp(fine, time, column) for column in values.T], axis=1)


def known_between(fine: FloatArray, time: FloatArray) -> NDArray[np.bool_]:
    """Return a mask (K,) of the times at which a recording has values or its values can be interpolated.

    A value can be interpolated if the time lies between two stamps without a gap. A gap is a step of the stamps of more
    than `GAP_STEPS` times their median step.

    Args:
        fine: times to judge, (K,) [s].
        time: stamps of the recording, (N,) [s].
    """
    longest = GAP_STEPS * float(np.median(np.diff(time)))
    after = np.clip(np.searchsorted(time, fine, side="left"), 1, len(time) - 1)
    inside = (fine >= time[0]) & (fine <= time[-1])
    on_stamp = (fine == time[after]) | (fine == time[after - 1])
    return np.asarray(inside & (on_stamp | (time[after] - time[after - 1] <= longest)))


def by_splines(fine: FloatArray, time: FloatArray, values: FloatArray) -> FloatArray:
    """Interpolate values by cubic splines at other times; return them as (K, n).

    Each part between two gaps of the stamps has a separate spline. Splines are used because linear interpolation
    between the few messages of a slow publisher would flatten the motion.

    Args:
        fine: ascending times at which values are wanted, (K,) [s]. Each must lie on a stamp, or between two stamps
            without a gap, which `known_between` checks.
        time: stamps of the given values, (N,) [s].
        values: given values, (N, n), any unit.
    """
    found = np.full((len(fine), values.shape[1]), np.nan)
    cuts = np.flatnonzero(np.diff(time) > GAP_STEPS * float(np.median(np.diff(time)))) + 1
    for first, end in pairwise([0, *cuts.tolist(), len(time)]):
        begin, last = np.searchsorted(fine, time[first]), np.searchsorted(fine, time[end - 1], side="right")
        if begin == last:
            continue
        degree = min(DEGREE, end - first - 1)
        own = slice(first, end)
        if degree < 1:
            found[begin:last] = values[own]
        else:
            found[begin:last] = scipy.interpolate.make_interp_spline(time[own], values[own], k=degree)(fine[begin:last])
    return found
