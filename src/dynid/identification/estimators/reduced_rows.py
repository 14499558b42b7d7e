"""Rows of many recordings, reduced to triangles.

A row [C W S tau] relates one joint's torque to friction, base parameters and the shape of friction. A least-squares
problem depends on the rows of a joint only by their QR triangle R. So recordings are read one after the other, and
memory does not grow with their number. There is one triangle per joint, because estimators weight joints. There is also
one per group of recordings or blocks of time, because contradictions between groups reveal errors that residuals within
a group do not show.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dynid.identification.estimators.solution import Solution
from dynid.identification.estimators.triangles import triangle
from dynid.robot import FloatArray

GROUPS = 24
FEWEST_GROUPS = 8  # smallest number of groups with rows from whose scatter deviations are estimated
MOST_WIDER = 30.0  # largest factor by which contradictions between groups widen a deviation


@dataclass(eq=False)
class ReducedRows:
    """Triangles of all recordings' rows.

    Attributes:
        R: triangles (groups, n, k, k) of rows [C W S tau], every row times its trust.
        rows: number of rows of full trust in the triangles, (n,).
        friction: number of columns C.
        base: number of columns W.
        left_out: sentences about the recordings that gave no rows.
        seconds: total duration of the recordings that gave rows [s].
    """

    R: FloatArray
    rows: FloatArray
    friction: int
    base: int
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def empty(cls, axes: int, friction: int, base: int, shape: int) -> "ReducedRows":
        """Return triangles without any recording, for these numbers of axes and columns."""
        size = friction + base + shape + 1
        return cls(np.zeros((GROUPS, axes, size, size)), np.zeros(axes), friction, base)

    def merge(self, triangles: Mapping[int, FloatArray], rows: FloatArray) -> None:
        """Add triangles (n, k, k), given by group, which represent these numbers of rows (n,)."""
        for group, more in triangles.items():
            self.R[group] = merged(self.R[group], more)
        self.rows += rows

    @property
    def _shapeless(self) -> NDArray[np.int64]:
        """Indices of the columns C, W and tau, without those of the shape of friction, which keeps fitted values."""
        return np.append(np.arange(self.friction + self.base), self.R.shape[-1] - 1)

    def triangle(self, weights: FloatArray, more: FloatArray | None = None) -> FloatArray:
        """Return R (m + p + 1, m + p + 1) of all rows [C W tau], weighted per joint (n,), and of additional rows."""
        scaled = (self.R * weights[:, None, None])[..., self._shapeless]
        return triangle(scaled.swapaxes(0, 1).reshape(len(weights), -1, scaled.shape[-1]), more)

    def wider(self, solution: Solution, weights: FloatArray, deviations: FloatArray) -> FloatArray:
        """Return factors (q,), 1 or more, by which deviations must grow to cover contradictions between groups.

        They follow from the sandwich of least squares with one observation per group: cov = A^-1 (sum_g s_g s_g') A^-1.

        Args:
            solution: solution of all rows; its free friction parameters and base parameters are the q.
            weights: weights of the joints, (n,).
            deviations: standard deviations of the solution, (q,), from residuals over time.
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
    """Return the triangles (n, k, k) of the rows of both arguments, (n, ., k) each."""
    found = np.zeros((one.shape[0], one.shape[2], one.shape[2]))
    for joint, (a, b) in enumerate(zip(one, other, strict=True)):
        R = np.linalg.qr(np.concatenate([a[a.any(axis=1)], b[b.any(axis=1)]]), mode="r")
        found[joint, : len(R)] = R
    return found
