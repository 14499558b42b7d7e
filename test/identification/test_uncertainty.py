"""Deviations where residuals are correlated: the sandwich is honest, independence is not."""

import numpy as np
import pytest
from scipy.signal import lfilter

from dynid.identification.estimators.uncertainty import MEMORY_S, sandwich, score_covariance

INTERVAL_S = 0.05
WIDTH = round(MEMORY_S / INTERVAL_S)


def test_the_score_covariance_is_bartletts_double_sum() -> None:
    scores = np.random.default_rng(1).normal(size=(170, 3))
    expected = np.zeros((3, 3))
    for k in range(170):
        for m in range(170):
            expected += max(0.0, 1.0 - abs(k - m) / WIDTH) * np.outer(scores[k], scores[m])
    found = score_covariance(scores, INTERVAL_S)
    np.testing.assert_allclose(found, expected * 170 / (170 - WIDTH + 1), atol=1e-10)
    assert np.linalg.eigvalsh(found).min() > 0.0


@pytest.mark.parametrize("memory", [0.0, 0.8])
def test_errors_in_units_of_the_deviations_have_unit_variance(memory: float) -> None:
    """A line fitted to noise with and without memory; the deviations that take it as white are too small by half."""
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(1200), lfilter([1.0], [1.0, -0.9], rng.normal(size=1200))])
    inverse = np.linalg.inv(X.T @ X)
    honest, white = [], []
    for _ in range(200):
        noise = lfilter([1.0], [1.0, -memory], rng.normal(size=1200))
        estimate = inverse @ (X.T @ noise)
        residual = noise - X @ estimate
        covariance = sandwich(inverse, X * residual[:, None], INTERVAL_S, 1.0)
        honest.append(estimate / np.sqrt(np.diag(covariance)))
        white.append(estimate / np.sqrt(residual.var() * np.diag(inverse)))
    assert np.std(honest) == pytest.approx(1.0, abs=0.12)
    assert np.std(white) == pytest.approx(1.0, abs=0.12) if not memory else np.std(white) > 2.0


def test_a_short_recording_still_has_some_windows() -> None:
    scores = np.random.default_rng(3).normal(size=(24, 2))
    found = score_covariance(scores, INTERVAL_S)
    assert np.isfinite(found).all() and 0.3 < np.trace(found) / np.sum(scores**2) < 3.0
