"""Slow logs: known parameters come back, derivatives are right, and what cannot be used is refused."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from arms import arm

from dynid.errors import DataError
from dynid.identification.data.curves import curves_through
from dynid.identification.logs.delays import goal_delay, torque_delay
from dynid.identification.logs.fit import Triangles
from dynid.identification.logs.identify import LogModel, _trading, identify_logs
from dynid.identification.logs.judge import log_errors
from dynid.identification.logs.rows import FRICTION, Point, RowSettings, Stretch, averaged, motor_torques, triangle
from dynid.identification.logs.rows import test_functions as psi_of
from dynid.model.standard import load_standard
from dynid.recording.log import Log
from dynid.robot import FloatArray, load_robot

ROBOT, MODEL = load_robot("planar_3r"), arm("planar_3r")
LATE_S, GOALS_LATE_S, GAINS = 0.11, 0.07, (30.0, -1.5)


def truth() -> FloatArray:
    path = ROBOT.folder / ROBOT.file.simulation.standard_parameters
    return MODEL.base_parameters(load_standard(path, MODEL.mdh, MODEL.regrouping.standard)).values


def friction() -> FloatArray:
    found = np.zeros((3, len(FRICTION)))
    found[:, FRICTION.index("km")], found[:, FRICTION.index("ws")] = 0.15, 2.0
    return found


def motion(time: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sums of slow sines."""
    omega = 2.0 * np.pi * np.array([[0.11, 0.41, 0.83], [0.17, 0.37, 0.97], [0.13, 0.53, 1.07]])
    size, phase = np.array([0.9, 0.35, 0.12]), np.arange(9.0).reshape(3, 3)
    angle = time[:, None, None] * omega + phase
    shapes = (np.sin(angle), omega * np.cos(angle), -(omega**2) * np.sin(angle))
    q, dq, ddq = ((size * shape).sum(axis=2) for shape in shapes)
    return q, dq, ddq


def torques(time: FloatArray) -> FloatArray:
    stretch = Stretch.of(MODEL, motion(time))
    return stretch.torques(Point(truth(), friction()))[1].tm


def made(rate_hz: float, seconds: float = 120.0, name: str = "made", begin: float = 0.0) -> Log:
    """A log with uneven stamps, torques and goals that are late."""
    rng = np.random.default_rng(0)
    time = begin + np.arange(0.0, seconds, 1.0 / rate_hz)
    time = time + rng.uniform(-0.2, 0.2, len(time)) / rate_hz
    ahead = time + GOALS_LATE_S
    q, dq, _ = motion(ahead)
    goal = q + (torques(ahead) - GAINS[1] * dq) / GAINS[0]
    return Log(name, ROBOT.joint_names, time, motion(time)[0], torques(time - LATE_S), goal)


@pytest.fixture(scope="module")
def found() -> LogModel:
    return identify_logs(ROBOT, [made(25.0)])


def test_parameters_and_delays_come_back_from_25_hz(found: LogModel) -> None:
    model, true = ArmTorques(found), ArmTorques(None)
    assert model.error(true) < 0.01
    assert abs(found.fit.delay_s - LATE_S) < 0.002
    assert found.goals is not None
    assert abs(found.goals.delay_s - GOALS_LATE_S) < 0.005
    assert np.allclose(found.goals.gains[:, 0], GAINS[0], rtol=0.05)
    assert (found.goals.explained > 0.98).all()
    for name in found.published:
        k = MODEL.names.index(name)
        assert abs(found.base.values[k] / truth()[k] - 1.0) < 0.1, name


class ArmTorques:
    """Torques of a model, or of the truth, on other motions."""

    def __init__(self, result: LogModel | None) -> None:
        self.point = Point(truth(), friction())
        if result is not None:
            self.point = Point(result.base.values, result.fit.point.friction)

    def error(self, other: "ArmTorques") -> float:
        own, true = (
            Stretch.of(MODEL, motion(500.0 + 0.01 * np.arange(3000))).torques(one.point)[1].tm for one in (self, other)
        )
        return float(np.linalg.norm(own - true) / np.linalg.norm(true))


def test_curves_have_the_derivatives_that_differences_have_not() -> None:
    time = np.arange(0.0, 30.0, 1.0 / 15.0)
    curves = curves_through(time, motion(time)[0])
    between = time[10:-10] + 0.4 / 15.0
    _, dq, ddq = curves.states(between)
    true = motion(between)
    assert np.abs(dq - true[1]).max() < 0.02 * np.abs(true[1]).max()
    assert np.linalg.norm(ddq - true[2]) < 0.05 * np.linalg.norm(true[2])
    rough = np.gradient(np.gradient(motion(time)[0], time, axis=0), time, axis=0)[10:-10]
    assert np.linalg.norm(ddq - true[2]) < 0.3 * np.linalg.norm(rough - motion(time[10:-10])[2])


