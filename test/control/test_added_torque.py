"""Torques given with a motion: their place in the control law, continuity, and refusals."""

import numpy as np
import pytest

from dynid.control.added_torque import BLEND_S, STOP_BLEND_S, AddedTorque, TorqueCurve
from dynid.control.controller import load_controller
from dynid.control.effort_bounds import EffortBound
from dynid.control.ff_pd import FeedforwardPd
from dynid.control.hold_watch import RESET_S
from dynid.control.motion import MotionExecutor
from dynid.control.motion_check import MotionCheck, Torques, nominal_torques, position_and_speed, robot_limits
from dynid.control.plan import plan_motion
from dynid.errors import SafetyError
from dynid.robot import FloatArray, load_robot
from dynid.trajectory.motion import Motion
from dynid.trajectory.polynomial import rest_to_rest

ROBOT = load_robot("crane_x7")
N, MS = ROBOT.size, 1_000_000
REST = np.array(ROBOT.rest_posture)
DURATION_S = 1.5


def short(name: str = "short", size: float = 0.2) -> Motion:
    return rest_to_rest(name, ROBOT.joint_names, REST, REST + size * np.eye(N)[0], DURATION_S)


def curve(scale: float = 1.0) -> TorqueCurve:
    """A ramp of the second joint's torque, beside a constant one of the first."""
    times = np.linspace(0.0, DURATION_S, 4)
    return TorqueCurve(times, scale * (0.5 * np.eye(N)[0] + times[:, None] * np.eye(N)[1]))


class Held:
    """Joints that are where their reference is, so that the law gives its feedforward alone."""

    def __init__(self) -> None:
        self.law = FeedforwardPd(load_controller(ROBOT))
        self.motion, self.stamp, self.q = MotionExecutor(ROBOT, self.law), 10**18, REST.copy()
        self.off = np.zeros(N)

    def begin(self, motion: Motion, added: TorqueCurve | None) -> None:
        check = position_and_speed(ROBOT)
        self.motion.begin(plan_motion(ROBOT, motion, self.q, check, to_rest=False, added=added), self.q, self.stamp)

    def run(self, until: str, cycles: int = 0) -> FloatArray:
        """Torques of each cycle until a phase, or for some cycles, (N, n) [N m]."""
        rows = []
        while len(rows) < cycles or (not cycles and self.motion.phase != until):
            self.stamp += MS
            step = self.motion.update(self.stamp, self.q)
            assert step is not None and len(rows) < 20_000
            self.q = step.q_ref + self.off
            rows.append(step.tau.copy())
        return np.array(rows)


def test_efforts_are_added_along_the_motion_and_fade_at_its_end() -> None:
    plain, fed = Held(), Held()
    plain.begin(short(), None)
    fed.begin(short(), curve())
    for phase in ("trajectory", "done"):
        added = fed.run(phase) - plain.run(phase)
        if phase == "trajectory":
            np.testing.assert_allclose(added[-1], curve().at(0.0), atol=1e-9)  # the way to the start leads there
        else:
            t = 1e-3 * np.arange(len(added))
            np.testing.assert_allclose(added[:-1, 0], 0.5, atol=1e-9)
            np.testing.assert_allclose(added[:-1, 1], t[:-1], atol=2e-3)
        assert np.abs(np.diff(added, axis=0)).max() < 1.5e-3 / BLEND_S
    held = fed.run("", 1000) - plain.run("", 1000)
    assert held[0, 1] == pytest.approx(DURATION_S, abs=0.01)  # some cycles have passed
    assert np.abs(np.diff(held, axis=0)).max() <= 1.1e-3 * DURATION_S / BLEND_S
    assert not held[round(1000 * BLEND_S) :].any()


def test_efforts_are_cleared_at_once_when_torque_is_off() -> None:
    arm = Held()
    arm.begin(short(), curve())
    arm.run("done")
    arm.motion.release()
    arm.motion.hold(arm.q, arm.stamp)
    assert np.abs(arm.run("", 5)).max() < 1e-9


