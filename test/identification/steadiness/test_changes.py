"""Changes of an arm during recordings: time, joint and size are named; a constant arm causes no alarm."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from arms import RECORD, nominal
from recordings import motion, recorded
from scipy.signal import lfilter

from dynid.identification.checks import FITTED
from dynid.identification.data.sample_sets import join
from dynid.identification.data.samples import Samples
from dynid.identification.diagnosis.nuisance_columns import perpendicular_axes
from dynid.identification.estimators.regression import Regression
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.identification.settings import load_identification
from dynid.identification.steadiness import columns
from dynid.identification.steadiness.columns import BODY, LOAD_FRICTION, MOUNT, OFFSET, SCALE, ZERO
from dynid.identification.steadiness.search import Change, Search, _Tried
from dynid.identification.steadiness.steadiness import Steadiness, steadiness
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("aloha_class")
MODEL, SETTINGS = ArmModel.of(ROBOT), load_identification(ROBOT)
COULOMB = SETTINGS.coulomb_friction.model_copy(update={"structure": "Coulomb-viscous"})
TIME, Q, DQ, DDQ = motion(ROBOT, 25.0, 0)
RAMP = (TIME / TIME[-1])[:, None]
LIMIT = SETTINGS.acceptance.change_of_arm


def one(axis: int) -> FloatArray:
    return (np.arange(ROBOT.size) == axis).astype(float)


def load(mass_kg: float, from_s: float) -> FloatArray:
    """Torques (N, n) [N m] of a mass 5 cm in front of the last link's origin, from a moment on."""
    standard, last = MODEL.regrouping.standard, MODEL.chain_size
    given = {f"M{last}": mass_kg, f"MX{last}": 0.05 * mass_kg}
    phi = BaseParameters(MODEL.names, MODEL.regrouping.K @ np.array([given.get(name, 0.0) for name in standard]))
    return np.asarray(MODEL.inverse_dynamics(Q, DQ, DDQ, phi) * (TIME > from_s)[:, None])


def load_friction(axis: int, share: float, from_s: float) -> FloatArray:
    """Torques (N, n) [N m] of friction that is a share of a joint's load, from a moment on."""
    links = of_kinds(nominal("aloha_class"), KINDS, others=True)
    rubs = share * np.abs(MODEL.inverse_dynamics(Q, DQ, DDQ, links)) * np.sign(DQ)
    return np.asarray(rubs * one(axis) * (TIME > from_s)[:, None])


def found(*recordings: dict[str, Any]) -> Steadiness:
    """Changes in recordings with these faults."""
    samples = join([recorded(ROBOT, **fault).samples(SETTINGS) for fault in recordings])
    regression = Regression.stack(MODEL, samples, COULOMB)
    return steadiness(ROBOT, MODEL, samples, regression, [f"run {k}" for k in range(len(recordings))], LIMIT)


@pytest.mark.parametrize(
    ("fault", "kind", "axes", "size", "words"),
    [
        (
            {"torques": lambda tau: tau + load(0.2, 12.0)},
            BODY,
            (),
            0.2,
            ("at the last link changes by +0.", "from 12 s on"),
        ),
        ({"positions": lambda q: q + 0.1 * RAMP * one(1)}, ZERO, (1,), -0.1, ("shoulder", "from first to last")),
        ({"torques": lambda tau: tau * (1.0 - 0.15 * RAMP)}, SCALE, (), -0.15, ("of all joints fall by 1", "magnets")),
        ({"torques": lambda tau: tau * (1.0 - 0.15 * RAMP * one(1))}, SCALE, (1,), -0.15, ("shoulder fall by 1",)),
        (
            {"torques": lambda tau: tau + (TIME > 10.0)[:, None] * 1.5 * one(2)},
            OFFSET,
            (2,),
            1.5,
            ("a constant torque of joint elbow changes by +1.5 N m from 10 s on",),
        ),
        (
            {"torques": lambda tau: tau + load_friction(1, 0.25, 12.0)},
            LOAD_FRICTION,
            (1,),
            0.25,
            ("friction of joint shoulder rises by 2", "% of the torque that the joint bears from 1"),
        ),
    ],
)
def test_a_change_is_refused_and_named(
    fault: dict[str, Any], kind: str, axes: tuple[int, ...], size: float, words: tuple[str, ...]
) -> None:
    steady = found(fault)
    first = steady.changes[0]
    assert (first.kind, first.axes) == (kind, axes)
    assert abs(first.values[0]) == pytest.approx(abs(size), rel=0.15)
    assert all(part in steady.sentences[0] for part in words), steady.sentences
    rule = next(rule for rule in FITTED if rule.id == "same_arm")
    assert rule.limit == "acceptance.change_of_arm"
    assert steady.measured[0] > LIMIT
    assert steady.beyond(LIMIT)[0] == steady.sentences[0]


