"""Quintic B-splines for motions from rest to rest."""

import numpy as np
from scipy.interpolate import BSpline

from dynid.robot import FloatArray
from dynid.trajectory.polynomial import PolynomialTrajectory, through_points

DEGREE, KNOT_S = 5, 0.5


class Spline:
    """Basis of quintic B-splines of one duration, for motions from rest to rest.

    Attributes:
        duration: duration of every spline [s].
        free: number of control points after the start; the last one is the end posture.
    """

    def __init__(self, duration: float) -> None:
        self.duration = duration
        inner = np.linspace(0.0, duration, max(2, round(duration / KNOT_S) + 1))
        self.knots = inner
        padded = np.concatenate([np.zeros(DEGREE), inner, np.full(DEGREE, duration)])
        count = len(padded) - DEGREE - 1
        self.free = count - DEGREE
        spread = np.zeros((count, 1 + self.free))
        spread[:3, 0] = 1.0
        spread[3 : count - 3, 1 : self.free] = np.eye(self.free - 1)
        spread[count - 3 :, self.free] = 1.0
        self._basis, self._spread = BSpline(padded, np.eye(count), DEGREE), spread

    def functions(self, times: FloatArray) -> list[FloatArray]:
        """Return the basis functions of the control points and their first two time derivatives at times (N,) [s].

        Each of the three arrays is (N, 1 + free), with a column per control point.
        """
        found = [self._basis, self._basis.derivative(1), self._basis.derivative(2)]
        return [one(times) @ self._spread for one in found]

    def motion(self, name: str, joints: tuple[str, ...], points: FloatArray) -> PolynomialTrajectory:
        """Return the motion with the given name and control points (1 + free, n) [rad].

        The first control point is the start posture and the last one the end posture; the motion need not pass through
        the others.
        """
        q, dq, ddq = (one @ points for one in self.functions(self.knots))
        dq[[0, -1]] = 0.0
        ddq[[0, -1]] = 0.0
        # rounding errors must not give a standing joint a velocity, because its sign would add friction
        still = (points == points[0]).all(axis=0)
        q[:, still], dq[:, still], ddq[:, still] = points[0, still], 0.0, 0.0
        return through_points(name, joints, self.knots, q, dq, ddq)