@pytest.mark.parametrize("end", ["cancel", "lost"])
def test_efforts_fade_with_whatever_ends_their_motion(end: str) -> None:
    arm = Held()
    arm.begin(short(size=0.5), curve())
    arm.run("trajectory")
    arm.run("", 600)
    before = np.abs(arm.motion._added.now).max()
    assert before > 0.4
    if end == "cancel":
        arm.motion.cancel(arm.stamp)
    else:
        arm.q = arm.q + 0.5 * np.eye(N)[2]
        with pytest.raises(SafetyError, match="off its reference"):
            arm.motion.update(arm.stamp + MS, arm.q)
        arm.stamp += MS
    steps = []
    for _ in range(round(1000 * (BLEND_S if end == "cancel" else STOP_BLEND_S)) + 1):
        arm.run("", 1)
        steps.append(arm.motion._added.now.copy())
    assert not steps[-1].any() and steps[len(steps) // 2].any()
    assert np.abs(np.diff(steps, axis=0)).max() < 1.1e-3 * before / (BLEND_S if end == "cancel" else STOP_BLEND_S)


def test_an_arm_that_leaves_its_hold_repeatedly_is_released() -> None:
    arm = Held()
    arm.motion.hold(arm.q, arm.stamp)
    arm.run("", 10)
    for words in (
        "held in place",
        "held in place",
        "so a hold does not stop it, and the arm released: its driver brakes and lowers it",
    ):
        arm.q = arm.q + 0.5 * np.eye(N)[4]
        with pytest.raises(SafetyError, match=words):
            arm.motion.update(arm.stamp + MS, arm.q)
        arm.stamp += 600 * MS
    assert not arm.motion.active and arm.motion.update(arm.stamp + MS, arm.q) is None
    arm.motion.hold(arm.q, arm.stamp)  # whoever asks again begins anew
    arm.run("", 10)
    for _ in range(3):
        arm.q = arm.q + 0.5 * np.eye(N)[4]
        with pytest.raises(SafetyError, match="held in place"):
            arm.motion.update(arm.stamp + MS, arm.q)
        arm.stamp += MS
        arm.run("", round(1000 * RESET_S) + 1)


def bounded(torques: Torques | None, **settings: float) -> MotionCheck:
    controller = load_controller(ROBOT).model_copy(update=settings)
    usual = robot_limits(ROBOT, np.full(N, np.inf))
    return MotionCheck(ROBOT, usual, torques, efforts=EffortBound(ROBOT, controller))


@pytest.mark.parametrize("known", [True, False])
def test_efforts_far_from_the_prediction_are_refused(known: bool) -> None:
    torques = nominal_torques(ROBOT, None) if known else None
    motion, settings = short(), load_controller(ROBOT)
    times = np.linspace(0.0, DURATION_S, 40)
    q, dq, ddq = motion.sample_all(times)
    right = nominal_torques(ROBOT, None)(q, dq, ddq) - np.array(settings.inertia_kg_m2) * ddq
    check = bounded(torques)
    for share in (0.0, 0.5, 1.0):
        plan_motion(ROBOT, motion, REST, check, added=TorqueCurve(times, share * right))
    most = EffortBound(ROBOT, settings).most
    for joint in range(N):
        for sign in (1.0, -1.0):
            beyond = right.copy()
            beyond[20, joint] += sign * 0.9 * most[joint]
            if known:
                check.refuse_efforts(motion, TorqueCurve(times, beyond))
            beyond[20, joint] += sign * (0.2 * most[joint] + 2.0 * abs(right[20, joint]))
            with pytest.raises(
                SafetyError, match=rf"effort of {ROBOT.joint_names[joint]} is .* would deflect the joint by"
            ):
                check.refuse_efforts(motion, TorqueCurve(times, beyond))


def test_half_of_a_wrists_torque_is_refused_unless_settings_allow_it() -> None:
    half = TorqueCurve(np.zeros(1), 0.5 * ROBOT.torque_limits[4] * np.eye(N)[4][None])
    still = rest_to_rest("stay", ROBOT.joint_names, REST, REST, 1.0)
    torques = nominal_torques(ROBOT, None)
    with pytest.raises(SafetyError, match=r"is 1\.74 N m at 0\.000 s.*at most 0\.57 N m more"):
        plan_motion(ROBOT, still, REST, bounded(torques), added=half)
    plan_motion(ROBOT, still, REST, bounded(torques, effort_deflection_rad=1.0, effort_share=0.6), added=half)


@pytest.mark.parametrize(("tolerance", "braked"), [(0.05, True), (0.07, False)])
def test_a_joint_beyond_its_tolerance_brakes_the_arm_along_its_path(tolerance: float, braked: bool) -> None:
    arm = Held()
    arm.motion.tolerance = np.full(N, 0.3) - (0.3 - tolerance) * np.eye(N)[3]
    arm.begin(short(), curve())
    arm.off = 0.06 * np.eye(N)[3]
    arm.run("", 300)
    assert arm.motion.phase == "approach" and not arm.motion.stopped_itself  # only along the trajectory
    arm.off = np.zeros(N)
    arm.run("trajectory")
    arm.run("", 300)
    arm.off = 0.06 * np.eye(N)[3]
    arm.run("", 3000)
    assert (arm.motion.phase == "cancelled") == braked
    if braked:
        assert f"{ROBOT.joint_names[3]} was 0.060 rad off its reference, at most 0.050" in arm.motion.stopped_itself
        assert 0.3 < arm.motion.elapsed(arm.stamp) < 0.7 and not arm.motion.moving
    else:
        assert arm.motion.phase == "done" and arm.motion.stopped_itself == ""


def test_an_effort_beyond_the_torque_limit_is_refused() -> None:
    with pytest.raises(SafetyError, match=rf"effort of {ROBOT.joint_names[1]} is \d+\.\d\d N m at 1\.500 s, its limit"):
        Held().begin(short(), curve(20.0))


def test_a_curve_is_constant_beyond_its_ends() -> None:
    one = curve()
    np.testing.assert_array_equal(one.at(-1.0), one.torques[0])
    np.testing.assert_array_equal(one.at(9.0), one.torques[-1])
    np.testing.assert_allclose(one.at(0.75), 0.5 * np.eye(N)[0] + 0.75 * np.eye(N)[1])
    added = AddedTorque(N)
    assert not added.update(0.001, 5.0).any()
