"""Least squares with non-negative unknowns."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear, nnls


def nonnegative_least_squares(A: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the vector x >= 0, (n,), that minimises |A x - b|, for A (m, n) and b (m,).

    SciPy's `nnls` is fast, but some of its versions (1.15, the newest for Python 3.10) do not converge if columns are
    nearly dependent. A slower method then solves the problem.
    """
    try:
        return np.asarray(nnls(A, b)[0])
    except RuntimeError:  # it did not converge
        return np.asarray(lsq_linear(A, b, bounds=(0.0, np.inf), method="bvls").x)
