"""The triangle R of a QR decomposition of the rows of all joints.

A joint knows nothing of links before it, so the rows of the last joints have few columns. Each joint's rows become a
triangle first, of its own columns alone; then the triangles of all become one.
"""

import numpy as np
from scipy.linalg import qr

from dynid.robot import FloatArray


def triangle(rows: FloatArray, more: FloatArray | None = None) -> FloatArray:
    """R (k, k) with R'R = A'A of the rows A.

    Args:
        rows: of n joints, (N, n, k).
        more: rows of no joint, (m, k).
    """
    parts = [np.zeros((0, rows.shape[2])) if more is None else more[more.any(axis=1)]]
    for own in rows.swapaxes(0, 1):
        there = own.any(axis=0)
        columns = np.asfortranarray(own[:, there])
        R = _upper(columns)
        whole = np.zeros((len(R), rows.shape[2]))
        whole[:, there] = R
        parts.append(whole)
    R = np.zeros((rows.shape[2], rows.shape[2]))
    found = _upper(np.asfortranarray(np.concatenate(parts)))
    R[: len(found)] = found
    return R


def _upper(rows: FloatArray) -> FloatArray:
    """R of rows, which are overwritten; no more rows than columns."""
    if not rows.size:
        return np.zeros((0, rows.shape[1]))
    return np.asarray(qr(rows, mode="r", check_finite=False, overwrite_a=True)[0][: rows.shape[1]])
