"""Division of a motion into short time spans, with four samples per span for the interpolation of torques by a cubic.

Accelerations are cubics of time on each piece of a motion. Within a few milliseconds M(q) and gravity hardly change, so
torques are close to cubics, too. Friction jumps where a joint reverses. In such a span, torques are computed twice,
with the friction of each direction.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.robot import FloatArray
from dynid.trajectory.pieces import Pieces, first_beyond, from_thirds

CELL_S = 0.006  # longest span
NODES = 4
BATCH = 5000  # spans per batch, which bounds memory independently of the motion's length
STANDING_RAD_S = 1e-9  # speed below which motion is a rounding error
Torques = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Cells:
    """Batch of consecutive short time spans of a motion, with states at `NODES` = 4 samples per span.

    The first and the last sample of a span are its ends.

    No span crosses a knot, at which two polynomials of the motion meet. A span that begins or ends at a knot has there
    the values of its own polynomial.

    Attributes:
        times: times since the motion's start, (N, 4) [s].
        q: positions, (N, 4, n) [rad].
        dq: velocities, (N, 4, n) [rad/s].
        ddq: accelerations, (N, 4, n) [rad/s^2].
        last: whether this is the last batch of the motion.
    """

    times: FloatArray
    q: FloatArray
    dq: FloatArray
    ddq: FloatArray
    last: bool

    def torques(self, torques: Torques) -> list[FloatArray]:
        """Return the torques at the samples of all time spans, (N, 4, n) [N m], smooth within each span.

        The list has one array if no joint reverses within a span. Otherwise it has two arrays: for joints that reverse,
        the first has the friction of forward motion, the second that of backward motion; other joints have the same
        velocities in both. If a joint moves within a span, a sample at which its velocity is zero, such as at the start
        of the motion, also gets the friction of a joint that moves in this direction.

        Args:
            torques: function `(q, dq, ddq) -> tau`, (N, n) each in SI.
        """
        ahead = (self.dq > STANDING_RAD_S).any(axis=1, keepdims=True)
        back = (self.dq < -STANDING_RAD_S).any(axis=1, keepdims=True)
        forth = np.where(ahead, np.maximum(self.dq, STANDING_RAD_S), self.dq)
        speeds = [np.where(back & ~ahead, np.minimum(self.dq, -STANDING_RAD_S), forth)]
        turns = ahead & back
        if turns.any():
            speeds.append(np.where(turns, np.minimum(self.dq, -STANDING_RAD_S), speeds[0]))
        shape, n = self.q.shape, self.q.shape[2]
        rows = [one.reshape(-1, n) for one in (self.q, self.ddq)]
        return [torques(rows[0], one.reshape(-1, n), rows[1]).reshape(shape) for one in speeds]

    def first_beyond(self, values: FloatArray, bound: FloatArray) -> tuple[float, int, float] | None:
        """Return a value beyond +-bound, as time [s], joint index and value; None if all values are within.

        The returned value is not necessarily the earliest one beyond the bound.

        Between the four samples of a time span, each joint's value is interpolated by the cubic through them.

        Args:
            values: values of each joint at the four samples of N time spans, (N, 4, n) in any unit.
            bound: bound of the absolute values, (n,) in the same unit.
        """
        control = np.einsum("ij,njk->nki", from_thirds(), values).reshape(-1, NODES)
        high = np.tile(bound, len(values))
        found = first_beyond(control, -high, high)
        if found is None:
            return None
        row, share, value = found
        begin, end = self.times[row // len(bound), [0, -1]]
        return float(begin + share * (end - begin)), row % len(bound), value


def cells_of(pieces: Pieces) -> Iterator[Cells]:
    """Yield the short time spans of a whole motion with their samples, at most `BATCH` spans at a time.

    Args:
        pieces: the motion as piecewise polynomials.
    """
    counts = np.maximum(1, np.ceil(pieces.durations / CELL_S)).astype(np.int64)
    firsts = np.concatenate([[0], np.cumsum(counts)])
    for begin in range(0, int(firsts[-1]), BATCH):
        number = np.arange(begin, min(begin + BATCH, int(firsts[-1])))
        piece = np.searchsorted(firsts, number, side="right") - 1
        yield _cells(pieces, piece, number - firsts[piece], counts[piece], last=int(number[-1]) + 1 == int(firsts[-1]))


def _cells(
    pieces: Pieces, piece: NDArray[np.int64], place: NDArray[np.int64], count: NDArray[np.int64], *, last: bool
) -> Cells:
    share = (place[:, None] + np.arange(NODES) / (NODES - 1)) / count[:, None]
    x = share * pieces.durations[piece, None]
    states = pieces.derivatives(np.repeat(piece, NODES), x.ravel(), 3)
    q, dq, ddq = (one.reshape(*x.shape, -1) for one in states)
    return Cells(pieces.begins[piece, None] + x, q, dq, ddq, last)
