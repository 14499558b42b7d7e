"""When the rows of a recording were really read: stamps of a busy logger are late, and every joint shows by how much.

A stamp that is off by e shifts the positions of all joints by v e, each by its own velocity. So what is left of the
positions above the motion's band has one unknown per row and one equation per joint. Errors of stamps are what the
other joints' positions say of each joint's; noise and motion are not. Derived accelerations are off by e / T^2 for
every rad/s, with T of the derivative, so a third of a millisecond matters to them, and to an observer of contacts.

Joints that move in step, as point to point, show their way's corners all alike, too. But corners last for many rows,
and a logger's stamps scatter from row to row; so nothing is moved where errors are alike from one row to the next,
where one is many periods long, or where rows are too few to distinguish the two.

The stamps stay as they are, and values are moved to them: cycles that the logger lost remain lost.
"""

import numpy as np
from numpy.typing import NDArray

from dynid.identification.data.signals import interpolate
from dynid.identification.data.zero_phase import butterworth_sections, filtered_both_ways
from dynid.robot import FloatArray

BAND_HZ, OF_RATE, ORDER = 10.0, 0.1, 4  # up to which positions are motion, at most this part of the rows' rate
ENDS = 3.0  # periods of that frequency, in which a low-pass feels the ends of a recording
ROUNDS = 3  # the first finds nearly all
EXPLAINED = 0.9  # of what positions are off: less, and it is noise or motion
FELT = 0.05  # of the period: stamps that are less off change nothing
SLOWEST_RAD_S = 0.05  # of all joints together: below it no position shows its stamp
ALIKE = 1.5  # joints that count alike, in most rows: with fewer, a row's stamp explains whatever one joint does
FEWEST = 200  # rows
LONGEST_PERIOD_S = 0.0025  # from row to row; a way's corners are no longer than a few rows of slower logs
SCATTER = 0.6  # correlation of errors from row to row: a logger had 0.45, ways with corners 0.7 and more
MOST_PERIODS = 10.0  # that a stamp is off: a logger of 1 kHz was late by up to 8
GAP = 0.25  # periods of the cut-off between two rows: a straight line across is no motion


def moved_to_stamps(
    time: FloatArray, q: FloatArray, tau: FloatArray, dq: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray | None, str]:
    """Positions, and what was read with them, at the instants that the stamps name.

    Args:
        time: stamps, (N,) [s], increasing.
        q: positions, (N, n) [rad or m].
        tau: torques, (N, n) [N m or N].
        dq: velocities, (N, n) [rad/s or m/s], or None.

    Returns:
        All three, and what was found in words; as they were and "" where stamps are right, or no joint shows more.
    """
    off = stamp_errors(time, q)
    if not off.any():
        return q, tau, dq, ""
    # a row that was stamped twice is one instant, and no row is older than the one before
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
    """By how much each row was read later than its stamp says, (N,) [s]; 0 everywhere where no such error is sure.

    Only what varies faster than the motion is seen: a delay that stays is a matter of torques against positions.
    """
    none = np.zeros(len(time))
    if len(time) < FEWEST or q.shape[1] < 2 or not (np.isfinite(q).all() and (np.diff(time) > 0.0).all()):
        return none
    period = float(np.median(np.diff(time)))
    if period > LONGEST_PERIOD_S or time[-1] - time[0] > 2.0 * period * len(time):  # or mostly gaps
        return none
    cutoff, off = min(BAND_HZ, OF_RATE / period), none
    inner = _far_from_gaps(time, GAP / cutoff, ENDS / cutoff)
    for turn in range(ROUNDS):
        left, v = _above_band(np.maximum.accumulate(time + off), q, period, cutoff)
        total = (v**2).sum(axis=1)
        seen = inner & (total > SLOWEST_RAD_S**2)
        alike = seen & (total**2 > ALIKE * (v**4).sum(axis=1))
        if turn == 0 and (2 * alike.sum() <= seen.sum() or _foretold(left[alike], v[alike]) < EXPLAINED):
            return none
        off = off + np.where(seen, (left * v).sum(axis=1) / np.where(seen, total, 1.0), 0.0)
    felt = float(np.std(off)) > FELT * period and float(np.abs(off).max()) < MOST_PERIODS * period
    return off if felt and _alike_from_row_to_row(off, inner) < SCATTER else none


def _far_from_gaps(time: FloatArray, gap_s: float, margin_s: float) -> NDArray[np.bool_]:
    """Rows (N,) that are at least `margin_s` from both ends and from every gap, which is `gap_s` or longer [s]."""
    gaps = np.flatnonzero(np.diff(time) > gap_s)
    edges = np.sort(np.concatenate([time[[0, -1]], time[gaps], time[gaps + 1]]))
    after = np.searchsorted(edges, time)
    nearest = np.minimum(time - edges[np.maximum(after - 1, 0)], edges[np.minimum(after, len(edges) - 1)] - time)
    return np.asarray(np.abs(nearest) > margin_s)


def _alike_from_row_to_row(off: FloatArray, inner: NDArray[np.bool_]) -> float:
    """Correlation of the errors (N,) of neighbouring rows."""
    own = off - float(off[inner].mean())
    return float((own[1:] * own[:-1])[inner[1:] & inner[:-1]].mean() / own[inner].var())


def _above_band(read: FloatArray, q: FloatArray, period: float, cutoff_hz: float) -> tuple[FloatArray, FloatArray]:
    """What positions (N, n) at the instants (N,) are off their own low-pass, and its velocities, (N, n) each."""
    grid = read[0] + period * np.arange(int((read[-1] - read[0]) / period) + 2)
    low_pass = butterworth_sections(ORDER, cutoff_hz, 1.0 / period)
    smooth = filtered_both_ways(low_pass, interpolate(grid, read, q))
    velocity = np.gradient(smooth, period, axis=0)
    return q - interpolate(read, grid, smooth), interpolate(read, grid, velocity)


def _foretold(left: FloatArray, v: FloatArray) -> float:
    """Share of what positions are off (K, n) that the stamp explains which all joints but the one in question show."""
    along, share = left * v, v**2
    others = (along.sum(axis=1, keepdims=True) - along) / np.maximum(
        share.sum(axis=1, keepdims=True) - share, np.finfo(float).tiny
    )
    return 1.0 - float(((left - others * v) ** 2).sum() / max(float((left**2).sum()), np.finfo(float).tiny))
