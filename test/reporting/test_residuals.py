"""Residual analysis with residuals of known kind."""

import numpy as np
import pytest

from dynid.reporting.predictions import Motion
from dynid.reporting.residuals import BINS, autocorrelation, joint_residual

RNG = np.random.default_rng(0)
N = 4000
TIME = np.arange(N) * 0.04
DQ = np.sin(0.7 * TIME)[:, None]


def motion(residual: np.ndarray) -> Motion:
    """A motion whose prediction is a sine and that is measured with this residual (N,)."""
    predicted = np.sin(TIME)[:, None]
    return Motion("m", "held out", "0" * 64, TIME, DQ, predicted + residual[:, None], predicted)


def test_white_noise_is_a_bell_within_the_band() -> None:
    one = joint_residual(motion(0.1 * RNG.normal(size=N)), 0)
    assert one.deviation == pytest.approx(0.1, rel=0.05) and abs(one.mean) < 0.006
    assert one.outside < 0.15 and one.autocorrelation[0] == 1.0
    centres = 0.5 * (one.edges[1:] + one.edges[:-1])
    bell = np.exp(-0.5 * (centres / 0.1) ** 2) / (0.1 * np.sqrt(2 * np.pi))
    assert len(one.density) == BINS and np.abs(one.density - bell).max() < 0.5
    assert np.sum(one.density * np.diff(one.edges)) == pytest.approx(1.0)
    assert abs(one.friction) < 0.02 and abs(one.slope) < 0.03


def test_unmodelled_friction_appears_as_step_and_slope() -> None:
    noise = 0.01 * RNG.normal(size=N)
    one = joint_residual(motion(0.3 * np.sign(DQ[:, 0]) + 0.05 * DQ[:, 0] + noise), 0)
    assert one.friction == pytest.approx(0.3, abs=0.005) and one.slope == pytest.approx(0.05, abs=0.005)
    assert one.outside > 0.9  # it is no noise


def test_a_joint_that_rests_has_no_direction() -> None:
    still = Motion("m", "fitted", "", TIME, 0.01 * DQ, DQ, DQ - 0.1)
    one = joint_residual(still, 0)
    assert np.isnan(one.friction) and np.isnan(one.slope)
    assert one.mean == pytest.approx(0.1) and one.deviation == pytest.approx(0.0, abs=1e-12)


def test_autocorrelation_equals_that_of_numpy() -> None:
    x = np.convolve(RNG.normal(size=500), np.ones(5), "valid")
    centred = x - x.mean()
    full = np.correlate(centred, centred, "full")[len(x) - 1 :]
    assert autocorrelation(x, 30) == pytest.approx(full[:31] / full[0])
    assert autocorrelation(np.ones(10)).tolist() == [1.0, 0, 0, 0, 0, 0]
