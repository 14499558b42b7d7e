"""Resampling of recorded positions and torques to a fine time grid, and from there to a coarser one.

Linear interpolation between samples attenuates an angular frequency w by (w T)^2 / 12, with T the time between samples.
This is 9 % at a sixth of the sampling rate. If a recording is too slow for linear interpolation, a spline of degree
five is used instead. The spline attenuates a frequency f by about (f T / (1 - f T))^6, less than 1e-4 at a sixth of the
rate. Its spectral images lie above the band of interest, so the low-pass removes them.

`decimated` reduces the rate by weighted means of neighbouring values. The weights are symmetric, and the means are
accurate up to the fourth order of frequency. A plain mean would attenuate an angular frequency w by (w D)^2 / 24, with
D the time from one mean to the next.
"""

import numpy as np
import scipy  # `scipy.interpolate` is loaded at first use: fast recordings need no splines
from numpy.typing import NDArray

from dynid.identification.data.signals import GAP_PERIODS, interpolate
from dynid.robot import FloatArray

LINEAR_RAD = 0.1  # largest phase per sample for linear interpolation, which then attenuates by 8e-4
GRID_RAD = 0.25  # largest phase per grid step: the error of five-point differences is (w T)^4 / 30 = 1.3e-4
DEGREE = 5
CLOSEST = 0.3  # smallest distance of spline samples, in periods: closer ones would make the spline oscillate


def finest_step_s(cutoff_hz: float) -> float:
    """Return the largest grid step [s] at which five-point differences are accurate up to a cut-off frequency.

    Args:
        cutoff_hz: cut-off frequency [Hz].
    """
    return GRID_RAD / (2.0 * np.pi * cutoff_hz)


def band_interpolated(fine: FloatArray, time: FloatArray, values: FloatArray, cutoff_hz: float) -> FloatArray:
    """Return values (K, n), any unit, interpolated to a fine time grid; they are accurate up to a cut-off frequency.

    Before the first and after the last sample, the value of that sample is repeated.

    Args:
        fine: instants of the grid, (K,) [s].
        time: timestamps of the samples, (N,) [s].
        values: samples, (N, n), any unit.
        cutoff_hz: cut-off frequency [Hz].
    """
    steps = np.diff(time)
    period = float(np.median(steps))
    if 2.0 * np.pi * cutoff_hz * period <= LINEAR_RAD:
        return interpolate(fine, time, values)
    kept = np.concatenate([[True], steps >= CLOSEST * period])
    knots = _with_gaps_filled(time[kept], period)
    spline = scipy.interpolate.make_interp_spline(knots, interpolate(knots, time[kept], values[kept]), k=DEGREE)
    return np.asarray(spline(np.clip(fine, time[0], knots[-1])))


def _with_gaps_filled(time: FloatArray, period: float) -> FloatArray:
    """Return timestamps [s] with gaps filled by additional timestamps, about one period apart.

    Without the additional timestamps, a spline through the samples would oscillate in the gaps.

    Args:
        time: timestamps, (N,) [s].
        period: usual time between timestamps [s].
    """
    steps = np.diff(time)
    counts = np.where(steps > GAP_PERIODS * period, np.rint(steps / period), 1.0).astype(int)
    before = np.repeat(np.arange(len(steps)), counts)
    passed = (np.arange(len(before)) - np.repeat(np.cumsum(counts) - counts, counts)) / counts[before]
    return np.append(time[before] + steps[before] * passed, time[-1])


def around(count: int, skip: int) -> NDArray[np.int64]:
    """Return the indices (M, R) of the R instants around every `skip`-th of `count` instants.

    R is the smallest odd number that is at least `skip`. At both ends, the first or last instant is repeated.
    """
    reach = skip // 2
    places = np.arange(0, count, skip)[:, None] + np.arange(-reach, reach + 1)
    return np.asarray(np.clip(places, 0, count - 1))


def decimated(values: FloatArray, skip: int) -> FloatArray:
    """Return weighted means (M, n) of the values around every `skip`-th row, any unit.

    The mean of a curved signal differs from its value in the middle. All means except the first and the last are
    corrected for this difference.

    Args:
        values: values, (K, n), any unit.
        skip: number of rows from one mean to the next.
    """
    places = around(len(values), skip)
    weights = np.ones(places.shape[1])
    if skip % 2 == 0:  # the instants at both ends belong to two nodes each
        weights[[0, -1]] = 0.5
    weights /= weights.sum()
    found = np.einsum("mrn,r->mn", values[places], weights)
    # a mean differs from the middle value by half the second moment of its weights times the curvature
    moment = float(weights @ np.arange(-(skip // 2), skip // 2 + 1) ** 2) / skip**2
    found[1:-1] -= 0.5 * moment * np.diff(found, n=2, axis=0)
    return np.asarray(found)
