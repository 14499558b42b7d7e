"""Coulomb friction in addition to base parameters: it is estimated and does not bias them."""

import numpy as np
import pytest
from arms import RECORD, arm, nominal

from dynid.errors import DataError
from dynid.identification import checks
from dynid.identification.closed_loop.row_weights import loop_weights, row_weights
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.table import estimator
from dynid.identification.settings import CoulombSettings, FrictionStructure, load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FB, FrictionLaw
from dynid.model.standard import load_standard
from dynid.robot import FloatArray, load_robot
from dynid.verdict import Check

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
TRUTH = nominal("crane_x7")
METHODS = ("ols", "wls", "huber")
Q, DQ, DDQ = np.random.default_rng(7).uniform(-1.0, 1.0, (3, 400, 8)) * np.array([1.5, 2.0, 6.0])[:, None, None]
TAU = MODEL.inverse_dynamics(Q, DQ, DDQ, TRUTH)


def samples_of(q: FloatArray, dq: FloatArray, ddq: FloatArray, tau: FloatArray) -> Samples:
    return Samples(ROBOT.joint_names, np.arange(len(q)) * 0.02, q, dq, ddq, tau, RECORD)


FRICTION = np.array([0.15, 0.3, 0.15, 0.2, 0.075, 0.075, 0.05, 0.0])
SETTINGS = CoulombSettings()
LAW = FrictionLaw.of(8, {"fb": FRICTION}, SETTINGS.transition_rad_s)
RUBBED = TAU + LAW.torque(DQ)


@pytest.mark.parametrize("method", METHODS)
def test_coulomb_friction_and_parameters_are_recovered(method: str) -> None:
    found = estimator(method).estimate(MODEL, samples_of(Q, DQ, DDQ, RUBBED), SETTINGS)
    assert found.friction is not None and found.friction.terms[0] == "fb" and not found.friction.depends_on_load
    np.testing.assert_allclose(found.base.values, TRUTH.values, atol=1e-9)
    np.testing.assert_allclose(found.friction["fb"], FRICTION, atol=1e-9)
    assert found.errors.relative < 1e-9
    ignored = estimator(method).estimate(MODEL, samples_of(Q, DQ, DDQ, RUBBED))
    assert ignored.friction is None
    assert np.abs(ignored.base.values - TRUTH.values).max() > 0.01  # it hid in them


@pytest.mark.study
def test_standard_deviations_are_correct() -> None:
    rng = np.random.default_rng(5)
    scores = []
    q, dq, ddq = rng.uniform(-1.0, 1.0, (3, 1600, 8)) * np.array([1.5, 2.0, 6.0])[:, None, None]
    clean = MODEL.inverse_dynamics(q, dq, ddq, TRUTH) + LAW.torque(dq)
    for _ in range(12):
        tau = clean + rng.normal(0.0, 0.05, clean.shape)
        found = estimator("ols").estimate(MODEL, samples_of(q, dq, ddq, tau), SETTINGS)
        assert found.friction is not None and found.friction.deviations is not None
        scores.append((found.base.values - TRUTH.values) / np.asarray(found.base.standard_deviations))
        friction_scores = (found.friction["fb"] - FRICTION)[:7] / found.friction.deviations[FB][:7]
        scores.append(np.resize(friction_scores, 39))
    assert np.std(scores) == pytest.approx(1.0, abs=0.12)


@pytest.mark.slow
def test_coulomb_friction_is_never_negative() -> None:
    """A motion against the law, as a wrong sign of a joint's torque would give it."""
    tau = TAU - LAW.torque(DQ)
    found = estimator("ols").estimate(MODEL, samples_of(Q, DQ, DDQ, tau), SETTINGS)
    assert found.friction is not None
    np.testing.assert_array_equal(found.friction["fb"][:7], 0.0)
    plain = estimator("ols").estimate(MODEL, samples_of(Q, DQ, DDQ, tau), CoulombSettings(slow_rad_s=0.0))
    np.testing.assert_allclose(  # and then it is ordinary least squares
        plain.base.values, estimator("ols").estimate(MODEL, samples_of(Q, DQ, DDQ, tau)).base.values, atol=1e-3
    )


def test_slow_rows_count_less() -> None:
    """Sticking joints carry any torque between +-FC; only rows at speed say what friction is."""
    rng = np.random.default_rng(6)
    dq = np.where(rng.uniform(size=DQ.shape) < 0.4, 0.01 * DQ / 2.0, DQ)
    slow = np.abs(dq) < SETTINGS.slow_rad_s
    tau = MODEL.inverse_dynamics(Q, dq, DDQ, TRUTH)
    tau += np.where(slow, FRICTION * rng.uniform(-1, 1, dq.shape), FRICTION * np.sign(dq))
    trusting = CoulombSettings(slow_weight=1.0)

    def error(settings: CoulombSettings) -> float:
        found = estimator("ols").estimate(MODEL, samples_of(Q, dq, DDQ, tau), settings)
        return float(np.linalg.norm(found.base.values - TRUTH.values))

    assert error(SETTINGS) < 0.5 * error(trusting)
    np.testing.assert_array_equal(row_weights(dq, SETTINGS)[slow], SETTINGS.slow_weight)
    np.testing.assert_array_equal(row_weights(dq, SETTINGS)[~slow], 1.0)


