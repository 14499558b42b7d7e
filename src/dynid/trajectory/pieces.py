"""Motions as piecewise polynomials, whose limits can be checked exactly, also between samples.

A polynomial on [0, 1] lies between the smallest and the largest of its Bernstein coefficients. The first and the last
coefficient are the polynomial's values at the ends. Each halving of the interval brings these bounds closer to the
curve. So the check either proves that a limit is kept, or finds a time at which the limit is violated.
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
    """Motion of n axes as piecewise polynomials of time.

    Attributes:
        begins: start time of each piece, (k,) [s].
        durations: duration of each piece, (k,) [s]; a motion that stands still has one piece of zero duration.
        coefficients: coefficients by powers of the time since the start of the piece, lowest power first, (k, 6, n).
    """

    begins: FloatArray
    durations: FloatArray
    coefficients: FloatArray

    @classmethod
    def of(cls, knots: FloatArray, coefficients: FloatArray, start: FloatArray) -> "Pieces":
        """Return a motion as piecewise polynomials, without pieces of zero duration.

        If all pieces have zero duration, the result has one piece of zero duration at `start`.

        Args:
            knots: times at which the pieces meet, (k + 1,) [s].
            coefficients: coefficients by powers of the time since the start of the piece, lowest power first,
                (k, 6, n).
            start: first posture of the motion, (n,) [rad].
        """
        durations = np.diff(knots)
        kept = durations > 0.0
        if kept.any():
            return cls(knots[:-1][kept], durations[kept], coefficients[kept])
        standing = np.zeros((1, coefficients.shape[1], len(start)))
        standing[0, 0] = start
        return cls(np.zeros(1), np.zeros(1), standing)

    def derivatives(self, piece: NDArray[np.int64], x: FloatArray, most: int | None = None) -> list[FloatArray]:
        """Return the positions [rad] and their time derivatives at N times of the motion, (N, n) each.

        Args:
            piece: indices of the pieces, (N,).
            x: times after the start of the piece, (N,) [s].
            most: length of the returned list; None gives the position and all five derivatives.
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
        """Return the postures in the middle of time spans, and bounds of the deviation from them, (N, n) [rad] each.

        A bound is the sum of the absolute terms of the Taylor series about the middle, up to the fifth derivative.

        Args:
            piece: indices of the pieces, (N,).
            begin: start of each span after the start of its piece, (N,) [s].
            end: end of each span after the start of its piece, (N,) [s].
        """
        half = 0.5 * (end - begin)
        values = self.derivatives(piece, 0.5 * (begin + end))
        away = np.zeros_like(values[0])
        for k in range(1, len(values)):
            away += np.abs(values[k]) * (half**k / factorial(k))[:, None]
        return values[0], away

    def bernstein(self, order: int) -> FloatArray:
        """Return the Bernstein coefficients of all pieces, (k, 6 - order, n), for a derivative of the positions.

        Args:
            order: 0 for positions [rad], 1 for velocities [rad/s], 2 for accelerations [rad/s^2].
        """
        now = self.coefficients
        for _ in range(order):
            now = now[:, 1:] * np.arange(1, now.shape[1])[:, None]
        scale = self.durations[:, None] ** np.arange(now.shape[1])
        return np.asarray(np.einsum("ip,kpn->kin", _to_bernstein(now.shape[1]), now * scale[:, :, None]))

    def peaks(self, order: int) -> FloatArray:
        """Return the largest absolute position, velocity or acceleration of each joint in the motion, (n,).

        The relative error is at most about 1e-9.

        Args:
            order: 0 for positions [rad], 1 for velocities [rad/s], 2 for accelerations [rad/s^2].
        """
        control = self.bernstein(order)
        least = np.abs(control[:, [0, -1]]).max(axis=(0, 1))
        return np.array([_peak(control[:, :, joint], float(most)) for joint, most in enumerate(least)])

    def first_beyond(self, order: int, lower: FloatArray, upper: FloatArray) -> tuple[int, float, int, float] | None:
        """Return a violation of bounds by the motion, not necessarily the earliest; None if the bounds are kept.

        The check covers all times within the pieces, and both sides of each knot.

        Args:
            order: quantity that is bounded: 0 for positions [rad], 1 for velocities [rad/s], 2 for accelerations
                [rad/s^2].
            lower: lower bounds, (n,).
            upper: upper bounds, (n,).

        Returns:
            Index of the piece, time since its start [s], index of the joint, and value.
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
    """Return the largest absolute value of N polynomials on [0, 1], or `least` if this is larger.

    Args:
        control: Bernstein coefficients of the polynomials, (N, d).
        least: known lower bound of the result, such as the largest absolute value at 0 and 1.
    """
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
    """Return the matrix (size, size) [-] that maps power coefficients to Bernstein coefficients on [0, 1]."""
    degree = size - 1
    return np.array([[comb(i, k) / comb(degree, k) if k <= i else 0.0 for k in range(size)] for i in range(size)])


@cache
def from_thirds() -> FloatArray:
    """Return the matrix (4, 4) [-] that maps a cubic's values at 0, 1/3, 2/3 and 1 to its Bernstein coefficients."""
    at = np.arange(4) / 3.0
    values = np.array([[comb(3, i) * x**i * (1.0 - x) ** (3 - i) for i in range(4)] for x in at])
    return np.asarray(np.linalg.inv(values))


def halves(control: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the Bernstein coefficients of polynomials on the left and on the right half of [0, 1] (de Casteljau).

    Args:
        control: Bernstein coefficients on [0, 1], (N, d) in any unit; the results have the same shape and unit.
    """
    left, right, now = np.empty_like(control), np.empty_like(control), control
    size = control.shape[1]
    for k in range(size):
        left[:, k], right[:, size - 1 - k] = now[:, 0], now[:, -1]
        now = 0.5 * (now[:, :-1] + now[:, 1:])
    return left, right


def first_beyond(control: FloatArray, lower: FloatArray, upper: FloatArray) -> tuple[int, float, float] | None:
    """Return a violation of bounds by one of N polynomials on [0, 1]; None if all bounds are kept.

    If several polynomials violate their bounds, the result is not necessarily the first violation.

    Args:
        control: Bernstein coefficients of the polynomials, (N, d) in any unit; NaN counts as outside.
        lower: lower bound of each polynomial, (N,) in the same unit.
        upper: upper bound of each polynomial, (N,) in the same unit.

    Returns:
        Index of the polynomial, argument within [0, 1], and value.
    """
    rows = np.arange(len(control))
    begin, width = np.zeros(len(control)), 1.0
    for level in range(MOST_BISECTIONS + 1):
        low, high = lower[rows, None], upper[rows, None]
        inside = (control >= low) & (control <= high)  # false for NaN
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
