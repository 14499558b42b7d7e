"""R factor of a QR decomposition of all joints' regression rows, and bounded least squares from this factor.

The torque of a joint does not depend on links before it, so the rows of the last joints have few nonzero columns.
First, each joint's rows are reduced to an R factor over the nonzero columns of this joint. Then the R factors of all
joints are reduced to one.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.optimize import lsq_linear

from dynid.robot import FloatArray


def triangle(joints: Iterable[FloatArray], more: FloatArray | None = None) -> FloatArray:
    """Return the R factor (k, k) of a QR decomposition of all regression rows A, so that R'R = A'A.

    Args:
        joints: rows of each joint, (N, k).
        more: additional rows that belong to no joint, (m, k).
    """
    parts = [] if more is None else [more[more.any(axis=1)]]
    for own in joints:
        there = own.any(axis=0)
        columns = np.asarray(np.linalg.qr(own[:, there], mode="r"))
        whole = np.zeros((len(columns), own.shape[1]))
        whole[:, there] = columns
        parts.append(whole)
    found = np.asarray(np.linalg.qr(np.concatenate(parts), mode="r"))
    R = np.zeros((found.shape[1], found.shape[1]))
    R[: len(found)] = found
    return R


def bounded(R: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the x (m,) within bounds that minimises || A x - b ||, given the R factor of the matrix [A b].

    If a column of A is zero, the corresponding entry of x is the value nearest to 0 within its bounds.

    Args:
        R: R factor of a QR decomposition, (m + 1, m + 1).
        lower: lower bounds of x, (m,); -inf for unbounded entries.
        upper: upper bounds of x, (m,); inf for unbounded entries.
    """
    scale = np.linalg.norm(R[:, :-1], axis=0)
    heard: NDArray[np.bool_] = scale > 1e-9 * scale.max()
    out = np.clip(np.zeros(len(scale)), lower, upper)
    limited = heard & (np.isfinite(lower) | np.isfinite(upper))
    free = heard & ~limited
    b = R[:, -1] - R[:, :-1][:, ~heard] @ out[~heard]
    # columns without bounds go first: the rows below their R factor form the problem of the bounded entries alone
    count = int(free.sum())
    T = qr(
        np.column_stack([R[:, :-1][:, free], R[:, :-1][:, limited], b])
        / np.append(np.concatenate([scale[free], scale[limited]]), 1.0),
        mode="r",
        check_finite=False,
    )[0]
    x = np.zeros(T.shape[1] - 1)
    if limited.any():
        low, high = lower[limited] * scale[limited], upper[limited] * scale[limited]
        x[count:] = lsq_linear(T[count:, count:-1], T[count:, -1], (low, high), method="bvls", tol=1e-12).x
    left = T[:count, -1] - T[:count, count:-1] @ x[count:]
    x[:count] = np.linalg.lstsq(T[:count, :count], left, rcond=None)[0]
    out[free], out[limited] = x[:count] / scale[free], x[count:] / scale[limited]
    return np.clip(out, lower, upper)
