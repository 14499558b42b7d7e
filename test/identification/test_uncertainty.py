"""Standard deviations with correlated residuals: correct with the sandwich estimator, too small without."""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm
from scipy.stats import t as student

from dynid.identification.estimators.uncertainty import (
    FEWEST_WINDOWS,
    HOPS,
    MEMORY_S,
    correlation_factor,
    sandwich,
    score_covariance,
    whole_covariance,
)
from dynid.robot import FloatArray

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


@pytest.mark.slow
def test_nuisance_widens_only_confusable_parameters() -> None:
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


def test_prior_bounds_undetermined_parameters() -> None:
    columns = np.zeros((100, 1, 2))
    columns[:, 0, 0] = np.random.default_rng(5).normal(size=100)
    residual = np.random.default_rng(6).normal(size=(100, 1))
    found = np.sqrt(np.diag(whole_covariance(columns, residual, np.array([np.inf, 0.3]), INTERVAL_S)))
    assert found[1] == pytest.approx(0.3) and 0.05 < found[0] < 0.2


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8])
def test_the_correlation_factor_is_that_of_a_mean(memory: float) -> None:
    noise = lfilter([1.0], [1.0, -memory], np.random.default_rng(7).normal(size=(40_000, 2)), axis=0)
    assert correlation_factor(noise) == pytest.approx((1.0 + memory) / (1.0 - memory), rel=0.08)


def test_windows_have_a_minimum_length_and_number() -> None:
    """With a window of one sample nothing is correlated, and S is the plain sum."""
    scores = np.random.default_rng(8).normal(size=(64, 2))
    np.testing.assert_allclose(score_covariance(scores, 5.0), scores.T @ scores)
    np.testing.assert_allclose(score_covariance(scores[:7], INTERVAL_S), scores[:7].T @ scores[:7])
    width = 64 // FEWEST_WINDOWS
    np.testing.assert_allclose(score_covariance(scores, INTERVAL_S), score_covariance(scores, 1.0 / width), rtol=1e-12)
    assert np.abs(score_covariance(scores, INTERVAL_S) - scores.T @ scores).max() > 1.0


def windows_by_eigenvalues(columns: FloatArray, residual: FloatArray, inverse: FloatArray) -> FloatArray:
    """The covariance of `noise_covariance`, each window's residual times (I - H)^-1/2 as a matrix."""
    hop, size = WIDTH // HOPS, columns.shape[2]
    S, shown = np.zeros((size, size)), []
    for end in range(hop, len(columns) + WIDTH, hop):
        own = slice(max(end - WIDTH, 0), end)
        X, e = columns[own].reshape(-1, size), residual[own].ravel()
        values, vectors = np.linalg.eigh(np.eye(len(X)) - X @ inverse @ X.T)
        score = X.T @ (vectors @ ((vectors.T @ e) / np.sqrt(values)))
        S += np.outer(score, score) / HOPS
        shown.append(np.diag(inverse @ X.T @ X @ inverse))
    q = np.array(shown)
    wider = student.ppf(0.95, 1.5 / HOPS * q.sum(axis=0) ** 2 / (q**2).sum(axis=0)) / norm.ppf(0.95)
    return np.asarray(inverse @ S @ inverse * np.outer(wider, wider))


def test_the_whole_covariance_equals_plain_algebra() -> None:
    """Use three axes, a prior for two parameters, and two nuisances."""
    rng = np.random.default_rng(9)
    columns = rng.normal(size=(240, 3, 3)) * [1.0, 3.0, 0.2]
    residual = lfilter([1.0], [1.0, -0.6], rng.normal(size=(240, 3)), axis=0)
    effects = rng.normal(size=(240, 3, 2))
    known = np.array([np.inf, 0.3, 0.05])
    variance = np.mean(residual**2) * correlation_factor(residual)
    stacked = columns.reshape(-1, 3)
    prior = np.diag(variance / known**2)
    inverse = np.linalg.inv(stacked.T @ stacked + prior)
    biases = stacked.T @ effects.reshape(-1, 2)
    noise = windows_by_eigenvalues(columns, residual, inverse)
    for one, meat in ((None, variance * prior), (effects, variance * prior + biases @ biases.T)):
        found = whole_covariance(columns, residual, known, INTERVAL_S, 1.5, one)
        np.testing.assert_allclose(found, 1.5**2 * (noise + inverse @ meat @ inverse), rtol=1e-4, atol=1e-12)


