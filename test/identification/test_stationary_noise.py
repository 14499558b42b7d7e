"""Noise of a fit from its residual, where few rows and many columns leave little of it."""

import numpy as np
import pytest
from scipy.signal import lfilter

from dynid.identification.stationary_noise import StationaryNoise
from dynid.robot import FloatArray

ROWS, COLUMNS, INTERVAL_S, DRAWS = 94, 40, 0.064, 150


def noise(random: np.random.Generator, slow: float, time_s: float, white: float) -> FloatArray:
    """Noise of a correlation time, of deviation `slow`, and white noise."""
    share = np.exp(-INTERVAL_S / time_s)
    driven = random.normal(0.0, slow * np.sqrt(1.0 - share**2), 10 * ROWS)
    return np.asarray(lfilter([1.0], [1.0, -share], driven)[-ROWS:] + random.normal(0.0, white, ROWS))


def fitted_columns(counts: FloatArray) -> FloatArray:
    """Columns like those of motions: each as slow as noise of some correlation time; zero in rows that do not count."""
    random = np.random.default_rng(3)
    times_s = np.geomspace(0.1, 1.5, COLUMNS)
    return np.stack([noise(random, 1.0, one, 0.02) for one in times_s], axis=1) * counts[:, None]


def orthonormal(columns: FloatArray, counts: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.qr(columns)[0] * counts[:, None])


@pytest.mark.parametrize(
    ("slow", "time_s", "white"), [(1.0, 0.3, 0.1), (1.0, 1.0, 0.3), (1.0, 0.3, 1.0), (0.0, 0.3, 1.0)]
)
@pytest.mark.parametrize("standing", [0, 20])
def test_what_noise_makes_of_a_group_is_expected_although_the_fit_absorbs_it(
    slow: float, time_s: float, white: float, standing: int
) -> None:
    random = np.random.default_rng(7)
    counts = np.ones(ROWS)
    counts[40 : 40 + standing] = 0.0
    columns = fitted_columns(counts)
    B, Q = orthonormal(columns, counts), orthonormal(columns[:, 25:31], counts)
    real, expected, plain = np.zeros((3, DRAWS))
    for k in range(DRAWS):
        e = noise(random, slow, time_s, white) * counts
        residual = e - B @ (B.T @ e)
        real[k] = np.sum((Q.T @ e) ** 2)
        expected[k] = np.trace(StationaryNoise.of(residual, B, counts, INTERVAL_S).covariance(Q))
        plain[k] = residual @ residual / (counts.sum() - COLUMNS) * Q.shape[1]  # as if the noise were white
    assert 0.3 < np.median(expected) / real.mean() < 2.5
    assert (plain.mean() < 0.3 * real.mean()) == (slow > 0.0)  # which this module is for


def test_noise_that_a_fit_does_not_absorb_is_found_exactly() -> None:
    random, rows = np.random.default_rng(5), 20_000
    e = random.normal(0.0, 2.0, rows)
    found = StationaryNoise.of(e, np.zeros((rows, 0)), np.ones(rows), INTERVAL_S)
    assert found.variances.sum() == pytest.approx(4.0, rel=0.05) and found.variances[0] > 3.8


def test_a_perfect_fit_has_no_noise() -> None:
    counts = np.ones(ROWS)
    B = orthonormal(fitted_columns(counts), counts)
    found = StationaryNoise.of(np.zeros(ROWS), B, counts, INTERVAL_S)
    assert not found.covariance(B).any()


def test_slow_noise_that_a_fit_absorbs_as_a_whole_is_left_out() -> None:
    """A fit of everything but the fastest alternation of each pair of rows."""
    counts = np.ones(ROWS)
    pairs = np.kron(np.eye(ROWS // 2), np.array([[1.0], [1.0]])) / np.sqrt(2.0)
    residual = np.tile([1.0, -1.0], ROWS // 2)
    found = StationaryNoise.of(residual, pairs, counts, INTERVAL_S)
    assert np.isfinite(found.variances).all() and found.variances[0] == pytest.approx(2.0, rel=0.5)
