"""Least squares: known parameters, correct standard deviations, and refusal of a poor motion by name."""

from dataclasses import replace

import numpy as np
import pytest
from arms import RECORD, arm, nominal

from dynid.errors import DataError, UnknownNameError
from dynid.identification.checks import DATA, judge
from dynid.identification.data.preprocessing import Samples, preprocess
from dynid.identification.data.signals import Signals
from dynid.identification.estimators.estimate import Estimator
from dynid.identification.estimators.least_squares import OrdinaryLeastSquares
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.table import ESTIMATORS, estimator
from dynid.identification.estimators.torque_errors import in_motion, torque_errors
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, load_robot
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
TRUTH = nominal("crane_x7")
METHODS = ("ols", "wls", "huber")


def samples_of(q: FloatArray, dq: FloatArray, ddq: FloatArray, tau: FloatArray) -> Samples:
    return Samples(ROBOT.joint_names, np.arange(len(q)) * 0.02, q, dq, ddq, tau, RECORD)


def states(count: int = 400, seed: int = 7) -> tuple[FloatArray, FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-1.0, 1.0, (3, count, 8))
    return 1.5 * q, 2.0 * dq, 6.0 * ddq


Q, DQ, DDQ = states()
TAU = MODEL.inverse_dynamics(Q, DQ, DDQ, TRUTH)


@pytest.mark.parametrize("method", METHODS)
def test_noise_free_states_give_the_truth(method: str) -> None:
    estimate = estimator(method).estimate(MODEL, samples_of(Q, DQ, DDQ, TAU))
    np.testing.assert_allclose(estimate.base.values, TRUTH.values, atol=1e-10)
    assert estimate.base.names == TRUTH.names and estimate.method == method
    assert estimate.errors.relative < 1e-10 and estimate.rank == 39
    assert estimate.base.standard_deviations is not None and estimate.base.standard_deviations.max() < 1e-9


