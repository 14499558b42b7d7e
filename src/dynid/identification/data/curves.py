"""Penalised splines through recorded positions (Eilers and Marx, Statistical Science 1996).

Below about 100 Hz, differences of neighbouring rows are too inaccurate as derivatives. A spline of degree five through
the rows gives position, velocity and acceleration at any time. A penalty on the differences of its coefficients
suppresses the encoder's quantisation.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy  # `scipy.interpolate` is loaded at first use: fast recordings need no splines
from scipy.linalg import solveh_banded

from dynid.robot import FloatArray

if TYPE_CHECKING:
    from scipy.interpolate import BSpline

DEGREE = 5
SHORTEST_KNOTS_S = 0.03
PENALTY = 1e-3


@dataclass(frozen=True, eq=False)
class Curves:
    """Spline curves of n joints' positions or torques over time.

    Attributes:
        spline: spline that gives values (M, n) at times (M,) [s].
        begin: start of the time that the data cover [s].
        end: end of the time that the data cover [s].
    """

    spline: "BSpline"
    begin: float
    end: float

    def states(self, time: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the values of the curves and their first two derivatives at times (M,) [s], (M, n) each.

        The values may have any unit; the derivatives are per second and per second squared.
        """
        inside = np.clip(time, self.spline.t[DEGREE], self.spline.t[-DEGREE - 1])
        q, dq, ddq = (np.ascontiguousarray(self.spline(inside, nu)) for nu in range(3))
        return q, dq, ddq


def curves_through(time: FloatArray, values: FloatArray, knots_s: float | None = None) -> Curves:
    """Return penalised splines through values (N, n) at timestamps (N,) [s].

    Args:
        time: timestamps (N,) [s], increasing.
        values: values (N, n), any unit.
        knots_s: time between knots [s]; None means the median time between rows, but at least `SHORTEST_KNOTS_S`.
    """
    step = knots_s or max(float(np.median(np.diff(time))), SHORTEST_KNOTS_S)
    begin, end = float(time[0]), float(time[-1])
    count = max(int(np.ceil((end - begin) / step)), 1)
    knots = begin + (end - begin) / count * np.arange(-DEGREE, count + DEGREE + 1)
    inside = np.clip(time, knots[DEGREE], knots[-DEGREE - 1])
    design = scipy.interpolate.BSpline.design_matrix(inside, knots, DEGREE).tocsc()
    size = design.shape[1]
    normal = (design.T @ design).todia()
    bands = np.zeros((DEGREE + 1, size))
    for offset, row in zip(normal.offsets, normal.data, strict=True):
        if offset >= 0:
            bands[DEGREE - offset, offset:] = row[offset:size]
    rows = np.tile([-1.0, 3.0, -3.0, 1.0], (size - 3, 1))
    weight = PENALTY * len(time) / size
    for a in range(4):
        for b in range(a, 4):
            at = np.arange(size - 3) + b
            np.add.at(bands[DEGREE - (b - a)], at, weight * rows[:, a] * rows[:, b])
    found = solveh_banded(bands, design.T @ values, check_finite=False)
    return Curves(scipy.interpolate.BSpline(knots, found, DEGREE, extrapolate=False), begin, end)
