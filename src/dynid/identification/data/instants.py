"""Correction of timestamp errors, which arise in a busy logger and appear in the positions of all joints alike.

A timestamp error e, the time at which positions were read minus the timestamp, changes the recorded position of a joint
with velocity v by v e. The residuals are the positions minus their low-pass. In each row, they give one equation per
joint for the one unknown e. So a timestamp error that is estimated from all other joints predicts the residual of a
joint; noise and motion cannot be predicted in this way. At a joint velocity of 1 rad/s, the error of a differentiated
acceleration is e / T^2, with T the time step. So even a third of a millisecond matters to accelerations and to a
contact observer.

In synchronous point-to-point motion, the paths of all joints have corners at the same time, which look like timestamp
errors. But corners last for many rows, whereas a logger's timestamp errors scatter from row to row. So no values are
corrected if errors of neighbouring rows are similar, if an error is many periods long, or if there are too few rows to
distinguish the two cases.

The timestamps stay unchanged, and values are interpolated to them. Rows that the logger lost are not restored.
"""

import numpy as np
from numpy.typing import NDArray

from dynid.identification.data.signals import interpolate
from dynid.identification.data.zero_phase import butterworth_sections, filtered_both_ways
from dynid.robot import FloatArray

BAND_HZ, OF_RATE, ORDER = 10.0, 0.1, 4  # motion's band [Hz], its limit as a share of the row rate, filter order
END_PERIODS = 3.0  # periods of the band's frequency within which the ends of a recording affect the low-pass
ROUNDS = 3  # iterations of the error estimate; the first finds nearly all
EXPLAINED = 0.9  # smallest explained share of the position residuals; below it, they are noise or motion
LEAST_ERROR = 0.05  # smallest rms timestamp error that is corrected, in periods
SLOWEST_RAD_S = 0.05  # smallest joint speed (norm) at which positions reveal timestamp errors [rad/s]
LEAST_JOINTS = 1.5  # smallest effective number of moving joints: one joint's own error looks like a timestamp error
FEWEST = 200  # smallest number of rows
LONGEST_PERIOD_S = 0.0025  # longest row period [s]: in slower logs, corners of a path last only a few rows
MOST_CORRELATION = 0.6  # largest correlation of neighbouring errors: a logger had 0.45, paths with corners 0.7 and more
MOST_PERIODS = 10.0  # largest timestamp error, in periods: a 1 kHz logger was late by up to 8
GAP = 0.25  # shortest gap, in periods of the cut-off: linear interpolation across it does not represent the motion


def interpolated_at_stamps(
    time: FloatArray, q: FloatArray, tau: FloatArray, dq: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray | None, str]:
    """Correct timestamp errors: return positions, torques and velocities (N, n) interpolated to their timestamps.

    A logger may read the values of a row at another time than the row's timestamp. This read time is estimated.

    Args:
        time: timestamps, (N,) [s], increasing.
        q: positions, (N, n) [rad or m].
        tau: torques, (N, n) [N m or N].
        dq: velocities, (N, n) [rad/s or m/s], or None.

    Returns:
        The three arrays and a sentence about the correction. If no timestamp error is found, the arrays are unchanged
            and the sentence is "".
    """
    off = stamp_errors(time, q)
    if not off.any():
        return q, tau, dq, ""
    # read instants must not decrease; of rows that are almost simultaneous, one is used
    read = np.maximum.accumulate(time + off)
    own = np.append(True, np.diff(read) > 0.2 * float(np.median(np.diff(time))))
    at, torques = (interpolate(time, read[own], one[own]) for one in (q, tau))
    rates = None if dq is None else interpolate(time, read[own], dq[own])
    words = (
        f"stamps are {1e3 * float(np.std(off)):.2g} ms (rms) off the instants at which positions were read, as all "
        "joints show alike: positions and torques were moved to their stamps"
    )
    return at, torques, rates, words


