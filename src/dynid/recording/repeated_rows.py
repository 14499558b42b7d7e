"""Removal of recorded rows that merely repeat the previous row, although the arm moves.

A row contains the values of all joints at one time. At a row that repeats the previous row, a moving arm seems to stand
still. Accelerations derived from the positions then become ten times too large. Such repeats have two causes.

Slow source: A recorder that writes the last received message at its own rate repeats some states if its source is
slower. With a recorder at 30 Hz and a source at 29.3 Hz, this is one row in 43. From one repeat to the next, the delay
between a state and its stamp changes by a whole period of the source. So repeats are left out, and the other rows get
evenly spaced stamps. A row's new stamp is the value of a line that is fitted to the stamps around the row. No line
crosses a gap or a rest of the arm.

Lost reply: A driver may repeat its last state because a reply of a servo was lost. Then the stamps are right, and the
arm has moved twice as far at the next row. A repeated row gets values interpolated between its neighbours. Longer runs
of repeats are left out, which leaves a gap.

The causes differ in the displacement from the last row before a repeat to the first row after it. With a slow source,
it equals the displacements between other successive rows nearby. With one lost reply, it is twice as large. If neither
is true, the rows are not changed: they are noisy, or their stamps are irregular in another way, see
`identification.data.instants`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dynid.recording.interpolation import interpolate
from dynid.robot import FloatArray

MOVING_STEPS = 4.0  # an arm moves if a joint's step between rows reaches this multiple of the joint's smallest step
REST_LENGTHS = 3.0  # a run of equal rows beyond this multiple of the usual length may be a rest
GAP = 2.5  # a longer step of the stamps is a gap [median steps]
LONGEST_HOLD = 3  # maximum number of consecutive repeats that are interpolated
SHORTEST_LINE = 9  # minimum number of rows that a line is fitted through
# Largest `_roughness` of a repaired log; a slower source gave 0.001, a logger with wrong stamps 0.3
MOST_ROUGHNESS = 0.05
FEWEST = 20  # minimum number of rows that are not repeats


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a recording; a row contains the values of all n joints at one time.

    Attributes:
        time: stamps, (N,) [s].
        q: positions, (N, n) [rad or m].
        tau: torques, (N, n) [N m or N]; None if they were not recorded.
        dq: velocities, (N, n) [rad/s or m/s]; None if they were not recorded.
        goal: values from another source, such as goal positions, (N, n), or None; the search for repeated rows ignores
            them.
        words: description of the changes made to the rows; "" without changes.
    """

    time: FloatArray
    q: FloatArray
    tau: FloatArray | None = None
    dq: FloatArray | None = None
    goal: FloatArray | None = None
    words: str = ""

    def mapped(self, time: FloatArray, words: str, function: Callable[[FloatArray], FloatArray]) -> "Rows":
        """Apply a function to every array; return rows with the results, new stamps and a new description.

        Args:
            time: stamps of the new rows, (K,) [s].
            words: description of the changes.
            function: function from an array of the present rows (N, n) to one of the new rows (K, n).
        """
        tau, dq, goal = (None if one is None else function(one) for one in (self.tau, self.dq, self.goal))
        return Rows(time, function(self.q), tau, dq, goal, words)


def without_repeats(rows: Rows) -> Rows:
    """Remove or replace repeats, which are rows that equal the previous row although the arm moves.

    If the recorder was faster than its source, repeats are left out, and the other rows get evenly spaced stamps. If
    replies were lost, short runs of repeats get interpolated values, and longer runs are left out. If no row is
    certainly a repeat, or if the cause is unknown, all rows are kept.
    """
    alike, repeats = repeated(rows)
    if not repeats.any():
        return rows
    own = np.flatnonzero(~repeats)
    stretches = _stretches(rows.time, own, alike)
    by_way, by_speed = _roughness(rows.q, own, stretches)
    note = f"{int(repeats.sum())} of {len(repeats)} rows repeat the row before, all joints alike, while the arm moves"
    if min(by_way, by_speed) > MOST_ROUGHNESS:
        return replace(rows, words=f"{note}; the cause is unknown, so they were kept")
    if by_speed < by_way:
        return _bridged(rows, repeats, f"{note}: they were replaced by values interpolated between their neighbours")
    stamps, rate = _even(rows.time[own], stretches, np.diff(np.flatnonzero(repeats)))
    words = (
        f"{note}: the recorder wrote faster than its source, which had something new at {rate:.3g} Hz. They were left "
        "out, and the others have even stamps"
    )
    return rows.mapped(stamps, words, lambda values: values[own])


def repeated(rows: Rows) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks (N,) of the rows equal to the previous row, and of the subset in which the arm certainly moves.

    The arm certainly moves if it moves before and after a run of equal rows, and if the run is not unusually long.
    """
    none = np.zeros(len(rows.time), dtype=bool)
    values = np.column_stack([one for one in (rows.q, rows.tau, rows.dq) if one is not None])
    if len(values) < FEWEST or not np.isfinite(rows.q).all() or not (np.diff(rows.time) > 0.0).all():
        return none, none  # faulty stamps are reported elsewhere
    alike = np.append(False, (values[1:] == values[:-1]).all(axis=1))
    if not alike.any() or (~alike).sum() < FEWEST:
        return alike, none
    steps = np.abs(np.diff(rows.q[~alike], axis=0))
    smallest = np.min(np.where(steps > 0.0, steps, np.inf), axis=0, initial=np.inf)
    moves = (steps >= MOVING_STEPS * smallest).any(axis=1)
    moves = np.append(moves[:1], moves) & np.append(moves, moves[-1:])  # before and after each non-repeated row
    holds = np.diff(np.append(np.flatnonzero(~alike), len(alike)))
    held = moves & (holds > 1)
    if held.any():
        moves &= holds <= REST_LENGTHS * float(np.median(holds[held]))
    return alike, np.asarray(alike & moves[np.cumsum(~alike) - 1])


def _stretches(time: FloatArray, own: NDArray[np.int64], alike: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Divide the rows that are not repeats into stretches; return the index of each row's stretch, (K,).

    A stretch is a sequence of rows without a gap in the stamps and without a rest of the arm.

    Args:
        time: stamps of all rows, (N,) [s].
        own: indices of the rows that are not repeats, (K,).
        alike: mask of the rows that equal the previous row, as repeats or because the arm rests, (N,).
    """
    steps = np.diff(time)
    gaps = np.append(0, np.cumsum(steps > GAP * float(np.median(steps))))[own]
    begins = (np.diff(gaps) > 0) | alike[own[1:]] | alike[own[:-1]]
    return np.append(0, np.cumsum(begins))


