"""Dry friction in base parameters, as `dynid robot new` drafts it: samples at standstill do not count."""

from dataclasses import replace

import numpy as np
import pinocchio
import pytest

from dynid.errors import DataError
from dynid.identification.data.arrays import recording_from_arrays
from dynid.identification.data.recordings import Recording
from dynid.identification.data.signals import Signals, Torques
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.robot import FloatArray, Robot, load_robot
from dynid.robot.draft import draft_robot, write_draft

BODY = (
    '<inertial><origin xyz="{}"/><mass value="{}"/>'
    '<inertia ixx="{}" ixy="0" ixz="0" iyy="{}" iyz="0" izz="{}"/></inertial>'
)
LIFT = (
    f'<robot name="lift"><link name="base"/><link name="arm">{BODY.format("0.14 0 0.02", 6, 0.02, 0.11, 0.12)}</link>'
    f'<link name="quill">{BODY.format("0.03 0 -0.1", 2, 0.012, 0.012, 0.001)}</link><joint name="turn" type="revolute">'
    '<parent link="base"/><child link="arm"/><axis xyz="0 0 1"/><limit lower="-2" upper="2" effort="80" velocity="3"/>'
    '</joint><joint name="z" type="prismatic"><parent link="arm"/><child link="quill"/><origin xyz="0.3 0 0"/>'
    '<axis xyz="0 0 -1"/><limit lower="0" upper="0.3" effort="150" velocity="0.5"/></joint></robot>'
)
COULOMB, VISCOUS = np.array([3.0, 30.0]), np.array([0.3, 10.0])  # [N m; N]: the lift weighs 20 N


@pytest.fixture(scope="module")
def lift(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    folder = tmp_path_factory.mktemp("lift")
    (folder / "lift.urdf").write_text(LIFT, encoding="utf-8")
    write_draft(draft_robot("lift", folder / "lift.urdf"), folder / "lift.urdf", folder / "lift")
    return load_robot(folder / "lift")


def step_by_step(seed: int, reach: float, longest_s: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Time (N,) and states (N, 2): moves and rests by turns; the lift goes `reach` [m] up and down."""
    rng, step = np.random.default_rng(seed), 0.005
    parts, at = [], np.array([0.0, 0.15])
    for _ in range(14):
        to = np.where(rng.uniform(size=2) < 0.6, rng.uniform([-1.5, 0.15 - reach], [1.5, 0.15 + reach]), at)
        seconds = rng.uniform(0.6, longest_s)
        s = np.arange(0.0, 1.0, step / seconds)[:, None]
        shape = s**3 * (10 + s * (6 * s - 15)), 30 * s**2 * (1 - s) ** 2, 60 * s * (1 - s) * (1 - 2 * s)
        rest = np.array([to, 0.0 * to, 0.0 * to])[:, None] * np.ones((1, round(0.5 / step), 1))
        moved = [shape[0] * (to - at) + at, shape[1] * (to - at) / seconds, shape[2] * (to - at) / seconds**2]
        parts.append(np.concatenate([np.array(moved), rest], axis=1))
        at = to
    q, dq, ddq = np.concatenate(parts, axis=1)
    return step * np.arange(len(q)), q, dq, ddq


def recorded(robot: Robot, seed: int, factors: FloatArray, dip: float) -> Recording:
    """What pinocchio and friction take; at rest a joint keeps part of the friction that stopped it.

    Friction is larger by `dip` [-] at low speed (Stribeck), which no term of the drafted structure is; then moves are
    short and slow, too, so that most rows hold part of a standstill.
    """
    time, q, dq, ddq = step_by_step(seed, 0.05, 2.5) if dip else step_by_step(seed, 0.13, 1.4)
    model = pinocchio.buildModelFromXML(LIFT)
    data, rng = model.createData(), np.random.default_rng(seed)
    tau = np.array([pinocchio.rnea(model, data, *state) for state in zip(q, dq, ddq, strict=True)])
    moves = np.abs(dq) > 1e-3
    places = np.maximum.accumulate(np.where(moves, np.arange(len(q))[:, None], 0), axis=0)
    kept = np.where(moves, 1.0, 0.4) * np.sign(np.take_along_axis(dq, places, axis=0))
    dry = COULOMB * (1.0 + dip * np.exp(-((dq / [0.1, 0.03]) ** 2)))
    tau += dry * kept + VISCOUS * dq + np.array([0.02, 0.1]) * rng.normal(size=q.shape)
    return recording_from_arrays(robot, time, q + 1e-5 * rng.normal(size=q.shape), tau * factors, name=f"run {seed}")


def identified(robot: Robot, factors: tuple[float, float] = (1.0, 1.0), dip: float = 0.0) -> Identification:
    fitted, judge = (recorded(robot, seed, np.array(factors), dip) for seed in (1, 2))
    return identify(robot, [fitted], validation=[judge], settings=quick(robot))


def quick(robot: Robot) -> IdentificationSettings:
    """Return the robot's settings with fewer poses in the audit."""
    settings = load_identification(robot)
    few = settings.acceptance.model_copy(update={"fresh_poses": 500})
    return settings.model_copy(update={"acceptance": few})


@pytest.mark.slow
def test_a_lift_that_rests_between_its_moves_is_accepted_with_its_own_friction(lift: Robot) -> None:
    result = identified(lift)
    assert result.verdict.accepted, str(result.verdict)
    assert max(one.over_noise for one in result.motions) < 1.2
    found = dict(zip(result.base.names, result.base.values.tolist(), strict=True))
    assert [found["FC1"], found["FC2"]] == pytest.approx(COULOMB.tolist(), rel=0.02)
    assert [found["FV1"], found["FV2"]] == pytest.approx(VISCOUS.tolist(), rel=0.1)


def test_friction_that_falls_with_speed_is_no_other_fault(lift: Robot) -> None:
    """Rows that hold part of a standstill are no evidence: a column that is not cut like W passes for a gear ratio."""
    assert identified(lift, dip=0.3).diagnosis.strongest < 0.5


@pytest.mark.parametrize(("factor", "passed"), [(1.0, True), (1.1, False)])
def test_goal_currents_that_are_a_tenth_larger_are_noticed_although_most_rows_are_cut(
    lift: Robot, factor: float, passed: bool
) -> None:
    """What another current changes of the parameters is judged over all states, as torques are."""
    measured = recorded(lift, 1, np.ones(2), 0.3)

    def signals(settings: IdentificationSettings) -> Signals:
        own = measured.signals(settings)
        return replace(own, other=Torques(own.torque_time, factor * own.tau, "goal"))

    found = identify(lift, [replace(measured, signals=signals)], settings=quick(lift))
    (check,) = [one for one in found.verdict.checks if one.id == "torque_source"]
    assert check.passed == passed, check


def test_lift_at_sticking_speeds_is_refused_with_the_reason(lift: Robot) -> None:
    slow, q = recorded(lift, 1, np.ones(2), 0.0), np.array([1.0, 0.1])

    def signals(settings: IdentificationSettings) -> Signals:
        own = slow.signals(settings)
        return replace(own, q=0.15 * (q == 0.1) + (own.q - 0.15 * (q == 0.1)) * q)

    with pytest.raises(DataError, match=r"too slow for .*FC2.*move their joints faster"):
        identify(lift, [replace(slow, signals=signals)], settings=quick(lift))


def test_a_lift_whose_torque_has_the_wrong_sign_is_refused(lift: Robot) -> None:
    assert not identified(lift, (1.0, -1.0)).verdict.accepted
