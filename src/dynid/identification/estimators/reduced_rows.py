"""Regression rows of many recordings, reduced to R factors of QR decompositions.

A regression row [C W S tau] is one equation: it relates one joint's torque tau to friction parameters (columns C), base
parameters (W) and the shape parameters of friction (S). The R factor of the QR decomposition of a joint's rows
determines the least-squares solution. So recordings are read one after the other, and memory does not grow with their
number. Each joint has an R factor of its own, because estimators weight joints differently. Each group of recordings
(or of blocks of time) has R factors of its own, too: differences between groups reveal errors that residuals within a
group do not show.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dynid.identification.estimators.solution import Solution
from dynid.identification.estimators.triangles import triangle
from dynid.robot import FloatArray

GROUPS = 24
FEWEST_GROUPS = 8  # smallest number of groups from whose scatter standard deviations are estimated
MOST_WIDER = 30.0  # largest factor by which contradictions between groups widen a deviation


@dataclass(eq=False)
class ReducedRows:
    """R factors of the regression rows of all recordings, by group of recordings and by joint.

    Attributes:
        R: R factors (groups, n, k, k) of rows [C W S tau], each multiplied by its weight. The columns are those of
            friction parameters (C), base parameters (W), and uncertain parameters that are not estimated, such as the
            shape of friction (S). The torque is last.
        rows: number of rows of each joint, (n,), not counting rows with a lower weight near standstill.
        friction: number of columns C.
        base: number of columns W.
        left_out: messages about recordings that could not be used, one sentence each.
        seconds: total duration of the recordings used [s].
    """

    R: FloatArray
    rows: FloatArray
    friction: int
    base: int
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def empty(cls, axes: int, friction: int, base: int, shape: int) -> "ReducedRows":
        """Return `ReducedRows` to which no recording has been added yet.

        Args:
            axes: number of axes.
            friction: number of columns of friction parameters.
            base: number of columns of base parameters.
            shape: number of columns of uncertain parameters that are not estimated, such as the shape of friction.
        """
        size = friction + base + shape + 1
        return cls(np.zeros((GROUPS, axes, size, size)), np.zeros(axes), friction, base)

    def merge(self, triangles: Mapping[int, FloatArray], rows: FloatArray) -> None:
        """Add the R factors of further regression rows to this object.

        Args:
            triangles: R factors (n, k, k) of each joint's rows, by group of recordings.
            rows: number of added regression rows of each joint, (n,), not counting rows with a lower weight near
                standstill.
        """
        for group, more in triangles.items():
            self.R[group] = merged(self.R[group], more)
        self.rows += rows

    @property
    def _shapeless(self) -> NDArray[np.int64]:
        """Indices of the columns of friction parameters, base parameters and torque.

        Columns of uncertain parameters that are not estimated, such as the shape of friction, are not included.
        """
        return np.append(np.arange(self.friction + self.base), self.R.shape[-1] - 1)

    def triangle(self, weights: FloatArray, more: FloatArray | None = None) -> FloatArray:
        """Return the R factor (m + p + 1, m + p + 1) of the weighted rows [C W tau] of all recordings and joints.

        The columns are those of m friction parameters, p base parameters and the torque. Columns of other uncertain
        parameters are not included. So the shape of friction (Stribeck velocity and exponent) keeps its fitted value.

        Args:
            weights: weights of the joints, (n,).
            more: additional rows, (k, m + p + 1), such as a prior.
        """
        scaled = (self.R * weights[:, None, None])[..., self._shapeless]
        return triangle(scaled.swapaxes(0, 1).reshape(len(weights), -1, scaled.shape[-1]), more)

    def wider(self, solution: Solution, weights: FloatArray, deviations: FloatArray) -> FloatArray:
        """Return factors (q,), at least 1, that widen the standard deviations of the parameters.

        Groups of recordings may differ more than the residuals within a recording indicate. So each factor is the
        standard deviation from the sandwich covariance A^-1 (sum_g s_g s_g') A^-1, divided by the given standard
        deviation. A is the normal matrix, and s_g the sum of regressor column times residual over the group g. The q
        parameters are the friction parameters that are not at a bound, and the base parameters. Factors are at most
        `MOST_WIDER`, and 1 if there are fewer than `FEWEST_GROUPS` groups.

        Args:
            solution: least-squares solution of all rows.
            weights: weights of the joints, (n,).
            deviations: given standard deviations of the q parameters, (q,), from the correlation of residuals in time.
        """
        scaled = (self.R * weights[:, None, None])[..., self._shapeless]
        values = np.append(solution.friction if solution.friction is not None else np.zeros(0), solution.phi)
        left = scaled[..., -1] - scaled[..., :-1] @ values
        scores = np.einsum("gjrc,gjr->gc", scaled[..., :-1], left)[scaled.any(axis=(1, 2, 3))]
        count = len(scores)
        if count < FEWEST_GROUPS:
            return np.ones_like(deviations)
        kept = np.append(solution.sliding[: self.friction], np.ones(self.base, dtype=bool))
        moved = scores[:, kept] @ solution.inverse * np.sqrt(count / (count - 1.0))
        scatter = np.sqrt((moved**2).sum(axis=0))
        return np.asarray(np.clip(scatter / np.maximum(deviations, np.finfo(float).tiny), 1.0, MOST_WIDER))


def merged(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return for each joint the R factor of all its rows in two sets of rows, (n, k, k).

    Args:
        one: rows of each joint, or their R factors, (n, any number, k).
        other: further rows of each joint, or their R factors, (n, any number, k).
    """
    found = np.zeros((one.shape[0], one.shape[2], one.shape[2]))
    for joint, (a, b) in enumerate(zip(one, other, strict=True)):
        R = np.linalg.qr(np.concatenate([a[a.any(axis=1)], b[b.any(axis=1)]]), mode="r")
        found[joint, : len(R)] = R
    return found
