"""Deviations where residuals are correlated: the sandwich is honest, independence is not."""

import numpy as np
import pytest
from scipy.signal import lfilter

from dynid.identification.estimators.uncertainty import (
    MEMORY_S,
    correlation_factor,
    sandwich,
    score_covariance,
    whole_covariance,
)

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


def test_a_known_nuisance_widens_what_it_can_be_mistaken_for_and_nothing_else() -> None:
    """Torques of an unmodelled effect, like the first column: 90 % intervals hold as stated, those of noise do not."""
    rng, held, plain, widths = np.random.default_rng(4), [], [], []
    columns = rng.normal(size=(400, 1, 2))
    effect = 0.3 * (columns[..., :1] + 0.2 * rng.normal(size=(400, 1, 1)))
    known = np.full(2, np.inf)
    for _ in range(300):
        tau = 0.5 * rng.normal(size=(400, 1)) + effect[..., 0] * rng.normal()
        estimate = np.linalg.lstsq(columns[:, 0], tau[:, 0], rcond=None)[0]
        residual = tau - columns @ estimate
        both = [
            np.sqrt(np.diag(whole_covariance(columns, residual, known, INTERVAL_S, 1.0, one))) for one in (effect, None)
        ]
        held.append(np.abs(estimate) < 1.645 * both[0])
        plain.append(np.abs(estimate) < 1.645 * both[1])
        widths.append(both[0] / both[1])
    assert 0.85 <= np.mean(held) <= 0.95
    assert np.mean(plain, axis=0)[0] < 0.3
    assert np.mean(widths, axis=0)[0] > 5.0 and np.mean(widths, axis=0)[1] < 1.3


def test_what_is_known_beforehand_bounds_what_no_sample_shows() -> None:
    columns = np.zeros((100, 1, 2))
    columns[:, 0, 0] = np.random.default_rng(5).normal(size=100)
    residual = np.random.default_rng(6).normal(size=(100, 1))
    found = np.sqrt(np.diag(whole_covariance(columns, residual, np.array([np.inf, 0.3]), INTERVAL_S)))
    assert found[1] == pytest.approx(0.3) and 0.05 < found[0] < 0.2


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8])
def test_the_correlation_factor_is_that_of_a_mean(memory: float) -> None:
    noise = lfilter([1.0], [1.0, -memory], np.random.default_rng(7).normal(size=(40_000, 2)), axis=0)
    assert correlation_factor(noise) == pytest.approx((1.0 + memory) / (1.0 - memory), rel=0.08)
