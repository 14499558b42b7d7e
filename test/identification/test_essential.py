"""Essential parameters: those that the motion does not determine are removed, the others are unchanged."""

from dataclasses import replace

import numpy as np
import pytest
from arms import arm, nominal

from dynid.errors import DataError
from dynid.identification.estimators.essential import essential_parameters, joint_sigma, relative_deviations
from dynid.identification.estimators.table import estimator
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.model.standard import load_standard
from dynid.robot import load_robot

ROBOT = load_robot("puma560")
MODEL = arm("puma560")
NAMES = MODEL.regrouping.standard
TRUTH = nominal("puma560")
SIGMA = np.array([0.5, 0.5, 0.3, 0.05, 0.05, 0.05])


def test_without_a_limit_all_parameters_are_estimated_with_their_deviations(make_samples) -> None:
    """Against numpy on the weighted rows, and against the noise that was put in."""
    samples = make_samples(ROBOT, TRUTH, sigma=SIGMA, count=2000)
    found = essential_parameters(MODEL, samples, np.inf)
    assert found.kept == MODEL.names and found.cancelled == ()
    np.testing.assert_allclose(found.sigma, SIGMA, rtol=0.05)
    W = MODEL.regressor(samples.q, samples.dq, samples.ddq)
    rows, tau = (W / found.sigma[:, None]).reshape(-1, 52), (samples.tau / found.sigma).ravel()
    expected, squares, *_ = np.linalg.lstsq(rows, tau, rcond=None)
    np.testing.assert_allclose(found.base.values, expected, atol=1e-8)
    covariance = squares[0] / (len(tau) - 52) * np.linalg.inv(rows.T @ rows)
    np.testing.assert_allclose(found.base.covariance, covariance, rtol=1e-6, atol=1e-12)
    deviations = np.sqrt(np.diag(covariance)) / np.abs(expected)
    np.testing.assert_allclose(found.relative_deviations, deviations, rtol=1e-6)
    scores = (found.base.values - TRUTH.values) / found.base.standard_deviations
    assert np.abs(scores).max() < 4.5 and 0.6 < scores.std() < 1.4


def test_parameters_that_are_zero_or_drown_are_cancelled_and_the_rest_is_the_truth(make_samples) -> None:
    samples = make_samples(ROBOT, TRUTH, sigma=SIGMA)
    found = essential_parameters(MODEL, samples, 0.1)
    zero = {name for name, value in zip(TRUTH.names, TRUTH.values, strict=True) if abs(value) < 1e-9}
    assert zero and zero <= {one.name for one in found.cancelled}
    assert 15 < len(found.kept) < 45 and set(found.kept) | {one.name for one in found.cancelled} == set(TRUTH.names)
    assert {"ZZR2", "MXR2", "FV2", "FC2"} <= set(found.kept)
    assert [one.left for one in found.cancelled] == list(range(51, len(found.kept) - 1, -1))
    assert all(one.relative_deviation > 0.1 for one in found.cancelled)
    places = [TRUTH.names.index(name) for name in found.kept]
    assert found.relative_deviations[places].max() <= 0.1
    assert not np.delete(found.base.values, places).any()
    # cancelled parameters cost next to nothing, and keep nothing from being predicted
    everything = essential_parameters(MODEL, samples, np.inf)
    assert found.errors.relative < 1.02 * everything.errors.relative
    fresh = make_samples(ROBOT, TRUTH, seed=2)
    W = MODEL.regressor(fresh.q, fresh.dq, fresh.ddq)
    assert np.linalg.norm(W @ found.base.values - fresh.tau) < 0.02 * np.linalg.norm(fresh.tau)


def test_a_stricter_limit_keeps_fewer_parameters(make_samples) -> None:
    samples = make_samples(ROBOT, TRUTH, sigma=SIGMA)
    strict, loose = (essential_parameters(MODEL, samples, limit) for limit in (0.05, 0.2))
    assert 0 < len(strict.kept) < len(loose.kept) < 52


def test_data_of_noise_alone_are_refused(make_samples) -> None:
    nothing = BaseParameters(TRUTH.names, np.zeros(52))
    with pytest.raises(DataError, match="no parameter has a relative standard deviation within"):
        essential_parameters(MODEL, make_samples(ROBOT, nothing, sigma=1.0), 0.05)


def test_too_few_samples_and_a_still_joint_are_refused(make_samples) -> None:
    with pytest.raises(DataError, match="do not determine"):
        essential_parameters(MODEL, make_samples(ROBOT, TRUTH, count=5))
    samples = make_samples(ROBOT, TRUTH, sigma=SIGMA)
    still = [np.where(np.arange(6) == 2, 0.0, values) for values in (samples.q, samples.dq, samples.ddq)]
    with pytest.raises(DataError, match=r"does not excite IA3, FV3, FC3"):
        essential_parameters(MODEL, replace(samples, q=still[0], dq=still[1], ddq=still[2]))


def test_deviations_of_joints_are_those_of_their_own_fit() -> None:
    rng = np.random.default_rng(3)
    W = rng.normal(size=(500, 2, 3))
    W[:, 0, 2] = 0.0  # joint 1 does not see parameter 3
    W[:, 1, 2] = W[:, 1, 1]  # joint 2 cannot tell 2 from 3
    tau = W @ np.array([1.0, 2.0, 3.0]) + rng.normal(size=(500, 2)) * [0.1, 0.4]
    np.testing.assert_allclose(joint_sigma(W, tau), [0.1, 0.4], rtol=0.1)
    exact = joint_sigma(W, W @ np.array([1.0, 2.0, 3.0]))
    assert (exact > 0).all()


def test_a_value_of_zero_has_an_infinite_deviation() -> None:
    np.testing.assert_array_equal(relative_deviations(np.array([0.0, -2.0]), np.diag([1.0, 4.0])), [np.inf, 1.0])


def test_essential_works_as_an_estimator(make_samples) -> None:
    samples = make_samples(ROBOT, TRUTH, sigma=SIGMA)
    estimate, found = estimator("essential").estimate(MODEL, samples), essential_parameters(MODEL, samples)
    np.testing.assert_array_equal(estimate.base.values, found.base.values)
    assert estimate.settings["essential"] == list(found.kept) and estimate.friction is None
    assert estimate.errors.relative == pytest.approx(found.errors.relative)


@pytest.mark.slow
def test_friction_outside_the_structure_is_subtracted_first(make_samples) -> None:
    """The 39 parameters of the CRANE-X7 contain no Coulomb friction and must not absorb it."""
    arm = load_robot("crane_x7")
    model, settings = ArmModel.of(arm), load_identification(arm)
    phi = model.base_parameters(load_standard(arm.folder / "models" / "nominal.yaml", model.mdh))
    clean = make_samples(arm, phi, sigma=0.005, count=600)
    rubbed = replace(clean, tau=clean.tau + 0.2 * np.tanh(clean.dq / settings.coulomb_friction.transition_rad_s))
    found = estimator("essential").estimate(model, rubbed, settings.coulomb_friction)
    assert found.friction is not None
    np.testing.assert_allclose(found.friction["fb"], 0.2, atol=0.02)
    assert found.base["FV3"] == pytest.approx(phi["FV3"], abs=0.02) and found.errors.relative < 0.05
    ignored = estimator("essential").estimate(model, rubbed)
    assert ignored.friction is None and ignored.base["FV3"] > phi["FV3"] + 0.05