@pytest.mark.parametrize(
    ("by_body", "course", "kind"), [(668.0, "drift", SCALE), (668.0, "step", BODY), (900.0, "drift", BODY)]
)
def test_a_gradual_loss_of_all_torques_is_not_named_as_a_loss_of_mass(by_body: float, course: Any, kind: str) -> None:
    """Both explain it nearly as well, but bodies come and go at once."""
    nothing = np.zeros((1, 1, 1))
    body, scale = (columns.TestedQuantity(one, (), nothing) for one in (BODY, SCALE))
    tried = [_Tried(body, [0], course, nothing, 0, by_body), _Tried(scale, [4], "drift", nothing, 0, 655.0)]
    explained = {0: by_body, 4: 655.0}
    fit = lambda columns, *_: SimpleNamespace(explained=explained[columns[0]], by_noise=2.0)  # noqa: E731
    search: Any = None
    chosen = Search._best(search, tried, SimpleNamespace(fit=fit))  # type: ignore[arg-type]
    assert chosen is not None and chosen[0].reading.kind == kind


def test_a_body_that_comes_gradually_is_found() -> None:
    first = found({"torques": lambda tau: tau + load(0.3, 0.0) * RAMP}).changes[0]
    assert (first.kind, first.course) == (BODY, "drift")


def test_a_small_change_is_noted_with_its_error() -> None:
    steady = found({"torques": lambda tau: tau * (1.0 - 0.03 * RAMP)})
    assert steady.changes[0].kind == SCALE
    assert 0.0 < steady.measured[0] < LIMIT
    assert not steady.beyond(LIMIT)
    assert "which moves gravity torques by" in steady.notes(LIMIT)[0]


@pytest.mark.slow
def test_another_body_in_the_second_recording_is_named_with_that_recording() -> None:
    other = motion(ROBOT, 25.0, 1)
    standard, last = MODEL.regrouping.standard, MODEL.chain_size
    body = MODEL.regrouping.K @ np.array([0.2 * (name == f"M{last}") for name in standard])
    added = MODEL.inverse_dynamics(*other[1:], BaseParameters(MODEL.names, body))
    steady = found({}, {"seed": 1, "torques": lambda tau: tau + added})
    assert steady.changes[0].kind == BODY
    assert "from recording run 1 on" in steady.sentences[0]


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_named_in_a_steady_arm(seed: int) -> None:
    assert found({"seed": seed, "coulomb": 0.1 + 0.1 * seed, "noise": 0.01 * (1 + seed % 3)}).changes == ()


@pytest.mark.slow
def test_nothing_is_significant_in_short_recordings_of_steady_arms() -> None:
    """Few windows excite each quantity, and their residuals are correlated over several windows."""
    robot = load_robot("planar_3r")
    model, alarms = ArmModel.of(robot), 0
    for seed in range(30):
        time, q, dq, ddq = (one[::2] for one in motion(robot, 5.0, seed))
        noise = lfilter([0.57], [1.0, -0.82], np.random.default_rng(seed).normal(size=q.shape), axis=0)
        tau = model.inverse_dynamics(q, dq, ddq, nominal("planar_3r")) + noise * np.array([0.1, 0.05, 0.02])
        samples = Samples(robot.joint_names, time, q, dq, ddq, tau, RECORD)
        alarms += bool(Search(robot, model, samples, Regression.of(model, samples, None)).changes(1))
    assert alarms <= 1