def test_derivatives_of_motor_torques_are_those_of_differences() -> None:
    rng = np.random.default_rng(1)
    links, dq = 3.0 * rng.standard_normal((2, 40, 3))
    still = 0.8 * links
    law = np.tile([0.2, 0.1, 0.2, 0.1, 0.05, 0.03, 1.5], (3, 1))
    at = motor_torques(links, still, dq, law)
    rubs = at.tm - links
    fading = np.exp(-np.abs(dq) / 1.5)
    budget = 0.2 + 0.1 * fading + (0.2 + 0.1 * fading) * np.abs(at.tm) + (0.05 + 0.03 * fading) * still * np.sign(links)
    assert np.allclose(rubs, np.sign(dq) * budget)
    for k in range(len(FRICTION)):
        more, less = law.copy(), law.copy()
        more[:, k] += 1e-6
        less[:, k] -= 1e-6
        slope = (motor_torques(links, still, dq, more).tm - motor_torques(links, still, dq, less).tm) / 2e-6
        assert np.allclose(slope, at.by_friction[..., k], atol=1e-6)
    up, down = (motor_torques(links + h, still, dq, law).tm for h in (1e-6, -1e-6))
    assert np.allclose((up - down) / 2e-6, at.by_links, atol=1e-6)


def test_averages_of_a_constant_are_the_constant() -> None:
    psi = psi_of(40)
    assert np.isclose(psi.sum(), 1.0)
    assert np.allclose(averaged(np.full((200, 2), 3.0), psi), 3.0)
    assert len(averaged(np.ones((39, 1)), psi)) == 0


def test_order_of_reduction_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((300, 8))
    forward, backward = Triangles.empty(1, 1, 8), Triangles.empty(1, 1, 8)
    for part in np.split(rows, 6):
        forward.add(0, [part])
    for part in np.split(rows, 6)[::-1]:
        backward.merge(0, triangle(part)[None], np.array([len(part)]))
    for one in (forward, backward):
        assert np.allclose(one.R[0, 0].T @ one.R[0, 0], rows.T @ rows, rtol=0.0, atol=1e-9)
        assert one.rows[0, 0] == 300


@pytest.mark.slow
def test_episodes_give_the_same_result_side_by_side() -> None:
    logs = [made(25.0, 20.0, f"episode {k}", 20.0 * k) for k in range(6)]
    alone = identify_logs(ROBOT, [lambda one=one: one for one in logs])
    with ThreadPoolExecutor(2) as pool:
        beside = identify_logs(ROBOT, [lambda one=one: one for one in logs], mapper=pool.map)
    assert np.allclose(alone.fit.point.phi, beside.fit.point.phi, rtol=0.0, atol=1e-9)


def test_a_joint_that_rests_is_named() -> None:
    log = made(25.0)
    q = np.array(log.q)
    q[:, 1] = 0.3
    with pytest.raises(DataError, match="joint_2"):
        identify_logs(ROBOT, [replace(log, q=q)])


def test_what_little_motion_cannot_tell_is_refused() -> None:
    found = identify_logs(ROBOT, [made(12.0, 12.0)])
    assert set(found.published) | set(found.refused) == set(MODEL.names)
    assert found.refused


def test_torques_that_are_not_there_are_missed() -> None:
    with pytest.raises(DataError, match="no torques or currents"):
        identify_logs(ROBOT, [replace(made(25.0), tau=None)])
    assert goal_delay(replace(made(25.0), goal=None), 0.0) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"time": np.zeros(3000)}, "do not increase"),
        ({"tau": np.zeros((3000, 2))}, "shape"),
        ({"q": np.full((3000, 3), np.nan)}, "not finite"),
    ],
)
def test_logs_that_are_none_are_refused(change: dict[str, FloatArray], said: str) -> None:
    with pytest.raises(DataError, match=said):
        replace(made(25.0), **change)


def test_gaps_cut_a_log() -> None:
    log = made(25.0)
    rows = np.r_[0:1000, 1500:3000]
    kept = replace(log, time=log.time[rows], q=log.q[rows], tau=log.tau[rows], goal=log.goal[rows])
    assert [len(one.time) for one in kept.pieces()] == [1000, 1500]


def test_first_guess_of_the_delay_is_near() -> None:
    assert abs(torque_delay(MODEL, [made(25.0)], RowSettings()) - LATE_S) < 0.02


def test_errors_of_the_truth_are_small_and_of_nothing_whole() -> None:
    log = made(100.0, 60.0)
    assert log_errors(MODEL, Point(truth(), friction()), log, delay_s=LATE_S).relative < 0.01
    nothing = Point(np.zeros(len(MODEL.names)), np.tile([0.0] * 6 + [2.0], (3, 1)))
    assert np.isclose(log_errors(MODEL, nothing, log, delay_s=LATE_S).relative, 1.0)


def test_viscous_friction_beside_friction_that_falls_with_speed_is_refused() -> None:
    """With ten hours of logs it was precise, and 60 % off: the two trade."""
    names, friction = ("ZZR1", "FV1", "FV2", "FV3", "FC3"), np.zeros((3, len(FRICTION)))
    friction[0, FRICTION.index("fs")] = friction[1, FRICTION.index("kms")] = 0.1
    friction[2, FRICTION.index("km")] = 0.1
    assert _trading(names, friction) == [1, 2]
