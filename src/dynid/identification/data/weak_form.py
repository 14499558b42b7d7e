"""Averages under test functions: the low-pass of the weak form.

The equation of motion holds at every instant, so it holds for any average over a test function psi of limited support
(modulating functions, Preisig and Rippin 1993):

    int psi tau dt = int psi (W phi + friction) dt

Both sides lose the same band, like under a filter, but a test function has an end: a gap costs no more than the windows
that it touches, and nothing has to settle. Here psi is a cubic B-spline.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dynid.robot import FloatArray

HOPS = 4  # test functions begin every quarter of their support
CUTOFF_OF_SUPPORT = 1.273  # cut-off frequency, at which one half is left, times the support


def cubic_spline(hop: int) -> FloatArray:
    """Return a cubic B-spline of unit sum, sampled at a support of `HOPS` hops of so many steps, (4 hop - 1,)."""
    x = 2.0 - np.abs(np.arange(1 - 2 * hop, 2 * hop)) / hop
    y = x - 1.0
    values = np.where(x < 1.0, x**3, 1.0 + 3.0 * y + 3.0 * y**2 - 3.0 * y**3)
    return np.asarray(values / values.sum())


def averaged(values: FloatArray, kernel: FloatArray, nodes: NDArray[np.int64]) -> FloatArray:
    """Return averages of values (M, k) under a test function (2 r + 1,) about places (N,) in them, (N, k)."""
    reach = len(kernel) // 2
    places = nodes[:, None] + np.arange(-reach, reach + 1)
    ends = np.arange(len(nodes) + 1) * len(kernel)
    rows = csr_matrix((np.tile(kernel, len(nodes)), places.ravel(), ends), (len(nodes), len(values)))
    return np.asarray(rows @ values)
