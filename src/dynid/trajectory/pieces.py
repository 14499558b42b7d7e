"""Motions as piecewise polynomials, whose bounds hold between samples, too.

A polynomial on [0, 1] lies within the hull of its Bernstein coefficients, and the first and last of them are its values
at the ends. Halving the interval brings hull and curve together, so the code either proves that a limit is kept or
finds a time at which it is violated.
"""

from dataclasses import dataclass
from functools import cache
from math import comb, factorial

import numpy as np
from numpy.typing import NDArray

from dynid.robot import FloatArray

MOST_BISECTIONS = 24  # maximum depth of bisection; beyond it a value is within rounding of its limit


@dataclass(frozen=True, eq=False)
class Pieces:
    """Polynomials of the time since the start of each piece.

    Attributes:
        begins: start time of each piece, (k,) [s].
        durations: duration of each piece, (k,) [s]; a motion that stands still has one piece of zero duration.
        coefficients: coefficients of the polynomials, lowest power first, (k, 6, n).
    """

    begins: FloatArray
    durations: FloatArray
    coefficients: FloatArray

    @classmethod
    def of(cls, knots: FloatArray, coefficients: FloatArray, start: FloatArray) -> "Pieces":
        """Make pieces between knots (k + 1,) [s] without those of zero duration; if none is left, stand at `start`."""
        durations = np.diff(knots)
        kept = durations > 0.0
        if kept.any():
            return cls(knots[:-1][kept], durations[kept], coefficients[kept])
        standing = np.zeros((1, coefficients.shape[1], len(start)))
        standing[0, 0] = start
        return cls(np.zeros(1), np.zeros(1), standing)

    def derivatives(self, piece: NDArray[np.int64], x: FloatArray, most: int | None = None) -> list[FloatArray]:
        """Return position [rad] and its derivatives, (N, n) each, at times x (N,) [s] after the start of pieces (N,).

        The last derivative is the highest that may not vanish, or the one of order `most` if that is given.
        """
        found: list[FloatArray] = []
        now = self.coefficients[piece]
        while now.shape[1] and (most is None or len(found) < most):
            value = np.zeros((len(x), now.shape[2]))
            for power in range(now.shape[1] - 1, -1, -1):
                value = value * x[:, None] + now[:, power]
            found.append(value)
            now = now[:, 1:] * np.arange(1, now.shape[1])[:, None]
        return found

    def around(self, piece: NDArray[np.int64], begin: FloatArray, end: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the postures in the middle of time spans, (N, n) [rad], and the largest deviation from them.

        Begin and end (N,) [s] of the spans count from the start of the piece (N,). The bound is Taylor's series, which
        is exact for polynomials.
        """
        half = 0.5 * (end - begin)
        values = self.derivatives(piece, 0.5 * (begin + end))
        away = np.zeros_like(values[0])
        for k in range(1, len(values)):
            away += np.abs(values[k]) * (half**k / factorial(k))[:, None]
        return values[0], away

    def bernstein(self, order: int) -> FloatArray:
        """Return the Bernstein coefficients of q [rad] (order 0), dq (1) or ddq (2), (k, 6 - order, n)."""
        now = self.coefficients
        for _ in range(order):
            now = now[:, 1:] * np.arange(1, now.shape[1])[:, None]
        scale = self.durations[:, None] ** np.arange(now.shape[1])
        return np.asarray(np.einsum("ip,kpn->kin", _to_bernstein(now.shape[1]), now * scale[:, :, None]))

    def peaks(self, order: int) -> FloatArray:
        """Return the largest |q| [rad] (order 0), |dq| [rad/s] (1) or |ddq| [rad/s^2] (2) per joint, (n,), to 1e-9."""
        control = self.bernstein(order)
        least = np.abs(control[:, [0, -1]]).max(axis=(0, 1))
        return np.array([_peak(control[:, :, joint], float(most)) for joint, most in enumerate(least)])

    def first_beyond(self, order: int, lower: FloatArray, upper: FloatArray) -> tuple[int, float, int, float] | None:
        """Return piece, time since its start [s], joint and value at which a derivative leaves bounds (n,), or None.

        The check covers times within the pieces and both sides of each knot.
        """
        control = self.bernstein(order)
        count, size, n = control.shape
        rows = control.transpose(0, 2, 1).reshape(count * n, size)
        found = first_beyond(rows, np.tile(lower, count), np.tile(upper, count))
        if found is None:
            return None
        row, share, value = found
        return row // n, share * float(self.durations[row // n]), row % n, value


def _peak(control: FloatArray, least: float) -> float:
    """Return the largest absolute value of polynomials from their Bernstein coefficients (N, d), at least `least`."""
    for _ in range(MOST_BISECTIONS):
        hull = np.abs(control).max(axis=1)
        near = hull > least * (1.0 + 1e-9) + 1e-12
        if not near.any():
            return least
        control = np.concatenate(halves(control[near]))
        least = max(least, float(np.abs(control[:, [0, -1]]).max()))
    return max(least, float(np.abs(control).max()))


@cache
def _to_bernstein(size: int) -> FloatArray:
    """Return the matrix from `size` coefficients by power to Bernstein coefficients on [0, 1]."""
    degree = size - 1
    return np.array([[comb(i, k) / comb(degree, k) if k <= i else 0.0 for k in range(size)] for i in range(size)])


@cache
def from_thirds() -> FloatArray:
    """Return the matrix (4, 4) [-] from a cubic's values at 0, 1/3, 2/3 and 1 to its Bernstein coefficients."""
    at = np.arange(4) / 3.0
    values = np.array([[comb(3, i) * x**i * (1.0 - x) ** (3 - i) for i in range(4)] for x in at])
    return np.asarray(np.linalg.inv(values))


def halves(control: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the Bernstein coefficients (N, d) [-] of both halves, by de Casteljau's algorithm."""
    left, right, now = np.empty_like(control), np.empty_like(control), control
    size = control.shape[1]
    for k in range(size):
        left[:, k], right[:, size - 1 - k] = now[:, 0], now[:, -1]
        now = 0.5 * (now[:, :-1] + now[:, 1:])
    return left, right


def first_beyond(control: FloatArray, lower: FloatArray, upper: FloatArray) -> tuple[int, float, float] | None:
    """Return row, place within [0, 1] and value where a polynomial leaves its bounds, or None.

    Args:
        control: Bernstein coefficients, (N, d) [-]; NaN counts as outside.
        lower: lower bounds, (N,) [-].
        upper: upper bounds, (N,) [-].
    """
    rows = np.arange(len(control))
    begin, width = np.zeros(len(control)), 1.0
    for level in range(MOST_BISECTIONS + 1):
        low, high = lower[rows, None], upper[rows, None]
        inside = (control >= low) & (control <= high)  # false for what is not a number
        undecided = ~inside.all(axis=1)
        if not undecided.any():
            return None
        lost = undecided if level == MOST_BISECTIONS else ~inside[:, [0, -1]].all(axis=1)
        if lost.any():
            k = int(np.flatnonzero(lost)[np.lexsort((begin[lost], rows[lost]))[0]])
            last = bool(inside[k, 0])
            return int(rows[k]), float(begin[k] + (width if last else 0.0)), float(control[k, -1 if last else 0])
        left, right = halves(control[undecided])
        width *= 0.5
        control, rows = np.concatenate([left, right]), np.tile(rows[undecided], 2)
        begin = np.concatenate([begin[undecided], begin[undecided] + width])
    return None
