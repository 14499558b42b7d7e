"""Rows of many recordings, of which only triangles are kept.

A row [C W S tau] holds what one joint's torque says of friction, base parameters and the shape of friction. Rows of a
joint enter a least-squares problem by their triangle R alone, so recordings are read one after the other, and memory
does not grow with their number. There is one triangle per joint, because estimators weigh joints, and per group of
recordings or blocks of time: how much the groups contradict each other is what residuals within one do not show.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dynid.identification.estimators.solution import Solution
from dynid.identification.estimators.triangles import triangle
from dynid.robot import FloatArray

GROUPS = 24
FEWEST_GROUPS = 8  # with rows: fewer scatter says nothing of deviations
MOST_WIDER = 30.0  # times a deviation, by which contradictions between groups widen it at most


@dataclass(eq=False)
class ReducedRows:
    """Triangles of all recordings' rows.

    Attributes:
        R: (groups, n, k, k), of rows [C W S tau], every row times its trust.
        rows: how many rows of full trust they stand for, (n,).
        friction, base: number of columns C and W.
        left_out: sentences that say which recordings gave no rows.
        seconds: total length of the recordings that did [s].
    """

    R: FloatArray
    rows: FloatArray
    friction: int
    base: int
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def empty(cls, axes: int, friction: int, base: int, shape: int) -> "ReducedRows":
        """Return what no recording has been added to yet."""
        size = friction + base + shape + 1
        return cls(np.zeros((GROUPS, axes, size, size)), np.zeros(axes), friction, base)

    def merge(self, triangles: Mapping[int, FloatArray], rows: FloatArray) -> None:
        """Add triangles (n, k, k) by group that stand for so many rows (n,)."""
        for group, more in triangles.items():
            self.R[group] = merged(self.R[group], more)
        self.rows += rows

    @property
    def _shapeless(self) -> NDArray[np.int64]:
        """Places of C, W and tau among the columns: the shape of friction stays as it was fitted."""
        return np.append(np.arange(self.friction + self.base), self.R.shape[-1] - 1)

    def triangle(self, weights: FloatArray, more: FloatArray | None = None) -> FloatArray:
        """Return R (m + p + 1, m + p + 1) of all rows [C W tau], with a weight per joint (n,), and of more rows."""
        scaled = (self.R * weights[:, None, None])[..., self._shapeless]
        return triangle(scaled.swapaxes(1, 2).reshape(-1, len(weights), scaled.shape[-1]), more)

    def wider(self, solution: Solution, weights: FloatArray, deviations: FloatArray) -> FloatArray:
        """Return by how much deviations (q,) must grow to cover the contradictions between groups, (q,), 1 or more.

        The sandwich of least squares, a group being one observation: cov = A^-1 (sum_g s_g s_g') A^-1.

        Args:
            solution: of all rows; its sliding friction and base parameters are the q.
            weights: of the joints, (n,).
            deviations: of the solution, from residuals in time.
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
    """Return the triangles (n, k, k) of the rows of both, (n, ., k)."""
    found = np.zeros((one.shape[0], one.shape[2], one.shape[2]))
    for joint, (a, b) in enumerate(zip(one, other, strict=True)):
        R = np.linalg.qr(np.concatenate([a[a.any(axis=1)], b[b.any(axis=1)]]), mode="r")
        found[joint, : len(R)] = R
    return found