def stamp_errors(time: FloatArray, q: FloatArray) -> FloatArray:
    """Return the estimated read time of each row minus its timestamp, (N,) [s]; all 0 without clear evidence of errors.

    Only errors that vary faster than the motion are detected, not a constant delay.

    Args:
        time: timestamps, (N,) [s].
        q: positions, (N, n) [rad or m].
    """
    none = np.zeros(len(time))
    if len(time) < FEWEST or q.shape[1] < 2 or not (np.isfinite(q).all() and (np.diff(time) > 0.0).all()):
        return none
    period = float(np.median(np.diff(time)))
    if period > LONGEST_PERIOD_S or time[-1] - time[0] > 2.0 * period * len(time):  # too slow, or mostly gaps
        return none
    cutoff, off = min(BAND_HZ, OF_RATE / period), none
    inner = _far_from_gaps(time, GAP / cutoff, END_PERIODS / cutoff)
    for turn in range(ROUNDS):
        left, v = _above_band(np.maximum.accumulate(time + off), q, period, cutoff)
        total = (v**2).sum(axis=1)
        seen = inner & (total > SLOWEST_RAD_S**2)
        alike = seen & (total**2 > LEAST_JOINTS * (v**4).sum(axis=1))
        if turn == 0 and (2 * alike.sum() <= seen.sum() or _foretold(left[alike], v[alike]) < EXPLAINED):
            return none
        off = off + np.where(seen, (left * v).sum(axis=1) / np.where(seen, total, 1.0), 0.0)
    felt = float(np.std(off)) > LEAST_ERROR * period and float(np.abs(off).max()) < MOST_PERIODS * period
    return off if felt and _alike_from_row_to_row(off, inner) < MOST_CORRELATION else none


def _far_from_gaps(time: FloatArray, gap_s: float, margin_s: float) -> NDArray[np.bool_]:
    """Return a mask (N,) of the rows that are more than `margin_s` from both ends and from every gap.

    Args:
        time: timestamps (N,) [s].
        gap_s: shortest step that counts as a gap [s].
        margin_s: smallest distance from ends and gaps [s].
    """
    gaps = np.flatnonzero(np.diff(time) > gap_s)
    edges = np.sort(np.concatenate([time[[0, -1]], time[gaps], time[gaps + 1]]))
    after = np.searchsorted(edges, time)
    nearest = np.minimum(time - edges[np.maximum(after - 1, 0)], edges[np.minimum(after, len(edges) - 1)] - time)
    return np.asarray(np.abs(nearest) > margin_s)


def _alike_from_row_to_row(off: FloatArray, inner: NDArray[np.bool_]) -> float:
    """Return the correlation between the timestamp errors of neighbouring rows.

    Args:
        off: timestamp errors, (N,) [s].
        inner: mask of the rows that are used, (N,).
    """
    own = off - float(off[inner].mean())
    return float((own[1:] * own[:-1])[inner[1:] & inner[:-1]].mean() / own[inner].var())


def _above_band(read: FloatArray, q: FloatArray, period: float, cutoff_hz: float) -> tuple[FloatArray, FloatArray]:
    """Return positions minus low-pass filtered positions, and the velocities of the filtered positions, (N, n) each.

    Args:
        read: instants at which the positions were read, (N,) [s].
        q: positions (N, n), any unit.
        period: step of the grid on which the low-pass acts [s].
        cutoff_hz: cut-off frequency of the low-pass [Hz].
    """
    grid = read[0] + period * np.arange(int((read[-1] - read[0]) / period) + 2)
    low_pass = butterworth_sections(ORDER, cutoff_hz, 1.0 / period)
    smooth = filtered_both_ways(low_pass, interpolate(grid, read, q))
    velocity = np.gradient(smooth, period, axis=0)
    return q - interpolate(read, grid, smooth), interpolate(read, grid, velocity)


def _foretold(left: FloatArray, v: FloatArray) -> float:
    """Return the fraction of the squared position residuals that timestamp errors explain.

    For each joint, the timestamp error is estimated from all other joints.

    Args:
        left: position residuals (positions minus their low-pass), (K, n) [rad or m].
        v: velocities, (K, n) [rad/s or m/s].
    """
    along, share = left * v, v**2
    others = (along.sum(axis=1, keepdims=True) - along) / np.maximum(
        share.sum(axis=1, keepdims=True) - share, np.finfo(float).tiny
    )
    return 1.0 - float(((left - others * v) ** 2).sum() / max(float((left**2).sum()), np.finfo(float).tiny))