@pytest.mark.slow
@pytest.mark.parametrize("axis", [1, 2])
def test_constant_wrong_scale_is_no_change(axis: int) -> None:
    """A torque constant that is wrong all the time is another suspicion's matter."""
    assert found({"torques": lambda tau: tau * (1.0 + 0.3 * one(axis))}).measured[0] < LIMIT


@pytest.mark.slow
def test_a_change_in_the_held_out_end_is_named() -> None:
    """The fitted part alone does not show it."""

    def identified(factor: float) -> Identification:
        late = 1.0 + (factor - 1.0) * (TIME > 20.0)[:, None]
        return identify(ROBOT, [recorded(ROBOT, torques=lambda tau: tau * late)], held_out_share=0.3)

    changed, steady = identified(1.4), identified(1.0)
    assert not changed.verdict.accepted and changed.steadiness.changes == ()
    assert re.match(r"the torques of all joints rise by .* from 2[01] s on", changed.suspicions[0])
    assert steady.steadiness_to_the_end.changes == () == steady.suspicions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "failed"),
    [
        (lambda tau: tau + load(0.07, -1.0) - load(0.07, 18.0), ["same_arm_to_the_end"]),
        (lambda tau: tau + 0.02 * np.sign(DQ) * (TIME > 18.0)[:, None], []),
    ],
)
def test_only_a_sudden_change_in_the_held_out_end_refuses_a_model_that_predicts_it(
    fault: Callable[[FloatArray], FloatArray], failed: list[str]
) -> None:
    """A body that is laid down there costs less than the limit of torque errors; friction may change with warmth."""
    result = identify(ROBOT, [recorded(ROBOT, noise=0.15, torques=fault)], held_out_share=0.3)
    assert [one.id for one in result.verdict.failed] == failed
    assert len(result.suspicions) == len(failed)
    assert not failed or re.match(r"the body at the last link changes by -0\.\d+ kg from 1[78] s", result.suspicions[0])


@pytest.mark.slow
@pytest.mark.parametrize(("body_kg", "failed"), [(0.1, ["same_arm_to_the_end"]), (0.0, [])])
def test_friction_that_drifts_hides_no_body_that_is_laid_down_in_the_held_out_end(
    body_kg: float, failed: list[str]
) -> None:
    """The drift of the fit goes on from the fitted part into the end."""
    robot, seconds = load_robot("crane_x7"), 30.0
    time, q, dq, ddq = motion(robot, seconds, 0)
    model = ArmModel.of(robot)
    falls = -0.5 * 0.3 * np.tanh(dq / 0.02) * (time / seconds)[:, None]
    body = model.regrouping.K @ np.array(
        [body_kg * (name == f"M{model.chain_size}") for name in model.regrouping.standard]
    )
    laid = model.inverse_dynamics(q, dq, ddq, BaseParameters(model.names, body)) * (time < 21.5)[:, None]
    source = recorded(robot, seconds=seconds, coulomb=0.3, noise=0.05, torques=lambda tau: tau + falls + laid)
    result = identify(robot, [source], held_out_share=0.3)
    drift = result.estimate.regression.joint_friction
    assert drift is not None and drift.fit.point.drift < -0.3
    assert [one.id for one in result.verdict.failed if one.id.startswith("same_arm")] == failed
    kinds = [one.kind for one in result.steadiness_to_the_end.sudden.changes]
    assert (BODY in kinds) == bool(failed)


def test_an_arm_that_bears_no_weight_relates_changes_to_its_torques() -> None:
    robot = load_robot("planar_3r")
    flat = recorded(robot, mount="flat", torques=lambda tau: tau + 0.02 * (np.arange(len(tau)) > 1200)[:, None])
    found = identify(robot, [flat]).steadiness
    assert found.changes and all(one.gravity < 1.0 for one in found.changes)


@pytest.mark.slow
@pytest.mark.parametrize(("excused", "named"), [((), [(2,), (3,)]), ((2,), [(3,)]), ((2, 3), [])])
def test_an_offset_that_friction_explains_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, excused: tuple[int, ...], named: list[tuple[int, ...]]
) -> None:
    monkeypatch.setattr(
        Search, "_may_be_friction", lambda _, one, *__: one.reading.kind == OFFSET and one.reading.axes[0] in excused
    )
    steady = found({"torques": lambda tau: tau + 1.0 * one(2) + 0.3 * one(3)})
    assert sorted(change.axes for change in steady.changes if change.kind == OFFSET) == named


