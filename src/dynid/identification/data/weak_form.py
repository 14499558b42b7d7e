"""Averages under test functions: they act on both sides of the equation of motion like a low-pass filter.

The equation of motion holds at every instant, so it holds for any average over a test function psi of limited support
(modulating functions, Preisig and Rippin 1993):

    int psi tau dt = int psi (W phi + friction) dt,

with the torques tau, the regressor W and the base parameters phi.

Averaging removes the same frequencies from both sides, like a filter. But a test function has finite support. So a gap
in the recording affects only the averages whose support overlaps it, and there is no settling time. Here psi is a cubic
B-spline.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dynid.robot import FloatArray

HOPS = 4  # support of a test function, in distances between neighbouring test functions
CUTOFF_OF_SUPPORT = 1.273  # cut-off frequency [Hz], at gain one half, times the support [s]


def cubic_spline(hop: int) -> FloatArray:
    """Return samples (4 hop - 1,) of a cubic B-spline, scaled to a sum of 1.

    The spline is used as a test function. `hop` is the number of grid steps between neighbouring test functions; each
    is nonzero over `HOPS` = 4 times this distance.
    """
    x = 2.0 - np.abs(np.arange(1 - 2 * hop, 2 * hop)) / hop
    y = x - 1.0
    values = np.where(x < 1.0, x**3, 1.0 + 3.0 * y + 3.0 * y**2 - 3.0 * y**3)
    return np.asarray(values / values.sum())


def averaged(values: FloatArray, kernel: FloatArray, nodes: NDArray[np.int64]) -> FloatArray:
    """Return weighted averages (N, k) of values, any unit; the weights are a test function centred at each of N rows.

    Args:
        values: values on an evenly spaced grid, (M, k), any unit.
        kernel: weights of the test function, (2 r + 1,).
        nodes: indices of the rows of `values` at which the test function is centred, (N,).
    """
    reach = len(kernel) // 2
    places = nodes[:, None] + np.arange(-reach, reach + 1)
    ends = np.arange(len(nodes) + 1) * len(kernel)
    rows = csr_matrix((np.tile(kernel, len(nodes)), places.ravel(), ends), (len(nodes), len(values)))
    return np.asarray(rows @ values)