def _roughness(q: FloatArray, own: NDArray[np.int64], stretches: NDArray[np.int64]) -> tuple[float, float]:
    """Return two measures of uneven motion: the first is small for a slow source, the second for lost replies.

    A displacement is the change of the positions from one row that is not a repeat to the next such row. Its speed is
    the displacement, divided by the number of recorded rows that it spans, repeats included. The first measure compares
    each displacement with the mean of the displacements before and after it. The second measure compares it with the
    displacement that would result from the mean of the speeds before and after it. Each measure is the sum of these
    squared differences, divided by the sum of squared displacements.

    Only displacements next to repeats count, or all displacements if the repeats are perfectly regular. Both measures
    are infinite if the arm does not move.

    Args:
        q: positions of all rows, (N, n) [rad or m].
        own: indices of the rows that are not repeats, (K,).
        stretches: index of the stretch that contains each of these rows, see `_stretches`, (K,).
    """
    way, rows = np.diff(q[own], axis=0), np.diff(own)[:, None]
    within = stretches[:-3] == stretches[3:]
    near = ((rows[1:-1] != rows[:-2]) | (rows[1:-1] != rows[2:]))[:, 0] & within
    near = near if near.any() else within
    speed = way / rows
    by_way = way[1:-1] - 0.5 * (way[:-2] + way[2:])
    by_speed = way[1:-1] - rows[1:-1] * 0.5 * (speed[:-2] + speed[2:])
    whole = float((way[1:-1][near] ** 2).sum())
    if not whole:
        return np.inf, np.inf
    return float((by_way[near] ** 2).sum()) / whole, float((by_speed[near] ** 2).sum()) / whole


def _even(time: FloatArray, stretches: NDArray[np.int64], between: NDArray[np.int64]) -> tuple[FloatArray, float]:
    """Return evenly spaced stamps (K,) [s], and the rate of the longest stretch [Hz].

    The new stamps lie on lines fitted through the old ones, see `_on_lines`. Each line extends over about twice the
    usual number of rows from one repeat to the next. Stretches with fewer than `SHORTEST_LINE` rows keep their stamps,
    and so do two successive stretches of which the second would start before the first ends.

    Args:
        time: stamps of the rows that are not repeats, (K,) [s].
        stretches: index of the stretch that contains each of these rows, see `_stretches`, (K,).
        between: number of rows from each repeat to the next, in order.
    """
    wanted = max(2 * int(np.median(between)) + 1 if len(between) else len(time), SHORTEST_LINE)
    ends = np.flatnonzero(np.diff(stretches)) + 1
    parts = np.split(time, ends)
    found = [_on_lines(own, wanted) if len(own) >= SHORTEST_LINE else own for own in parts]
    while overlaps := [k for k in range(1, len(found)) if found[k][0] <= found[k - 1][-1]]:
        for k in overlaps:  # the next round looks at their neighbours, which may overlap the recorded stamps
            found[k], found[k - 1] = parts[k], parts[k - 1]
    longest = max(found, key=len)
    return np.concatenate(found), (len(longest) - 1) / float(longest[-1] - longest[0])


def _on_lines(time: FloatArray, wanted: int) -> FloatArray:
    """Return evenly spaced stamps (K,) [s] for successive rows without gaps.

    For each row, a line is fitted through the stamps of the `wanted` rows around it, or of all rows if there are fewer.
    The line's value at the row becomes its stamp.

    Args:
        time: recorded stamps, (K,) [s].
        wanted: number of rows through which a line is fitted.
    """
    width = min(wanted, len(time) - 1 + len(time) % 2)
    half, summed = width // 2, np.concatenate([[0.0], np.cumsum(time - time[0])])
    even = np.empty_like(time)
    even[half : len(time) - half] = time[0] + (summed[width:] - summed[:-width]) / width  # value at the line's middle
    places = np.arange(width)
    for ends, own in ((slice(None, half), slice(None, width)), (slice(-half, None), slice(-width, None))):
        slope, start = np.polyfit(places, time[own], 1)
        even[ends] = (start + slope * places)[ends]
    return even


def _bridged(rows: Rows, repeats: NDArray[np.bool_], words: str) -> Rows:
    """Replace short runs of repeats by interpolated values, and leave out long runs.

    Args:
        rows: the rows.
        repeats: mask of the rows that are repeats, (N,).
        words: description of this change.
    """
    own = ~repeats
    holds = np.diff(np.append(np.flatnonzero(own), len(own))) - 1
    kept = np.flatnonzero(own | (holds[np.cumsum(own) - 1] <= LONGEST_HOLD))
    there = rows.time[own]
    return rows.mapped(rows.time[kept], words, lambda values: interpolate(rows.time[kept], there, values[own]))