@pytest.mark.parametrize(("chance", "excused"), [(1e-12, False), (0.1, True)])
def test_only_an_offset_that_is_insignificant_beside_friction_is_excused(chance: float, excused: bool) -> None:
    samples = join([recorded(ROBOT).samples(SETTINGS)])
    search = Search(ROBOT, MODEL, samples, Regression.stack(MODEL, samples, COULOMB))
    beside: list[int] = []

    def with_course(rubs: list[int], over: FloatArray) -> Any:
        beside.extend(rubs)
        return SimpleNamespace(fit=lambda *_: SimpleNamespace(chance=chance))

    information: Any = SimpleNamespace(with_course=with_course)
    ((offset, places),) = (
        pair for pair in zip(search.tried, search.places, strict=True) if (pair[0].kind, pair[0].axes) == (OFFSET, (2,))
    )
    tried = _Tried(offset, places, "step", np.ones(len(search.windows)), 3, 9.0)
    assert search._may_be_friction(tried, information, 100) == excused
    kinds = [one for one, own in zip(search.tried, search.places, strict=True) if own[0] in beside]
    assert sorted((one.kind, one.axes) for one in kinds) == [("friction", (2,)), (LOAD_FRICTION, (2,))]
    assert not search._may_be_friction(tried._replace(reading=search.tried[0]), information, 100)


def test_a_tilt_counts_with_the_difference_that_it_makes() -> None:
    """No model fits the gravity of both mounts."""
    base, size = nominal("aloha_class"), float(np.linalg.norm(MODEL.gravity))
    tilted = MODEL.gravity + size * 0.09 * perpendicular_axes(MODEL.gravity)[0]
    postures, random = np.zeros((1000, MODEL.axes)), np.random.default_rng(3)
    postures[:, : MODEL.chain_size] = random.uniform(ROBOT.audit_lower, ROBOT.audit_upper, (1000, MODEL.chain_size))
    torques = [[MODEL.gravity_torque(q, base, one) for one in (MODEL.gravity, tilted)] for q in (Q, postures)]
    change = torques[0][1] - torques[0][0]
    first = found({"torques": lambda tau: tau + change * (TIME > 12.0)[:, None]}).changes[0]
    assert first.kind == MOUNT
    assert first.gravity >= 0.9 * np.linalg.norm(torques[1][1] - torques[1][0]) / np.linalg.norm(torques[1][0])


@pytest.mark.slow
def test_a_change_in_one_of_several_held_out_ends_is_named_with_its_recording() -> None:
    late = 1.0 + 0.4 * (TIME > 20.0)[:, None]
    second = replace(recorded(ROBOT, seed=1, torques=lambda tau: tau * late), path=Path("second"))
    found = identify(ROBOT, [recorded(ROBOT), second], held_out_share=0.3)
    assert re.search(r"rise by .* from 2[01] s of second on", found.suspicions[0])


@pytest.mark.parametrize(
    ("accepted", "named"),
    [
        (False, ("efforts", "large change", "other fault", "small change")),
        (True, ("efforts", "large change", "other fault")),
    ],
)
def test_small_changes_are_the_last_suspicions_of_a_refused_model(accepted: bool, named: tuple[str, ...]) -> None:
    small, large = (
        Change(BODY, (), "step", (size,), 1e-9, 0.1, size, size, at=5.0, recording=0, into=False)
        for size in (0.02, 0.2)
    )
    result: Any = SimpleNamespace(
        steadiness=Steadiness((small, large), ("small change", "large change")),
        steadiness_to_the_end=Steadiness(),
        settings=SETTINGS,
        verdict=SimpleNamespace(accepted=accepted),
        noise="",
        notes=(),
        diagnosis=SimpleNamespace(of_efforts=("efforts",), sentences=("efforts", "other fault")),
    )
    assert Identification.suspicions.fget(result) == named  # type: ignore[attr-defined]
