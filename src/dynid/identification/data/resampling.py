"""Recorded signals at the instants of a fine grid, and back to a coarser one, with the same response on both sides.

Straight lines between samples take (w T)^2 / 12 off a frequency w: 8 % at a sixth of the rate. Where a recording is
that slow against the band, a spline of degree five goes through the samples instead. It takes off about
(f T / (1 - f T))^6, less than 1e-4 at a sixth of the rate; its images lie above the band and fall to the low-pass.

`decimated` averages the instants about every node that is kept. The weights are symmetric and leave the band as it is
up to the fourth order of frequency; a plain mean would take (w T)^2 / 24 off it, and read torques early or late.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline

from dynid.identification.data.signals import GAP_PERIODS, interpolate
from dynid.robot import FloatArray

LINEAR_RAD = 0.1  # phase per sample up to which straight lines do: they take 8e-4 off
GRID_RAD = 0.25  # phase per step of the grid: five-point differences are then off by (w T)^4 / 30 = 1.3e-4 at most
DEGREE = 5
CLOSEST = 0.3  # of the period: a sample nearer to the one before would make the spline swing


def finest_step_s(cutoff_hz: float) -> float:
    """Return the largest step [s] of a grid on which five-point differences are exact enough up to a cut-off."""
    return GRID_RAD / (2.0 * np.pi * cutoff_hz)


def band_interpolated(fine: FloatArray, time: FloatArray, values: FloatArray, cutoff_hz: float) -> FloatArray:
    """Return values (N, n) at time (N,) [s] as they are at the instants `fine` (K,) [s] up to a cut-off, (K, n).

    Beyond the first and last sample the value of that sample holds.
    """
    steps = np.diff(time)
    period = float(np.median(steps))
    if 2.0 * np.pi * cutoff_hz * period <= LINEAR_RAD:
        return interpolate(fine, time, values)
    kept = np.concatenate([[True], steps >= CLOSEST * period])
    knots = _with_gaps_filled(time[kept], period)
    spline = make_interp_spline(knots, interpolate(knots, time[kept], values[kept]), k=DEGREE)
    return np.asarray(spline(np.clip(fine, time[0], knots[-1])))


def _with_gaps_filled(time: FloatArray, period: float) -> FloatArray:
    """Return the stamps with others about a period apart in every gap: a spline would swing there."""
    steps = np.diff(time)
    counts = np.where(steps > GAP_PERIODS * period, np.rint(steps / period), 1.0).astype(int)
    before = np.repeat(np.arange(len(steps)), counts)
    passed = (np.arange(len(before)) - np.repeat(np.cumsum(counts) - counts, counts)) / counts[before]
    return np.append(time[before] + steps[before] * passed, time[-1])


def around(count: int, skip: int) -> NDArray[np.int64]:
    """Return places of the instants about every `skip`-th of `count`, (M, R), with R the odd number from `skip` on."""
    reach = skip // 2
    places = np.arange(0, count, skip)[:, None] + np.arange(-reach, reach + 1)
    return np.asarray(np.clip(places, 0, count - 1))


def decimated(values: FloatArray, skip: int) -> FloatArray:
    """Return means of values (K, n) about every `skip`-th one, (M, n), without what means take off slow changes."""
    places = around(len(values), skip)
    weights = np.ones(places.shape[1])
    if skip % 2 == 0:  # the instants at both ends belong to two nodes each
        weights[[0, -1]] = 0.5
    weights /= weights.sum()
    found = np.einsum("mrn,r->mn", values[places], weights)
    # a mean adds half its second moment times the curvature
    moment = float(weights @ np.arange(-(skip // 2), skip // 2 + 1) ** 2) / skip**2
    found[1:-1] -= 0.5 * moment * np.diff(found, n=2, axis=0)
    return np.asarray(found)
