"""Smooth motions that are linear in their coefficients: finite Fourier series and B-splines, from rest to rest.

Positions are q(t) = Phi(t) c with functions Phi that have zero velocity and zero acceleration at both ends. So the
motion starts and ends at rest for any choice of the coefficients c.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy  # `scipy.interpolate` is loaded at first use: Fourier series need no splines
from scipy.linalg import null_space

from dynid.errors import ConfigurationError
from dynid.robot import FloatArray, read_only

SeriesKind = Literal["fourier", "spline"]
SPLINE_DEGREE = 5


@dataclass(frozen=True, eq=False)
class Series:
    """Set of k functions of time for motions from rest to rest: a motion of n joints has coefficients (k, n).

    Attributes:
        kind: "fourier" or "spline".
        duration: duration from rest to rest [s].
        rest: matrix that combines m basis functions, such as sines, into k functions with zero velocity and
            acceleration at both ends, (m, k).
        size: number m of basis functions: 1 + 2 x number of harmonics for a Fourier series, or the number of control
            points of a spline.
    """

    kind: SeriesKind
    duration: float
    rest: FloatArray
    size: int

    @classmethod
    def of(cls, kind: SeriesKind, duration: float, terms: int) -> "Series":
        """Return a Fourier series or B-spline whose functions have zero velocity and acceleration at both ends.

        Args:
            kind: "fourier" or "spline".
            duration: duration from rest to rest [s]; the fundamental frequency of a Fourier series is 1/duration.
            terms: number of harmonics, or of control points of a spline.

        Raises:
            ConfigurationError: the duration is not positive, or there are too few terms for rest at both ends.
        """
        least = 3 if kind == "fourier" else SPLINE_DEGREE + 3
        if not duration > 0.0 or terms < least:
            raise ConfigurationError(f"a {kind} motion of {duration} s with {terms} terms; expected at least {least}")
        size = 1 + 2 * terms if kind == "fourier" else terms
        plain = cls(kind, duration, read_only(np.eye(size)), size)
        _, velocity, acceleration = plain.functions(np.array([0.0, duration]))
        free = null_space(np.concatenate([velocity * duration, acceleration * duration**2]), rcond=1e-10)
        return cls(kind, duration, read_only(free), size)

    @property
    def count(self) -> int:
        """Number k of functions, which is the number of coefficients per joint."""
        return int(self.rest.shape[1])

    def functions(self, times: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the k functions of time and their first and second derivatives at times (N,) [s], (N, k) each."""
        made = self._fourier(times) if self.kind == "fourier" else self._spline(times)
        return made[0] @ self.rest, made[1] @ self.rest, made[2] @ self.rest

    def _fourier(self, times: FloatArray) -> list[FloatArray]:
        rates = 2.0 * np.pi / self.duration * np.arange(1, (self.size - 1) // 2 + 1)
        s, c = np.sin(np.outer(times, rates)), np.cos(np.outer(times, rates))
        one, none = np.ones((len(times), 1)), np.zeros((len(times), 1))
        return [
            np.hstack([one, s, c]),
            np.hstack([none, rates * c, -rates * s]),
            np.hstack([none, -(rates**2) * s, -(rates**2) * c]),
        ]

    def _spline(self, times: FloatArray) -> list[FloatArray]:
        inner = np.linspace(0.0, self.duration, self.size - SPLINE_DEGREE + 1)
        knots = np.concatenate([np.zeros(SPLINE_DEGREE), inner, np.full(SPLINE_DEGREE, self.duration)])
        basis = scipy.interpolate.BSpline(knots, np.eye(self.size), SPLINE_DEGREE)
        return [basis(times), basis.derivative(1)(times), basis.derivative(2)(times)]
