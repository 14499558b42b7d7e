"""Friction outside of every law: its size is estimated from residuals, and widened intervals cover the truth."""

import warnings

import numpy as np
import pytest
from arms import RECORD

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DataError
from dynid.identification.data.preprocessing import Samples
from dynid.identification.data.simulated_recording import source_of
from dynid.identification.estimators.discrepancy import friction_effects
from dynid.identification.estimators.uncertainty import whole_covariance
from dynid.identification.pipeline import identify
from dynid.robot import FloatArray, load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.trajectory.polynomial import through_points

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


@pytest.mark.slow
def test_intervals_hold_if_the_law_is_wrong_at_low_speed() -> None:
    found = [judged(0.1, seed) for seed in range(150)]
    held, plain = (np.mean([np.abs(one[k]) < 1.645 for one in found]) for k in (0, 1))
    assert 0.8 < held < 0.95 and plain < 0.4


def test_a_correct_friction_law_has_almost_no_discrepancy() -> None:
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


@pytest.mark.slow
def test_a_joint_that_never_moves_is_refused_without_a_warning() -> None:
    """It has no deviation by which its rows could be weighed."""
    robot, random = load_robot("crane_x7"), np.random.default_rng(4)
    points = robot.rest_posture + random.uniform(-0.6, 0.6, (12, robot.size)) * (
        ~np.isin(np.arange(robot.size), (3, 7))
    )
    points[[0, -1]] = robot.rest_posture
    motion = through_points("elbow stands", robot.joint_names, 1.2 * np.arange(12.0), points)
    run = simulate(robot, motion, FeedforwardPd(load_controller(robot)), friction="M6")
    with warnings.catch_warnings(), pytest.raises(DataError, match="does not excite IA8, FV8"):
        warnings.simplefilter("error")
        identify(robot, [source_of(robot, run, "elbow stands")])