def test_unexcited_parameter_without_prior_has_no_deviation() -> None:
    columns = np.random.default_rng(9).normal(size=(240, 3, 2)) * [1.0, 0.0]
    found = whole_covariance(columns, np.ones((240, 3)), np.full(2, np.inf), INTERVAL_S)
    assert not found[1].any() and np.isfinite(found).all()


@pytest.mark.slow
@pytest.mark.parametrize("count", [500, 1500])
@pytest.mark.parametrize("memory", [0.0, 0.6])
def test_intervals_of_exact_models_hold_as_stated(count: int, memory: float) -> None:
    """16 columns, each of one or two axes and strong for some seconds; without corrections 80 to 86 % are held."""
    rng, held, plain = np.random.default_rng(12), [], []
    known, knots = np.full(16, np.inf), np.arange(0.0, 0.04 * count + 2.0, 1.5)
    for _ in range(4):
        columns = np.zeros((count, 2, 16))
        for k in range(16):
            strength = np.exp(1.2 * np.interp(0.04 * np.arange(count), knots, rng.normal(size=len(knots))))
            for axis in rng.choice(2, rng.integers(1, 3), replace=False):
                columns[:, axis, k] = strength * lfilter([1.0], [1.0, -0.8], rng.normal(size=count))
        stacked = columns.reshape(-1, 16)
        inverse = np.linalg.inv(stacked.T @ stacked)
        for _ in range(40):
            noise = lfilter([1.0], [1.0, -memory], rng.normal(size=(count, 2)), axis=0)
            error = inverse @ stacked.T @ noise.ravel()
            residual = noise - columns @ error
            covariance = whole_covariance(columns, residual, known, 0.04)
            held.append(np.abs(error) < 1.645 * np.sqrt(np.diag(covariance)))
            scores = np.einsum("knp,kn->kp", columns, residual)
            plain.append(np.abs(error) < 1.645 * np.sqrt(np.diag(sandwich(inverse, scores, 0.04, 1.02))))
    assert 0.87 <= np.mean(held) <= 0.92 and np.mean(plain) < 0.87


def test_a_column_that_is_nearly_nothing_leaves_the_other_deviations_alone() -> None:
    """The shape of a friction that was fitted as zero: of its factor, what was known beforehand is all there is."""
    rng = np.random.default_rng(8)
    columns, residual = rng.normal(size=(600, 1, 3)), rng.normal(size=(600, 1))
    columns[..., 2] *= 1e-15
    known = np.array([np.inf, np.inf, 0.5])
    found = whole_covariance(columns, residual, known, INTERVAL_S)
    alone = whole_covariance(columns[..., :2], residual, known[:2], INTERVAL_S)
    np.testing.assert_allclose(found[:2, :2], alone, rtol=1e-9)
    assert np.sqrt(found[2, 2]) == pytest.approx(0.5)


def test_nearly_identical_columns_share_their_deviation() -> None:
    columns = np.random.default_rng(10).normal(size=(200, 1, 2))
    columns[..., 1] = columns[..., 0] * (1.0 + 1e-9)
    residual = np.random.default_rng(11).normal(size=(200, 1))
    found = whole_covariance(columns, residual, np.full(2, np.inf), INTERVAL_S)
    alone = whole_covariance(columns[..., :1], residual, np.full(1, np.inf), INTERVAL_S)
    np.testing.assert_allclose(found, np.full((2, 2), 0.25 * alone[0, 0]), rtol=1e-6)


def test_the_correlation_ends_where_residuals_turn_against_each_other() -> None:
    """Waves: what comes back after it has gone is not counted; and a few samples have few lags."""
    wave = np.cos(2 * np.pi * np.arange(40_000) / 16)[:, None]
    expected = 1.0 + 2.0 * np.cos(2 * np.pi * np.arange(1, 4) / 16).sum()
    assert correlation_factor(wave) == pytest.approx(expected, rel=0.01)
    assert correlation_factor(np.zeros((50, 2))) == 1.0
    assert correlation_factor(np.ones((2, 1))) == 1.0
    assert correlation_factor(np.ones((4, 1))) == 1.0 + 2.0 * (3 / 4 + 2 / 4)
    assert correlation_factor(np.ones((100, 1))) == pytest.approx(1.0 + 2.0 * sum(1 - k / 100 for k in range(1, 25)))
