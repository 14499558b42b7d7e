"""Bounded least squares from the R factor of all regression rows, and matrices for projections and covariances."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from dynid.identification.estimators.triangles import bounded
from dynid.robot import FloatArray


@dataclass(frozen=True, eq=False)
class Solution:
    """Least-squares solution within bounds for base parameters phi and additional friction parameters f.

    Attributes:
        phi: base parameters, (p,).
        inverse: inverse of the normal matrix, (k + p, k + p), for the k free friction parameters, which are not at a
            bound, and then phi. The rows and columns of base parameters at a bound are 0.
        triangle: R factor of a QR decomposition of the weighted rows [C W tau], with the columns C of the free friction
            parameters, the columns W of phi, and the torque tau.
        friction: friction parameters f, (m,); None if the problem has none.
        sliding: mask (m,) of the free friction parameters, which are not at a bound.
    """

    phi: FloatArray
    inverse: FloatArray
    triangle: FloatArray
    friction: FloatArray | None
    sliding: NDArray[np.bool_]

    @property
    def metric(self) -> FloatArray:
        """R factor (p, p) of the regression of base parameters after elimination of friction.

        Projections use it as their metric: without active bounds, || R (phi - self.phi) ||^2 is the increase of the
        weighted squared torque error if the base parameters are phi and friction is fitted again.
        """
        count = int(self.sliding.sum())
        return self.triangle[count:-1, count:-1]


def solve_triangle(whole: FloatArray, count: int, lower: FloatArray, upper: FloatArray) -> Solution:
    """Return the least-squares solution within bounds for friction and base parameters.

    Parameters at a bound get a variance of zero.

    Args:
        whole: R factor (m + p + 1, m + p + 1) of the weighted rows [C W tau], with the columns C of friction
            parameters, the columns W of base parameters, and the torque tau.
        count: number m of friction parameters, which come first.
        lower: lower bounds of all parameters, (m + p,).
        upper: upper bounds of all parameters, (m + p,).
    """
    free, values = np.ones(whole.shape[1] - 1, dtype=bool), np.zeros(whole.shape[1] - 1)
    if np.isfinite(lower).any():
        values = bounded(whole, lower, upper)
        free = (values > lower) & (values < upper) & (np.linalg.norm(whole[:, :-1], axis=0) > 0.0)
    rest = whole.copy()
    rest[:, -1] -= whole[:, :-1][:, ~free] @ values[~free]
    # all base parameters stay columns, so that the metric also contains the cost of leaving a bound
    kept = np.append(free[:count], np.ones(len(values) - count, dtype=bool))
    R = qr(rest[:, np.append(kept, True)], mode="r", check_finite=False)[0][: kept.sum() + 1]
    own = R if free[kept].all() else qr(R[:, np.append(free[kept], True)], mode="r", check_finite=False)[0]
    size = int(free.sum())
    strengths = np.linalg.norm(own[:size, :size], axis=0)
    scaled = own[:size, :size] / strengths
    values[free] = solve_triangular(scaled, own[:size, -1]) / strengths
    root = solve_triangular(scaled, np.eye(size)) / strengths[:, None]
    inverse = np.zeros((int(kept.sum()), int(kept.sum())))
    inverse[np.ix_(free[kept], free[kept])] = root @ root.T
    # right-hand side of the kept columns, including those at a bound
    R[:, -1] += R[:, :-1][:, ~free[kept]] @ values[kept][~free[kept]]
    return Solution(values[count:], inverse, R, np.clip(values[:count], lower[:count], upper[:count]), free[:count])