def test_ols_equals_the_normal_equations_and_numpy() -> None:
    tau = TAU + np.random.default_rng(1).normal(0.0, 0.05, TAU.shape)
    estimate = estimator("ols").estimate(MODEL, samples_of(Q, DQ, DDQ, tau))
    W = MODEL.regressor(Q, DQ, DDQ).reshape(-1, 39)
    expected, residual, _, singular = np.linalg.lstsq(W, tau.ravel(), rcond=None)
    np.testing.assert_allclose(estimate.base.values, expected, atol=1e-11)
    assert estimate.condition_number == pytest.approx(singular[0] / singular[-1], rel=1e-9)
    direction = np.abs(np.linalg.svd(W, full_matrices=False)[2][-1])
    assert estimate.weakest[0] == TRUTH.names[int(direction.argmax())]
    independent = np.sqrt(residual[0] / (W.shape[0] - 39) * np.diag(np.linalg.inv(W.T @ W)))
    ratios = np.asarray(estimate.base.standard_deviations) / independent
    assert 0.5 < ratios.min() and ratios.max() < 2.0 and np.median(ratios) == pytest.approx(1.0, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_standard_deviations_are_correct(method: str) -> None:
    """Over many noises the errors in units of the stated deviations have unit variance (axes differ, but for ols)."""
    rng = np.random.default_rng(2)
    sigma = np.full(8, 0.05) if method == "ols" else np.array([0.1, 0.2, 0.1, 0.1, 0.02, 0.02, 0.01, 0.01])
    scores = []
    q, dq, ddq = states(1600)
    clean = MODEL.inverse_dynamics(q, dq, ddq, TRUTH)
    for _ in range(12):
        tau = clean + rng.normal(0.0, 1.0, clean.shape) * sigma
        estimate = estimator(method).estimate(MODEL, samples_of(q, dq, ddq, tau))
        scores.append((estimate.base.values - TRUTH.values) / np.asarray(estimate.base.standard_deviations))
    assert np.std(scores) == pytest.approx(1.0, abs=0.1)
    np.testing.assert_allclose(estimate.residual_sigma, sigma, rtol=0.2)


def _mean_error(method: str, noise: FloatArray) -> float:
    estimate = estimator(method).estimate(MODEL, samples_of(Q, DQ, DDQ, TAU + noise))
    return float(np.linalg.norm(estimate.base.values - TRUTH.values))


def test_weights_reduce_errors_if_the_noise_of_axes_differs() -> None:
    rng = np.random.default_rng(3)
    noise = rng.normal(0.0, 1.0, (6, *TAU.shape)) * np.array([0.1, 0.5, 0.1, 0.1, 0.005, 0.005, 0.005, 0.005])
    assert sum(_mean_error("wls", n) for n in noise) < 0.8 * sum(_mean_error("ols", n) for n in noise)


def test_huber_estimator_tolerates_outliers() -> None:
    rng = np.random.default_rng(4)
    noise = rng.normal(0.0, 0.02, TAU.shape)
    noise[rng.uniform(size=len(noise)) < 0.05] += 2.0
    assert _mean_error("huber", noise) < 0.2 * _mean_error("ols", noise)
    assert estimator("huber").estimate(MODEL, samples_of(Q, DQ, DDQ, TAU + noise)).settings["outlier_share"] > 0.04


@pytest.mark.parametrize("still", [2, 7])
def test_a_joint_that_never_moves_is_named(still: int) -> None:
    q, dq, ddq = (np.array(v) for v in (Q, DQ, DDQ))
    dq[:, still] = ddq[:, still] = 0.0
    with pytest.raises(DataError, match=f"FV{still + 1}"):
        estimator("ols").estimate(MODEL, samples_of(q, dq, ddq, TAU))


def test_a_standing_arm_leaves_parameters_open() -> None:
    q = np.tile(Q[:1], (100, 1))
    with pytest.raises(DataError, match="does not excite"):
        estimator("ols").estimate(MODEL, samples_of(q, 0 * q, 0 * q, TAU[:100]))


def test_dependent_columns_are_named() -> None:
    model = ArmModel(MODEL.mdh, 8, MODEL.structure, MODEL.gravity)
    q, dq, ddq = (np.array(v) for v in (Q, DQ, DDQ))
    dq[:, 7] = ddq[:, 7]  # friction and inertia of the hand then look the same
    with pytest.raises(DataError, match=r"38 of 39 parameters; it cannot separate (IA8|FV8)"):
        Regression.of(model, samples_of(q, dq, ddq, TAU))


def test_other_torques_give_the_result_of_their_own_regression() -> None:
    other = np.array(1.1 * TAU + 0.1 * np.sin(50.0 * Q))
    other[3, 2] = other[-5:, :] = np.nan  # the other current's record is shorter and has a gap
    there = np.isfinite(other).all(axis=1)
    own = Regression.of(MODEL, samples_of(Q[there], DQ[there], DDQ[there], other[there]))
    both = Regression.of(MODEL, replace(samples_of(Q, DQ, DDQ, TAU), other_tau=other))
    again = both.of_other_current()
    np.testing.assert_allclose(again.solve().phi, own.solve().phi, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(again.torques[there], own.torques)
    assert (
        again.trusted.reshape(-1, MODEL.axes)[there].all() and not again.trusted.reshape(-1, MODEL.axes)[~there].any()
    )
    with pytest.raises(DataError, match="record the other one"):
        again.of_other_current()


def test_a_barely_moving_joint_shows_in_the_conditioning() -> None:
    dq, ddq = np.array(DQ), np.array(DDQ)
    dq[:, 7], ddq[:, 7] = 1e-3 * dq[:, 7], 1e-3 * ddq[:, 7]
    poor = estimator("ols").estimate(MODEL, samples_of(Q, dq, ddq, MODEL.inverse_dynamics(Q, dq, ddq, TRUTH)))
    assert poor.condition_number > 1000.0 and poor.weakest == ("FV8",)


def test_too_few_equations_are_refused() -> None:
    with pytest.raises(DataError, match="do not determine"):
        estimator("ols").estimate(MODEL, samples_of(Q[:4], DQ[:4], DDQ[:4], TAU[:4]))


def test_an_unknown_estimator_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="known: consistent, essential, huber, ols, sequential, wls"):
        estimator("magic")
    assert all(make().name == name for name, make in ESTIMATORS.items())
    checked: Estimator = OrdinaryLeastSquares()
    assert checked.name == "ols"


def test_torque_errors_equal_manual_results() -> None:
    tau = np.array([[1.0, 0.0], [-1.0, 2.0], [3.0, 4.0]])
    errors = torque_errors(tau, tau + np.array([[0.5, 0.0], [-0.5, 1.0], [0.0, 1.0]]))
    assert errors.relative == pytest.approx(np.sqrt(2.5 / 31.0))
    np.testing.assert_allclose(errors.relative_per_axis, [np.sqrt(0.5 / 11), np.sqrt(2 / 20)])
    assert errors.rmse == pytest.approx(np.sqrt(2.5 / 6))
    np.testing.assert_allclose(errors.mne_per_axis, [1 / 3 / 4, 2 / 3 / 4])
    assert errors.mne == pytest.approx(0.125)
    with pytest.raises(DataError, match="not finite"):
        torque_errors(tau, tau * np.nan)
    with pytest.raises(DataError, match="shapes"):
        torque_errors(tau, tau[:2])


@pytest.mark.parametrize(("interval", "allowed"), [(0.02, 0.01), (0.08, 0.01)])
def test_preprocessed_noise_free_signals_give_the_true_parameters(interval: float, allowed: float) -> None:
    """A noise-free excitation recorded at 1 kHz: the filter must not bias the parameters."""
    trajectory = load_excitation(ROBOT).trajectory("PA01")
    time = np.arange(-1.0, trajectory.duration + 1.0, 0.001)
    q, dq, ddq = trajectory.sample_all(time)
    tau = MODEL.inverse_dynamics(q, dq, ddq, TRUTH)
    raw = Signals(
        ROBOT.joint_names,
        time,
        q,
        time,
        tau,
        ROBOT.torque_constants * ROBOT.current_limits,
        (0.0, trajectory.duration),
        dq,
    )
    settings = load_identification(ROBOT)
    samples = preprocess(raw, settings, interval)
    assert judge(DATA, samples.quality, settings).accepted
    estimate = estimator("ols").estimate(MODEL, samples)
    assert estimate.errors.relative < 1e-3
    error = np.abs(estimate.base.values - TRUTH.values) / np.maximum(np.abs(TRUTH.values), _group_medians(TRUTH))
    assert error.max() < allowed


def _group_medians(phi: BaseParameters) -> FloatArray:
    kinds = [name[:2] if name.startswith(("IA", "FV")) else name[0] == "M" for name in phi.names]
    return np.array(
        [np.median([abs(v) for k, v in zip(kinds, phi.values, strict=True) if k == kind]) for kind in kinds]
    )


def test_joints_that_turn_around_between_samples_are_not_in_motion() -> None:
    """A joint sticks for an unknown time where it turns: neither side of a change of direction counts."""
    dq = np.array([[0.2, 0.3], [0.2, 0.1], [0.2, -0.1], [-0.2, -0.3], [-0.2, -0.04], [-0.2, -0.3]])
    expected = np.array([[1, 1], [1, 0], [0, 0], [0, 1], [1, 0], [1, 1]], dtype=bool)
    assert np.array_equal(in_motion(dq), expected)
    tau = np.ones_like(dq)
    off = np.where(expected, 0.0, 5.0)  # only where nothing moves
    assert torque_errors(tau, tau + off, dq).moving == 0.0 and torque_errors(tau, tau + off).moving > 1.0
