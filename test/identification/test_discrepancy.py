"""Friction that no law holds: its size is told by the residuals, and intervals with it hold the truth."""

import numpy as np
import pytest
from arms import RECORD

from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.discrepancy import friction_effects
from dynid.identification.estimators.uncertainty import whole_covariance
from dynid.robot import FloatArray

TRANSITION_RAD_S = 0.02
SIGMA = 0.01
TRUE = np.array([0.2, 0.05])  # Coulomb and viscous friction


def samples(seed: int) -> tuple[Samples, FloatArray]:
    """A joint that moves at all speeds, and its columns sign(dq) and dq, (N, 1, 2)."""
    rng = np.random.default_rng(seed)
    dq = rng.uniform(0.06, 2.0, (600, 1)) * rng.choice([-1.0, 1.0], (600, 1))
    still = np.zeros_like(dq)
    made = Samples(("a",), 0.02 * np.arange(600), still, dq, still, np.ones_like(dq), RECORD)
    return made, np.stack([np.sign(dq), dq], axis=-1)


def judged(missing: float, seed: int) -> tuple[FloatArray, FloatArray, float]:
    """Errors in units of deviations with and without the effects, and the effects' torque; the law misses some."""
    rng = np.random.default_rng([seed, 1])
    made, columns = samples(seed)
    unseen = missing * rng.normal() * np.sign(made.dq) * np.exp(-np.abs(made.dq) / 0.5)
    tau = columns @ TRUE + unseen + SIGMA * rng.normal(size=made.dq.shape)
    theta = np.linalg.lstsq(columns[:, 0], tau[:, 0], rcond=None)[0]
    residual, known = tau - columns @ theta, np.full(2, np.inf)
    weights = np.full_like(tau, 1.0 / residual.std())
    effects = friction_effects(made.dq, tau - residual, columns, residual, weights, known, TRANSITION_RAD_S)
    both = (whole_covariance(columns, residual, known, 0.02, 1.0, one) for one in (effects, None))
    with_them, plain = ((theta - TRUE) / np.sqrt(np.diag(one)) for one in both)
    return with_them, plain, float(np.sqrt(np.mean(effects**2, axis=(0, 1)).sum()))


def test_intervals_hold_though_the_law_misses_what_happens_at_low_speed() -> None:
    found = [judged(0.1, seed) for seed in range(150)]
    held, plain = (np.mean([np.abs(one[k]) < 1.645 for one in found]) for k in (0, 1))
    assert 0.8 < held < 0.95 and plain < 0.4


def test_where_the_law_is_right_there_is_next_to_nothing() -> None:
    right, wrong = (np.median([judged(size, seed)[2] for seed in range(20)]) for size in (0.0, 0.1))
    assert right < 0.25 * SIGMA < wrong


def test_noise_free_torques_have_no_effects() -> None:
    made, columns = samples(1)
    residual = np.zeros_like(made.dq)
    ones, known = np.ones_like(residual), np.full(2, np.inf)
    effects = friction_effects(made.dq, made.dq, columns, residual, ones, known, TRANSITION_RAD_S)
    assert effects.shape[:2] == (600, 1) and not effects.any()


@pytest.mark.parametrize("axis", [0, 1])
def test_an_effect_acts_on_its_own_axis_and_a_still_one_has_none(axis: int) -> None:
    made, columns = samples(2)
    dq = np.zeros((600, 2))
    dq[:, axis] = made.dq[:, 0]
    whole = np.zeros((600, 2, 2))
    whole[:, axis] = columns[:, 0]
    residual = np.sign(dq) * np.exp(-np.abs(dq) / 0.3) + 0.1 * np.random.default_rng(3).normal(size=(600, 2))
    ones, known = np.ones_like(residual), np.full(2, np.inf)
    found = friction_effects(dq, ones, whole, residual, ones, known, TRANSITION_RAD_S)
    assert found[:, axis].any() and not found[:, 1 - axis].any()