def test_slow_motion_is_not_distinguished_from_friction() -> None:
    dq = np.array(DQ)
    dq[:, 7] *= 1e-6
    rubbed = MODEL.inverse_dynamics(Q, dq, DDQ, TRUTH) + LAW.torque(dq)
    with pytest.raises(DataError, match="cannot separate FV8 from friction"):
        estimator("ols").estimate(MODEL, samples_of(Q, dq, DDQ, rubbed), CoulombSettings(slow_rad_s=0.0))
    with pytest.raises(DataError, match=r"equations faster than 0\.05 rad/s"):
        estimator("ols").estimate(MODEL, samples_of(Q, 1e-3 * DQ, DDQ, TAU), SETTINGS)


def friction_checks(regression: Regression) -> tuple[Check, ...]:
    return checks.judge(
        checks.FRICTION, [checks.OneRegression(regression, ROBOT.joint_names)], load_identification(ROBOT)
    ).checks


@pytest.mark.parametrize("structure", ["auto", "Coulomb-viscous", "load"])
def test_radians_as_degrees_are_detected_by_the_fastest_joint(structure: FrictionStructure) -> None:
    """Radians read as degrees: hardly anything moves, and a longer recording would not help; whatever friction is."""
    slow = samples_of(np.radians(Q), np.radians(DQ), np.radians(DDQ), TAU)
    with pytest.raises(DataError, match=r"reaches 0\.035 rad/s: if it moved faster than that, correct the unit"):
        estimator("ols").estimate(MODEL, slow, SETTINGS.model_copy(update={"structure": structure}))


@pytest.mark.slow
def test_a_single_speed_and_a_standstill_fail_the_friction_checks() -> None:
    """kappa(W) sees neither: at one speed FV and FC are one torque, and a joint near standstill shows no friction."""
    sound = Regression.of(MODEL, samples_of(Q, DQ, DDQ, RUBBED), SETTINGS)
    assert friction_checks(sound)[0].passed and friction_checks(sound)[1].passed
    assert friction_checks(Regression.of(MODEL, samples_of(Q, DQ, DDQ, RUBBED))) == ()
    same = np.array(DQ)
    same[:, 6] = np.sign(DQ[:, 6]) * (1.0 + 0.02 * DQ[:, 6])
    at_speed, separate, _ = friction_checks(Regression.of(MODEL, samples_of(Q, same, DDQ, RUBBED), SETTINGS))
    assert at_speed.passed and not separate.passed and separate.detail == "FV7"
    idle = np.array(DQ)
    idle[20:, 4] = 0.01 * DQ[20:, 4]
    at_speed, *_ = friction_checks(Regression.of(MODEL, samples_of(Q, idle, DDQ, RUBBED), SETTINGS))
    assert not at_speed.passed and at_speed.detail == ROBOT.joint_names[4] and at_speed.value == pytest.approx(0.4)


def test_friction_among_the_parameters_is_looked_at_too() -> None:
    """A structure with FC of its own: not negative either, and one speed is the same finding."""
    model = ArmModel.of(ROBOT, structure=ROBOT.file.structure.model_copy(update={"coulomb_friction": True}))
    standard = load_standard(ROBOT.folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    truth = model.base_parameters(standard)
    same = np.array(DQ)
    same[:, 6] = np.sign(DQ[:, 6]) * (1.0 + 0.02 * DQ[:, 6])
    tau = model.inverse_dynamics(Q, same, DDQ, truth)
    tau[:, 6] -= 0.1 * np.sign(same[:, 6])
    regression = Regression.of(model, samples_of(Q, same, DDQ, tau), SETTINGS)
    values = dict(zip(regression.names, regression.solve().phi, strict=True))
    assert values["FC7"] == 0.0 and regression.joint_friction is None
    _, separate = friction_checks(regression)
    assert not separate.passed and separate.detail == "FV7"


def test_friction_is_estimated_for_given_base_parameters() -> None:
    regression = Regression.of(MODEL, samples_of(Q, DQ, DDQ, RUBBED), SETTINGS)
    found = regression.friction_given(TRUTH.values)
    assert found is not None
    np.testing.assert_allclose(found[:8], FRICTION, atol=1e-9)
    assert Regression.of(MODEL, samples_of(Q, DQ, DDQ, RUBBED)).friction_given(TRUTH.values) is None


def test_the_metric_is_the_added_torque_error() -> None:
    """|| R (phi - phi_ols) ||^2 is what phi adds to the squares once friction has adapted to it."""
    regression = Regression.of(MODEL, samples_of(Q, DQ, DDQ, RUBBED + 0.05 * np.sin(40 * Q)), SETTINGS)
    best = regression.solve()
    other = best.phi + np.random.default_rng(1).normal(0.0, 1e-3, 39)
    friction = regression.friction_given(other)
    assert regression.trust is not None and friction is not None

    def squares(phi: np.ndarray, fc: np.ndarray | None) -> float:
        return float(np.sum((regression.trust.reshape(-1, 8) * regression.residual(phi, fc)) ** 2))  # type: ignore[union-attr]

    assert best.sliding.sum() >= 7
    added = squares(other, friction) - squares(best.phi, best.friction)
    step = best.metric @ (other - best.phi)
    assert added == pytest.approx(float(step @ step), rel=1e-2)


def test_standstill_lowers_weights_for_the_loop_memory() -> None:
    settings = CoulombSettings(loop_memory_s=0.02)
    dq = np.ones((100, 2))
    dq[50, 0] = 0.0
    weights = loop_weights(dq, settings, 0.01)
    np.testing.assert_array_equal(np.flatnonzero(weights[:, 0] < 1.0), [48, 49, 50, 51, 52])
    assert (weights[:, 1] == 1.0).all()
