"""Averages under test functions, which act on both sides of the equation of motion like a low-pass.

The equation of motion holds at every instant, so it holds for any average over a test function psi of limited support
(modulating functions, Preisig and Rippin 1993):

    int psi tau dt = int psi (W phi + friction) dt

Both sides lose the same band, as with a filter. But a test function has finite support: a gap affects only the windows
that overlap it, and there is no settling time. Here psi is a cubic B-spline.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dynid.robot import FloatArray

HOPS = 4  # test functions per length of their support: a new one starts every quarter
CUTOFF_OF_SUPPORT = 1.273  # cut-off frequency [Hz], at gain one half, times the support [s]


def cubic_spline(hop: int) -> FloatArray:
    """Return samples (4 hop - 1,) of a cubic B-spline, scaled to a sum of 1.

    `hop` is the number of grid steps between neighbouring test functions. Each test function is this spline, which is
    nonzero over `HOPS` = 4 of these distances.
    """
    x = 2.0 - np.abs(np.arange(1 - 2 * hop, 2 * hop)) / hop
    y = x - 1.0
    values = np.where(x < 1.0, x**3, 1.0 + 3.0 * y + 3.0 * y**2 - 3.0 * y**3)
    return np.asarray(values / values.sum())


def averaged(values: FloatArray, kernel: FloatArray, nodes: NDArray[np.int64]) -> FloatArray:
    """Return averages (N, k) of values under a test function, any unit.

    Args:
        values: values on an even grid, (M, k), any unit.
        kernel: weights of the test function, (2 r + 1,).
        nodes: rows of `values` at which the test function is centred, (N,).
    """
    reach = len(kernel) // 2
    places = nodes[:, None] + np.arange(-reach, reach + 1)
    ends = np.arange(len(nodes) + 1) * len(kernel)
    rows = csr_matrix((np.tile(kernel, len(nodes)), places.ravel(), ends), (len(nodes), len(values)))
    return np.asarray(rows @ values)
