"""Rows that repeat the row before, as a recorder writes where its source has said nothing new.

A recorder that writes what it last received, at a clock of its own, writes some states twice if its source is slower:
at 30 Hz, of a source of 29.3 Hz, one row in 43. A moving arm seems to stand still in it, and its derived accelerations
are ten times what they were. Between two repeats stamps drift by a whole period against the source. So repeats are
left out, and the others get the even stamps of their source: a line through the stamps about each row, from one gap
or rest to the next.

A driver that repeats its last state because a reply was lost is something else: the arm has then moved twice as far at
the next row. There the stamps are right, and a repeated row is given what lies between its neighbours; if more than a
few follow each other they are left out, and there is a gap. Which of the two it is, the way from row to row shows: it
is as long as that before and behind, or it is per row. Where it is neither, rows are noisy or have stamps of another
kind, see `instants`, and stay as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dynid.recording.interpolation import interpolate
from dynid.robot import FloatArray

STEPS = 4.0  # of the smallest step of a joint: an arm that moves so far from row to row cannot repeat its positions
RESTS = 3.0  # times the usual hold: what is held longer may be at rest
GAP = 2.5  # times the usual step of the stamps
LONGEST_HOLD = 3  # repeats in a row that a line may bridge
SHORTEST_LINE = 9  # rows that a line goes through
SMOOTH = 0.05  # of the way, squared: a slower source left 0.001, and another logger's rows with wrong stamps 0.3
FEWEST = 20  # rows that are no repeats


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a recording.

    Attributes:
        time: stamps, (N,) [s].
        q: positions, (N, n) [rad or m].
        tau: torques, (N, n) [N m or N], or None.
        dq: velocities, (N, n) [rad/s or m/s], or None.
        goal: what the recorder knew from elsewhere, such as goals, (N, n), or None: it is not asked for repeats.
        words: what was done; "" if nothing.
    """

    time: FloatArray
    q: FloatArray
    tau: FloatArray | None = None
    dq: FloatArray | None = None
    goal: FloatArray | None = None
    words: str = ""

    def mapped(self, time: FloatArray, words: str, function: Callable[[FloatArray], FloatArray]) -> "Rows":
        """Rows with other stamps, and a function of each array."""
        tau, dq, goal = (None if one is None else function(one) for one in (self.tau, self.dq, self.goal))
        return Rows(time, function(self.q), tau, dq, goal, words)


def without_repeats(rows: Rows) -> Rows:
    """The same rows as their source had them: see the file's own words; unchanged where no row is surely a repeat."""
    alike, repeats = repeated(rows)
    if not repeats.any():
        return rows
    own = np.flatnonzero(~repeats)
    stretches = _stretches(rows.time, own, alike)
    by_way, by_speed = _roughness(rows.q, own, stretches)
    said = f"{int(repeats.sum())} of {len(repeats)} rows repeat the row before, all joints alike, while the arm moves"
    if min(by_way, by_speed) > SMOOTH:
        return replace(rows, words=f"{said}; why is not clear, so they were left as they are")
    if by_speed < by_way:
        return _bridged(rows, repeats, f"{said}: they were replaced by what lies between their neighbours")
    stamps, rate = _even(rows.time[own], stretches, np.diff(np.flatnonzero(repeats)))
    words = (
        f"{said}: the recorder wrote faster than its source, which had something new at {rate:.3g} Hz. They were left "
        "out, and the others have even stamps"
    )
    return rows.mapped(stamps, words, lambda values: values[own])


def repeated(rows: Rows) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows (N,) have all values of the row before, and which of these do though the arm moves.

    It moves surely where it does so before and behind the rows in question, and these are no more than elsewhere.
    """
    none = np.zeros(len(rows.time), dtype=bool)
    values = np.column_stack([one for one in (rows.q, rows.tau, rows.dq) if one is not None])
    if len(values) < FEWEST or not np.isfinite(rows.q).all() or not (np.diff(rows.time) > 0.0).all():
        return none, none  # what is wrong with the stamps is told by others
    alike = np.append(False, (values[1:] == values[:-1]).all(axis=1))
    if not alike.any() or (~alike).sum() < FEWEST:
        return alike, none
    steps = np.abs(np.diff(rows.q[~alike], axis=0))
    smallest = np.min(np.where(steps > 0.0, steps, np.inf), axis=0, initial=np.inf)
    moves = (steps >= STEPS * smallest).any(axis=1)
    moves = np.append(moves[:1], moves) & np.append(moves, moves[-1:])  # before and behind each row of its own
    holds = np.diff(np.append(np.flatnonzero(~alike), len(alike)))
    held = moves & (holds > 1)
    if held.any():
        moves &= holds <= RESTS * float(np.median(holds[held]))
    return alike, np.asarray(alike & moves[np.cumsum(~alike) - 1])


def _stretches(time: FloatArray, own: NDArray[np.int64], alike: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Which stretch each own row is in, (K,): a gap begins another, and so does rest, where repeats are not known."""
    steps = np.diff(time)
    gaps = np.append(0, np.cumsum(steps > GAP * float(np.median(steps))))[own]
    begins = (np.diff(gaps) > 0) | alike[own[1:]] | alike[own[:-1]]
    return np.append(0, np.cumsum(begins))


def _roughness(q: FloatArray, own: NDArray[np.int64], stretches: NDArray[np.int64]) -> tuple[float, float]:
    """How unlike the way from one own row to the next is to that before and behind, over the way, squared: as it is,
    and per row of the recording. Only next to repeats, unless they are everywhere alike."""
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
    """Stamps (K,) on lines through those given, about each row of a stretch, and their usual rate [Hz].

    A line is as long as two times from one repeat to the next; short stretches keep their stamps.
    """
    wanted = max(2 * int(np.median(between)) + 1 if len(between) else len(time), SHORTEST_LINE)
    ends = np.flatnonzero(np.diff(stretches)) + 1
    parts = np.split(time, ends)
    found = [_on_lines(own, wanted) if len(own) >= SHORTEST_LINE else own for own in parts]
    for k in range(1, len(found)):  # a line may reach into the stretch before
        if found[k][0] <= found[k - 1][-1]:
            found[k], found[k - 1] = parts[k], parts[k - 1]
    longest = max(found, key=len)
    return np.concatenate(found), (len(longest) - 1) / float(longest[-1] - longest[0])


def _on_lines(time: FloatArray, wanted: int) -> FloatArray:
    """Stamps (K,) of one stretch on lines through `wanted` rows about each, or through all."""
    width = min(wanted, len(time) - 1 + len(time) % 2)
    half, summed = width // 2, np.concatenate([[0.0], np.cumsum(time - time[0])])
    even = np.empty_like(time)
    even[half : len(time) - half] = time[0] + (summed[width:] - summed[:-width]) / width  # a line, in its middle
    places = np.arange(width)
    for ends, own in ((slice(None, half), slice(None, width)), (slice(-half, None), slice(-width, None))):
        slope, start = np.polyfit(places, time[own], 1)
        even[ends] = (start + slope * places)[ends]
    return even


def _bridged(rows: Rows, repeats: NDArray[np.bool_], words: str) -> Rows:
    """With lines across short holds, and without the rows of long ones."""
    own = ~repeats
    holds = np.diff(np.append(np.flatnonzero(own), len(own))) - 1
    kept = np.flatnonzero(own | (holds[np.cumsum(own) - 1] <= LONGEST_HOLD))
    there = rows.time[own]
    return rows.mapped(rows.time[kept], words, lambda values: interpolate(rows.time[kept], there, values[own]))
