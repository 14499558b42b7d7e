"""Least squares with non-negative unknowns, also where SciPy's fast method does not converge."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from dynid import nonnegative
from dynid.nonnegative import nonnegative_least_squares

# Rows of a fit of noise on which `nnls` of SciPy 1.15 ends with "Maximum number of iterations reached".
NEARLY_DEPENDENT = np.array(
    [
        [5.83095189, 3.46913251, 1.72364516, 0.70660526],
        [5.33819962, 3.78935713, 2.05122426, 0.86663614],
        [4.72183569, 3.65176002, 2.12851371, 0.95665762],
        [4.04688096, 3.22556974, 2.00003268, 1.0181128],
    ]
)
SEEN = np.array([1.34688776, 1.57013613, 1.61184646, 1.59364922])


def is_least(A: np.ndarray, b: np.ndarray, x: np.ndarray) -> bool:
    """Whether x fulfils the conditions of Karush, Kuhn and Tucker for the least |A x - b| with x >= 0."""
    slope = A.T @ (A @ x - b)
    small = 1e-6 * np.abs(A.T @ b).max()
    return bool((x >= 0.0).all() and (slope > -small).all() and (np.abs(slope[x > 0.0]) < small).all())


def test_the_solution_is_the_least_one() -> None:
    random = np.random.default_rng(1)
    assert is_least(NEARLY_DEPENDENT, SEEN, nonnegative_least_squares(NEARLY_DEPENDENT, SEEN))
    for _ in range(50):
        A, b = random.normal(size=(8, 5)), random.normal(size=8)
        x = nonnegative_least_squares(A, b)
        assert is_least(A, b, x)
        assert not is_least(A, b, x + 0.1) and not is_least(A, b, np.linalg.lstsq(A, b)[0] - 10.0)


def test_a_fast_method_that_does_not_converge_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(*_: object) -> None:
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr(nonnegative, "nnls", gives_up)
    found = nonnegative_least_squares(NEARLY_DEPENDENT, SEEN)
    assert is_least(NEARLY_DEPENDENT, SEEN, found)
    np.testing.assert_allclose(found, lsq_linear(NEARLY_DEPENDENT, SEEN, bounds=(0.0, np.inf)).x, atol=1e-5)
