"""Removal of rows that repeat efforts, for recordings in which efforts are updated less often than positions.

A row contains the values of all joints at one time. A driver that reads currents at 10 Hz and positions at 200 Hz
repeats the last effort in 19 of 20 rows. The repeated efforts are late by a varying time, on average half the time
between two updates of the efforts. Only rows with a new effort are used, because in them the delay between effort
and position is constant. This requires that the efforts of all joints are updated in the same rows, at regular
intervals. Otherwise all rows are used, because coarse efforts of a slow arm may repeat by chance.
"""

import numpy as np
from numpy.typing import NDArray

from dynid.recording.repeated_rows import FEWEST, Rows, without_repeats

LEAST_HOLD = 2.0  # minimum median number of rows per effort
USUAL = 1.5  # longest hold that counts in the mean hold [median holds]
# Tolerances of a hold, and of several successive holds together, as multiples of the mean hold [mean holds; rows]: the
# larger applies. A hold of 5.8 rows at a regular rate is 5 or 6 rows long, and four of them are 23 or 24 rows long;
# jitter of the stamps adds a little.
EVEN, ROUNDED = 0.12, 1.1
TOGETHER = 4  # number of successive holds whose sum must be regular, too: holds by chance have no common rate
MOST_EQUAL = 3.0  # longest regular hold [mean holds]: two efforts may be equal by chance
SHARE = 0.8  # minimum fraction of regular holds
HELD = "efforts are held"  # beginning of the note about such efforts
MOVING = 0.5  # minimum fraction of rows with new positions within regular holds


def without_held_efforts(rows: Rows) -> Rows:
    """Remove or replace the rows of a recording that repeat the previous row, or only its efforts.

    Rows that repeat all values although the arm moves are removed if the recorder was faster than its source. If
    replies of servos were lost, short runs of such rows get interpolated values, and longer runs are removed, see
    `without_repeats`. Rows that repeat only the efforts are removed if `hold` finds regular updates of the efforts,
    less often than in every row.
    """
    found = without_repeats(rows)
    usual = hold(found)
    if not usual:
        return found
    own = np.flatnonzero(_renewed(found))
    rate = (len(found.time) - 1) / float(found.time[-1] - found.time[0])
    words = (
        f"{HELD}: they are renewed every {usual:.3g} rows ({rate / usual:.3g} Hz) and positions in every row "
        f"({rate:.3g} Hz). Only the {len(own)} rows with new efforts are used; record efforts as often as positions"
    )
    both = "; ".join(one for one in (found.words, words) if one)
    return found.mapped(found.time[own], both, lambda values: values[own])


def hold(rows: Rows) -> float:
    """Return the mean number of successive rows with the same effort, such as 20 for efforts at 1/20 of the row rate.

    The result is 0.0 if the driver updates efforts in every row, or if equal efforts may be due to chance.
    """
    if rows.tau is None or not rows.tau.size or len(rows.time) < FEWEST:
        return 0.0
    if not (np.isfinite(rows.tau).all() and (np.diff(rows.time) > 0.0).all()):
        return 0.0  # faulty values and stamps are reported elsewhere
    new = np.flatnonzero(_renewed(rows))
    if len(new) < FEWEST:
        return 0.0
    holds = np.diff(new)
    median = float(np.median(holds))
    if median < LEAST_HOLD:
        return 0.0
    usual = float(holds[holds <= USUAL * median].mean())
    times, most = np.maximum(np.rint(holds / usual), 1.0), max(ROUNDED, EVEN * usual)
    beside = holds - times * usual
    together = np.abs(np.convolve(beside, np.ones(TOGETHER), "valid"))
    even = (np.abs(beside) <= most) & (times <= MOST_EQUAL)
    moves = (np.diff(rows.q, axis=0) != 0.0).any(axis=1)[new[0] : new[-1]]
    if min(even.mean(), (together <= most).mean()) < SHARE or moves[np.repeat(even, holds)].mean() < MOVING:
        return 0.0
    return usual


def _renewed(rows: Rows) -> NDArray[np.bool_]:
    """Return a mask (N,) of the rows in which the effort of at least one joint differs from the previous row."""
    assert rows.tau is not None, "the caller has asked"
    return np.append(True, (np.diff(rows.tau, axis=0) != 0.0).any(axis=1))
