"""Each check alone: its quantity, the side of the limit that passes, and its text."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from arms import arm
from recordings import recorded

from dynid.identification import checks
from dynid.identification.checks import DATA, DATA_TO_PREDICT, FITTED, FRICTION, HELD_OUT, Fitted, OneRegression, judge
from dynid.identification.data.signals import DataQuality
from dynid.identification.diagnosis.diagnosis import Diagnosis
from dynid.identification.estimators.gear_fit import GearFitter
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.torque_errors import torque_errors
from dynid.identification.feasibility.audit import AuditResult
from dynid.identification.feasibility.pull import BoundsPull, pull_limit
from dynid.identification.settings import CoulombSettings, IdentificationSettings, load_identification
from dynid.model.dynamics import ArmModel
from dynid.robot import Robot, load_robot
from dynid.verdict import Verdict

SETTINGS = IdentificationSettings(schema_version=1)
SOUND = DataQuality(0.0, 0.0, 0.0, 1.0, 0.5, 0.5, 0.0, 0.0)
PASSING = {"missed_cycles": 0.0099, "jitter": 0.249, "dropped": 0.099, "motion": 0.051, "peak_torque": 0.0051}
PASSING |= {"torque_range": 0.0011, "saturated": 0.0099, "velocity": 0.099}
FAILING = {"missed_cycles": 0.0101, "jitter": 0.251, "dropped": 0.101, "motion": 0.049, "peak_torque": 0.0049}
FAILING |= {"torque_range": 0.0009, "saturated": 0.0101, "velocity": 0.101}
IDS = {"missed_cycles": "missed_cycles", "jitter": "stamp_jitter", "dropped": "dropped_samples"}
IDS |= {"motion": "joint_motion", "peak_torque": "peak_torque", "torque_range": "joint_torque"}
IDS |= {"saturated": "saturated_current", "velocity": "velocity_ratio"}


@pytest.mark.parametrize("field", IDS)
def test_data_are_judged_at_their_limits(field: str) -> None:
    assert judge(DATA, [replace(SOUND, **{field: PASSING[field]})], SETTINGS).accepted
    verdict = judge(DATA, [replace(SOUND, **{field: FAILING[field]})], SETTINGS, of="run 7")
    (bad,) = verdict.failed
    assert (bad.id, bad.group, bad.value) == (IDS[field], "Data", FAILING[field])
    assert bad.name.endswith(", run 7") and len(verdict.checks) == 8
    assert bad.unit == ("rad" if field == "motion" else "")
    assert bool(bad.detail) == (field in ("peak_torque", "torque_range"))
    to_predict = judge(DATA_TO_PREDICT, [replace(SOUND, **{field: FAILING[field]})], SETTINGS)
    assert to_predict.accepted == (field == "saturated") and len(to_predict.checks) == 7


def test_what_was_not_recorded_is_not_judged_and_details_stay() -> None:
    nothing = judge(DATA, [replace(SOUND, torque_range=None, velocity=None)], SETTINGS)
    assert nothing.accepted and {one.id for one in nothing.checks}.isdisjoint({"joint_torque", "velocity_ratio"})
    told = replace(SOUND, motion=(0.0, "elbow"), torque_range=(0.0, "wrist"))
    motion, torque = judge(DATA, [told], SETTINGS).failed
    assert motion.detail == "elbow" and torque.detail.startswith("wrist; a joint does not move without torque")
    good = judge(DATA, [replace(SOUND, torque_range=(0.5, "wrist"))], SETTINGS).checks
    assert [one.detail for one in good if one.id == "joint_torque"] == ["wrist"]


class Slow(NamedTuple):
    """Result of a friction fit with the fields that the friction rules read."""

    moving: Any
    has_coulomb_friction: bool = True
    joint_friction: None = None
    interval_s: float = 0.04
    shares: dict[str, float] = {}

    def independence_from_coulomb(self) -> dict[str, float]:
        return self.shares


def test_friction_is_judged_by_the_joint_that_shows_it_least() -> None:
    moving = np.zeros((100, 3), dtype=bool)
    moving[:50, 0] = moving[:13, 1] = moving[:30, 2] = True
    shares = {"FC1": 0.0, "FV1": 0.5, "FV2": 0.2, "ZZ1": 0.01}

    def judged(one: Slow) -> Verdict:
        return judge(FRICTION, [OneRegression(one, ("a", "b", "c"))], SETTINGS)  # type: ignore[arg-type]

    speed, separation = judged(Slow(moving, shares=shares)).checks
    assert (speed.value, speed.detail, speed.unit, speed.group) == (pytest.approx(0.52), "b", "s", "Data")
    assert speed.passed and (speed.id, separation.id) == ("time_at_speed", "friction_separability")
    assert (separation.value, separation.detail, separation.group) == (0.2, "FV2", "Estimation")
    moving[0, 1] = False
    assert [one.id for one in judged(Slow(moving, shares=shares)).failed] == ["time_at_speed"]
    moving[0, 1] = True
    assert [one.id for one in judged(Slow(moving, shares={"FV1": 0.09})).failed] == ["friction_separability"]
    assert [one.id for one in judged(Slow(moving)).checks] == ["time_at_speed"]  # no viscous friction
    assert judged(Slow(None)).checks == () == judged(Slow(moving, has_coulomb_friction=False)).checks


class Conditioned(NamedTuple):
    """Estimate with the fields that the rules read."""

    condition_number: float
    regression: Any = SimpleNamespace(other=None)


class Sampled(NamedTuple):
    """Samples with the fields that the rules read."""

    joint_names: tuple[str, ...] = ("a", "b")
    torque_limits: Any = None


TAU = np.random.default_rng(3).normal(0.0, 1.0, (400, 2)) * [10.0, 0.5]
SOUND_AUDIT = AuditResult(2e-4, np.zeros(2), 123, "searched", 1, 1e-4, np.zeros((1, 2)))


def fitted(**changes: Any) -> Fitted:
    usual: dict[str, Any] = {
        "model": None,
        "settings": SETTINGS,
        "samples": Sampled(),
        "estimate": Conditioned(10.0),
        "audit": SOUND_AUDIT,
        "fit": torque_errors(TAU, 0.9 * TAU),
    }
    return Fitted(**(usual | changes))


def failed(**changes: Any) -> list[str]:
    return [one.id for one in judge(FITTED, [fitted(**changes)], SETTINGS).failed]


def test_a_pull_beyond_its_limit_is_refused_with_the_worst_parameter() -> None:
    limit = pull_limit(2, 60.0)
    assert failed(pull=BoundsPull(0.99 * limit, 2, 60.0, "MYR2", 3.7)) == []
    (bad,) = judge(FITTED, [fitted(pull=BoundsPull(1.01 * limit, 2, 60.0, "MYR2", 3.8))], SETTINGS).failed
    assert (bad.id, bad.group, bad.limit) == ("bounds_pull", "Physics", pytest.approx(limit))
    assert "MYR2 is moved most, by 3.8" in bad.detail and "robot.yaml" in bad.detail


def test_an_identification_is_judged_at_its_limits() -> None:
    verdict = judge(FITTED, [fitted()], SETTINGS)
    assert verdict.accepted
    assert [(one.id, one.group) for one in verdict.checks] == [
        ("condition_number", "Estimation"),
        ("inertia_eigenvalue", "Physics"),
        ("torque_error_fitted", "Prediction"),
        ("joint_error_fitted", "Prediction"),
        ("joint_error_with_rest_fitted", "Prediction"),
    ]
    assert "over 123 poses" in verdict.checks[1].name and verdict.checks[1].unit == "kg m^2"
    assert failed(estimate=Conditioned(999.0)) == [] and failed(estimate=Conditioned(1001.0)) == ["condition_number"]
    assert failed(audit=replace(SOUND_AUDIT, lambda_min=1.01e-4)) == []
    assert failed(audit=replace(SOUND_AUDIT, lambda_min=0.99e-4)) == ["inertia_eigenvalue"]
    assert failed(fit=torque_errors(TAU, 0.81 * TAU)) == []
    assert failed(fit=torque_errors(TAU, 0.79 * TAU)) == ["torque_error_fitted"]
    assert failed(fit=torque_errors(TAU, TAU * [1.0, 0.41])) == []
    assert failed(fit=torque_errors(TAU, TAU * [1.0, 0.39])) == ["joint_error_fitted"]
    everything = ["joint_error_fitted", "joint_error_with_rest_fitted"]
    assert failed(fit=torque_errors(TAU, TAU * [1.0, -0.21])) == everything
    limited = Sampled(torque_limits=np.array([1000.0, 1000.0]))  # 0.5 N m is hardly anything of it
    assert failed(fit=torque_errors(TAU, TAU * [1.0, -0.21]), samples=limited) == []


def test_samples_at_rest_have_a_limit_of_their_own() -> None:
    moving = np.ones_like(TAU)
    moving[:300] = 0.0
    for error, expected in ((1.3, []), (1.5, ["joint_error_with_rest_fitted"])):
        guess = np.where(moving == 0.0, 1.0 - error * np.array([0.1, 1.0]), 0.95) * TAU
        assert failed(fit=torque_errors(TAU, guess, 0.5 * moving)) == expected


def test_a_refinement_and_a_diagnosis_are_judged_where_there_is_one() -> None:
    assert failed(refined=(1.0, "converged")) == [] and failed(refined=(0.0, "limit")) == ["refinement_converged"]
    assert failed(pseudo_inertia=(2e-6, 1e-6)) == [] and failed(pseudo_inertia=(1e-6, 2e-6)) == ["pseudo_inertia"]
    for strongest, expected in ((0.99, []), (1.01, ["suspicion"])):
        assert failed(diagnosis=Diagnosis((), strongest, ())) == expected
    three = judge(FITTED, [fitted(refined=(1.0, ""), pseudo_inertia=(2e-6, 1e-6))], SETTINGS).checks
    assert [(one.id, one.group, one.limit) for one in three[1:3]] == [
        ("refinement_converged", "Estimation", 1.0),
        ("pseudo_inertia", "Physics", 1e-6),
    ]


def test_goal_and_present_current_must_give_the_same_parameters() -> None:
    robot = load_robot("planar_3r")
    own = recorded(robot, seconds=8.0, coulomb=0.0).samples(load_identification(robot))
    for share, expected in ((0.045, True), (0.055, False), (-0.055, False)):
        samples = replace(own, other_tau=(1.0 + share) * own.tau)
        regression = Regression.of(arm("planar_3r"), samples, CoulombSettings(treatment="ignored"))
        found = fitted(samples=samples, estimate=Conditioned(10.0, regression), fit=torque_errors(own.tau, own.tau))
        (check,) = [one for one in judge(FITTED, [found], SETTINGS).checks if one.id == "torque_source"]
        assert check.value == pytest.approx(abs(share), rel=0.01) and check.passed == expected
        assert check.name == "parameters from goal instead of present current" and "torque" in check.detail
        assert check.group == "Estimation"
    assert fitted(settings=SETTINGS.model_copy(update={"torque_source": "goal"})).other_source == "present"


def test_a_droop_that_is_known_of_the_servos_does_not_count() -> None:
    """A goal that is higher with speed passes up to the known droop; one that is lower, or higher by more, does not."""
    own = recorded(load_robot("planar_3r"), seconds=8.0, coulomb=0.0).samples(
        load_identification(load_robot("planar_3r"))
    )
    model, known = arm("planar_3r"), np.full(3, 2.0)
    for droop, scale, allowed, expected in (
        (2.0, 1.0, None, False),
        (2.0, 1.0, known, True),
        (2.0, 1.06, known, False),
        (-2.0, 1.0, known, False),
        (5.0, 1.0, known, False),
    ):
        samples = replace(own, other_tau=scale * own.tau + droop * own.dq)
        estimate = Conditioned(10.0, Regression.of(model, samples, CoulombSettings(treatment="ignored")))
        fit = torque_errors(own.tau, own.tau)
        found = fitted(model=model, samples=samples, estimate=estimate, fit=fit, droop=allowed)
        assert ("torque_source" not in [one.id for one in judge(FITTED, [found], SETTINGS).failed]) == expected


def test_additional_friction_is_refitted_for_the_other_current() -> None:
    """A current of more friction says the same of the parameters, and one of more gravity does not."""
    planar = load_robot("planar_3r")
    bare = planar.file.structure.model_copy(update={"coulomb_friction": False})
    robot = Robot(planar.file.model_copy(update={"structure": bare}), planar.folder)
    own = recorded(robot, seconds=8.0, coulomb=0.3, noise=0.0).samples(load_identification(robot))
    settings = SETTINGS.model_copy(update={"coulomb_friction": CoulombSettings(structure="Coulomb-viscous")})
    model = ArmModel.of(robot)
    rubbed = recorded(robot, seconds=8.0, coulomb=0.9, noise=0.0).samples(load_identification(robot))
    for share, other, least, most in ((1.0, rubbed, 0.0, 0.01), (1.1, own, 0.05, 0.11)):
        fine = tuple(replace(a, other_raw=share * b.raw) for a, b in zip(own.fine, other.fine, strict=True))
        samples = replace(own, other_tau=share * other.tau, fine=fine)
        regression = Regression.of(model, samples, settings.coulomb_friction)
        assert regression.joint_friction is not None
        found = fitted(model=model, settings=settings, samples=samples, estimate=Conditioned(10.0, regression))
        value, _ = checks.torque_source_difference(found)  # type: ignore[misc]
        assert least <= value <= most


def test_a_friction_fit_that_has_not_settled_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    planar = load_robot("planar_3r")
    bare = planar.file.structure.model_copy(update={"coulomb_friction": False})
    robot = Robot(planar.file.model_copy(update={"structure": bare}), planar.folder)
    samples = recorded(robot, seconds=8.0, coulomb=0.3, noise=0.0).samples(load_identification(robot))
    model, coulomb = ArmModel.of(robot), CoulombSettings(structure="Stribeck")

    def judged(regression: Regression) -> list[str]:
        return [one.id for one in judge(FRICTION, [OneRegression(regression, robot.joint_names)], SETTINGS).failed]

    usual = Regression.of(model, samples, coulomb)
    assert usual.joint_friction is not None and "friction_settled" not in judged(usual)
    monkeypatch.setattr(GearFitter.fit, "__defaults__", (None, 2, 0.0, np.inf))
    cut = Regression.of(model, samples, coulomb)
    assert cut.joint_friction is not None and not cut.joint_friction.fit.settled and "friction_settled" in judged(cut)
    # where the fit is another recording's, nothing was fitted that could settle
    assert "friction_settled" not in judged(Regression.of(model, samples, coulomb, cut.joint_friction.fit.known))


def test_a_shape_at_the_bounds_of_its_box_is_named() -> None:
    planar = load_robot("planar_3r")
    bare = planar.file.structure.model_copy(update={"coulomb_friction": False})
    robot = Robot(planar.file.model_copy(update={"structure": bare}), planar.folder)
    samples = recorded(robot, seconds=8.0, coulomb=0.3, noise=0.0).samples(load_identification(robot))
    beside = Regression.of(ArmModel.of(robot), samples, CoulombSettings(structure="Stribeck")).joint_friction
    assert beside is not None
    p, theta = beside.fit.rows.W.shape[2], beside.fit.theta.copy()
    places = [p + k for k, one in enumerate(beside.fit.parameters) if one.name.startswith("WS")]
    for value, named in ((10.0, True), (0.1, True), (2.0, False)):
        theta[places] = value
        assert (f"WS1 {value:.3g}" in replace(beside, fit=replace(beside.fit, theta=theta)).shape_note) == named


def test_error_details_state_whether_samples_at_rest_are_included() -> None:
    errors = torque_errors(TAU, 0.9 * TAU)
    value, detail = checks.of_moving(errors)
    assert value == errors.moving and detail == "of joints in motion; 0.1 with those at rest"
    names = {one.id: (one.name, one.limit) for one in (*FITTED, *HELD_OUT)}
    for kind, of in (("fitted", "identification"), ("held_out", "{0.name}")):
        name, limit = names[f"joint_error_{kind}"]
        assert (name, limit) == (f"relative torque error of the worst joint, {of}", "acceptance.relative_joint_error")
        name, limit = names[f"joint_error_with_rest_{kind}"]
        assert (name, limit) == (f"the same with samples at rest, {of}", "acceptance.relative_joint_error_with_rest")
