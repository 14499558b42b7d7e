"""Motions on an ideal double integrator: phases, continuity, refusal and cancelling."""

import re

import numpy as np
import pytest

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.control.motion import MotionExecutor
from dynid.control.plan import HoldPath, MotionPlan, Part, Window, plan_motion
from dynid.errors import DataError, SafetyError
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.trajectory import approach

ROBOT = load_robot("crane_x7")
MS = 1_000_000


class Arm:
    """Ideal joints with the controller's own inertia and damping, stepped at 1 ms."""

    def __init__(self) -> None:
        settings = load_controller(ROBOT)
        self.inertia, self.damping = np.array(settings.inertia_kg_m2), np.array(settings.damping_nm_s_rad)
        self.q, self.dq = np.array(ROBOT.rest_posture), np.zeros(ROBOT.size)
        self.motion = MotionExecutor(ROBOT, FeedforwardPd(settings))
        self.stamp = 10**18

    def run(self, cycles: int) -> np.ndarray:
        references = []
        for _ in range(cycles):
            self.stamp += MS
            step = self.motion.update(self.stamp, self.q)
            assert step is not None
            references.append(step.q_ref.copy())
            self.dq = self.dq + (step.tau - self.damping * self.dq) / self.inertia * 0.001
            self.q = self.q + self.dq * 0.001
        return np.array(references)


def short_move() -> "object":
    target = np.array(ROBOT.rest_posture)
    target[:3] += 0.3
    return approach(np.array(ROBOT.rest_posture) + 0.05, target, ROBOT.joint_names, name="short")


def test_phases_follow_in_order_with_a_continuous_reference() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    references = []
    while arm.motion.moving:
        references.append(arm.run(100))
        assert len(references) < 200
    steps = np.abs(np.diff(np.concatenate(references), axis=0))
    assert steps.max() < 0.4 * 0.001 * 1.05  # the approach's velocity, never a jump
    assert [name for name, _ in arm.motion.phases] == ["approach", "trajectory", "rest", "done"]
    np.testing.assert_allclose(arm.q, ROBOT.rest_posture, atol=2e-3)


def test_second_motion_starts_from_the_held_reference() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    while arm.motion.moving:
        arm.run(100)
    arm.q = arm.q + 0.01  # sagged
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    np.testing.assert_allclose(arm.run(1)[0], ROBOT.rest_posture, atol=1e-4)


def test_torque_that_went_off_ends_a_motion_as_cancelled_and_commands_nothing_more() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    arm.run(500)
    arm.motion.forget(arm.stamp)
    assert [name for name, _ in arm.motion.phases] == ["approach", "cancelled"] and not arm.motion.active
    assert arm.motion.update(arm.stamp + MS, arm.q) is None
    arm.q = arm.q + 0.05
    arm.motion.hold(arm.q, arm.stamp + MS)
    np.testing.assert_array_equal(arm.run(10)[-1], arm.motion.start_posture(arm.q))
    assert np.abs(arm.q - arm.motion.start_posture(arm.q)).max() < 1e-3


def test_motion_after_release_starts_at_the_present_posture() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    while arm.motion.moving:
        arm.run(100)
    arm.q = arm.q + 0.2
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    np.testing.assert_allclose(arm.run(1)[0], arm.q, atol=2e-3)


def test_cancel_brakes_to_rest_and_holds() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    while arm.motion.phase != "trajectory":
        arm.run(1)
    arm.run(300)
    arm.motion.cancel(arm.stamp)
    references = arm.run(1000)
    assert np.abs(np.diff(references, axis=0)).max() < 0.4 * 0.001 * 1.05
    np.testing.assert_array_equal(references[-1], references[-2])
    assert arm.motion.phase == "cancelled" and not arm.motion.moving and arm.motion.active


def test_unsafe_motions_are_refused() -> None:
    arm = Arm()
    beyond = np.array(ROBOT.rest_posture)
    beyond[3] = 0.2
    with pytest.raises(SafetyError, match="rotate_joint"):
        arm.motion.begin(approach(np.array(ROBOT.rest_posture), beyond, ROBOT.joint_names), arm.q, arm.stamp)
    assert not arm.motion.active
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    with pytest.raises(SafetyError, match="is running"):
        arm.motion.begin(short_move(), arm.q, arm.stamp)


def test_after_a_gap_in_the_states_the_reference_goes_on_where_it_was() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    while arm.motion.phase != "trajectory":
        arm.run(1)
    before = arm.run(400)[-1]
    arm.stamp += 300 * MS
    assert np.abs(arm.run(1)[0] - before).max() < 0.4 * 0.001 * 1.5
    while arm.motion.moving:
        arm.run(100)
    np.testing.assert_allclose(arm.q, ROBOT.rest_posture, atol=2e-3)


def test_an_arm_that_does_not_follow_is_held_where_it_is() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    arm.run(10)
    arm.q = arm.q + 0.5
    with pytest.raises(SafetyError, match=r"off its reference.*held in place"):
        arm.run(1)
    where = arm.q.copy()
    references = arm.run(3000)
    np.testing.assert_allclose(references, np.tile(where, (3000, 1)), atol=1e-3)
    np.testing.assert_allclose(arm.q, where, atol=2e-3)
    assert arm.motion.phase == "cancelled" and not arm.motion.moving and np.abs(arm.dq).max() < 1e-3
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    arm.run(10)


def test_a_held_arm_that_is_pushed_is_held_where_it_is() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    while arm.motion.moving:
        arm.run(100)
    arm.q = arm.q + 0.5
    with pytest.raises(SafetyError, match=r"pushed, or torque is off, and the arm is held in place"):
        arm.run(1)
    where = arm.q.copy()
    arm.run(1000)
    np.testing.assert_allclose(arm.q, where, atol=2e-3)


def test_arm_is_reported_as_held_only_without_a_motion() -> None:
    arm = Arm()
    said = []

    def cycle() -> bool:
        arm.stamp += MS
        step = arm.motion.update(arm.stamp, arm.q)
        assert step is not None
        arm.q = step.q_ref.copy()
        return step.holds

    arm.motion.hold(arm.q, arm.stamp)
    assert cycle()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    said = [cycle() for _ in range(500)]
    arm.motion.cancel(arm.stamp)
    while arm.motion.moving:
        said.append(cycle())
    assert not any(said[:-1]) and cycle()
    for _ in range(2):  # braked since it left where it was held: it is still said to be held
        arm.q = arm.q + 0.5
        with pytest.raises(SafetyError):
            cycle()
        assert all(cycle() for _ in range(300))


def test_an_arm_that_leaves_its_reference_much_later_is_held_there() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    arm.run(10)
    for _ in range(3):
        arm.q = arm.q + 0.5
        with pytest.raises(SafetyError, match="held in place"):
            arm.run(1)
        assert arm.motion.active
        arm.run(3100)
    np.testing.assert_allclose(arm.run(1)[0], arm.q, atol=1e-3)


def test_a_state_that_is_not_a_number_is_given_up_at_once() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    arm.run(10)
    arm.q = arm.q * np.nan
    with pytest.raises(SafetyError, match=r"off its reference.*released"):
        arm.run(1)
    assert not arm.motion.active


def distance_to(path: np.ndarray, points: np.ndarray) -> float:
    """Largest distance of points (m, n) from a densely sampled path (N, n)."""
    return float(max(np.linalg.norm(path - point, axis=1).min() for point in points))


@pytest.mark.slow
@pytest.mark.parametrize("instant", [0.3, 1.7, 4.0, 9.0])
def test_braking_stays_on_the_checked_path_and_is_smooth(instant: float) -> None:
    arm = Arm()
    motion = load_excitation(ROBOT).trajectory("V01")
    arm.motion.begin(motion, arm.q, arm.stamp)
    while arm.motion.phase != "trajectory":
        arm.run(1)
    arm.run(round(1000 * instant))
    arm.motion.cancel(arm.stamp)
    assert arm.motion.moving == (np.abs(motion.sample_all(np.array([instant]))[1]).max() > 0)
    references = arm.run(3000)
    path = motion.sample_all(np.arange(0.0, motion.duration, 0.001))[0]
    assert distance_to(path, references[::20]) < 2e-3
    velocity = np.diff(references, axis=0) / 0.001
    assert np.abs(np.diff(velocity, axis=0)).max() / 0.001 < 16 + 4  # the motion's own acceleration and the brake's
    assert not velocity[-1].any() and not arm.motion.moving
    np.testing.assert_allclose(arm.q, references[-1], atol=2e-3)


def test_a_braking_arm_refuses_a_new_motion() -> None:
    arm = Arm()
    arm.motion.begin(load_excitation(ROBOT).trajectory("V01"), arm.q, arm.stamp)
    while arm.motion.phase != "trajectory":
        arm.run(1)
    arm.run(500)
    arm.motion.cancel(arm.stamp)
    arm.motion.cancel(arm.stamp)  # twice does no harm
    with pytest.raises(SafetyError, match="a motion is running"):
        arm.motion.begin(short_move(), arm.q, arm.stamp)
    arm.run(1500)
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    assert [name for name, _ in arm.motion.phases] == ["approach"]


def test_lost_states_pause_the_motion_and_it_goes_on_smoothly_to_its_end() -> None:
    arm = Arm()
    motion = load_excitation(ROBOT).trajectory("V01")
    arm.motion.begin(motion, arm.q, arm.stamp)
    while arm.motion.phase != "trajectory":
        arm.run(1)
    before = arm.run(1300)
    arm.stamp += 300 * MS
    references = np.concatenate([before[-1:], arm.run(12000)])
    assert np.abs(references[1] - references[0]).max() < 1e-4
    velocity = np.diff(references, axis=0) / 0.001
    assert np.abs(velocity[:2]).max() < 0.02 < np.abs(velocity).max()  # from a standstill
    assert np.abs(np.diff(velocity, axis=0)).max() / 0.001 < 16 + 4
    assert distance_to(motion.sample_all(np.arange(0.0, motion.duration, 0.001))[0], references[::50]) < 2e-3
    while arm.motion.moving:
        arm.run(100)
    assert arm.motion.phase == "done"
    np.testing.assert_allclose(arm.q, ROBOT.rest_posture, atol=2e-3)


def test_a_short_gap_hardly_slows_the_motion() -> None:
    arm = Arm()
    arm.motion.begin(load_excitation(ROBOT).trajectory("V01"), arm.q, arm.stamp)
    while arm.motion.phase != "trajectory":
        arm.run(1)
    before = arm.run(500)
    speed = np.abs(before[-1] - before[-2]).max()
    arm.stamp += 25 * MS
    after = arm.run(2)
    assert 0.85 * speed < np.abs(after[1] - after[0]).max() < 1.05 * speed


def test_states_that_were_lost_for_long_end_the_motion() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    while arm.motion.phase != "trajectory":
        arm.run(1)
    arm.run(400)
    arm.stamp += 1500 * MS
    arm.q, arm.dq = arm.q - 0.2, np.zeros(ROBOT.size)  # it sank
    with pytest.raises(SafetyError, match=r"no joint states for 1\.50 s"):
        arm.run(1)
    assert [name for name, _ in arm.motion.phases][-1] == "cancelled" and not arm.motion.active
    arm.motion.hold(arm.q, arm.stamp)
    np.testing.assert_allclose(arm.run(500), np.tile(arm.q, (500, 1)), atol=1e-2)


WRONG_TIMES = {
    "jump ahead": ([1500], r"no joint states for 1\.50 s"),
    "go back": ([-30], r"went back by 0\.030 s"),
    "go back by a day": ([-86_400_000], r"went back by 86400\.000 s"),
    "repeat": ([0] * 21, "the last 21 joint_states are no newer than an earlier one"),
    "stand behind": ([-5] + [0] * 20, "their stamps do not advance"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRONG_TIMES)
@pytest.mark.parametrize("mode", ["motion", "hold", "done", "led"])
def test_time_that_does_not_pass_ends_commands_in_every_mode(kind: str, mode: str) -> None:
    arm = Arm()
    if mode == "led":
        arm.motion.switch_to(Led())
    if mode in ("hold", "led"):
        arm.motion.hold(arm.q, arm.stamp)
    else:
        arm.motion.begin(short_move(), arm.q, arm.stamp)
    arm.run(500)
    while mode == "done" and arm.motion.moving:
        arm.run(100)
    steps, words = WRONG_TIMES[kind]
    with pytest.raises(SafetyError, match=rf"{words}.*its driver brakes and lowers it"):
        for step in steps:
            arm.stamp += step * MS
            assert arm.motion.update(arm.stamp, arm.q) is None
    assert not arm.motion.active and not arm.motion.moving
    assert arm.motion.update(arm.stamp + MS, arm.q) is None
    arm.motion.hold(arm.q, arm.stamp)  # from now on, by the new time
    assert arm.motion.update(arm.stamp + MS, arm.q) is not None


def test_a_state_that_was_overtaken_is_left_out() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    arm.run(500)
    for _ in range(3):
        for late in (0, -2, -15):
            assert arm.motion.update(arm.stamp + late * MS, arm.q) is None
        arm.run(100)
    assert arm.motion.moving


def test_a_hold_begins_anew_after_the_clock_was_set_back() -> None:
    arm = Arm()
    arm.motion.hold(arm.q, arm.stamp)
    arm.run(10)
    arm.stamp = MS
    arm.motion.hold(arm.q, arm.stamp)
    arm.run(100)
    assert arm.motion.active


def test_progress_and_tracking_statistics_match_the_motion() -> None:
    arm = Arm()
    assert arm.motion.tracking.summary(ROBOT.joint_names) == {"states": 0}
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    errors, progress = [], []
    while arm.motion.moving:
        arm.stamp += MS
        step = arm.motion.update(arm.stamp, arm.q)
        if arm.motion.phase == "trajectory":
            errors.append(arm.q - step.q_ref)
        progress.append(arm.motion.progress(arm.stamp))
        arm.dq = arm.dq + (step.tau - arm.damping * arm.dq) / arm.inertia * 0.001
        arm.q = arm.q + arm.dq * 0.001
    found = arm.motion.tracking
    np.testing.assert_allclose(found.rms, np.sqrt(np.mean(np.square(errors), axis=0)), rtol=1e-9)
    np.testing.assert_allclose(found.largest, np.abs(errors).max(axis=0), rtol=1e-9)
    summary = found.summary(ROBOT.joint_names)
    assert summary["states"] == len(errors)
    assert summary["largest_deg"] == pytest.approx(np.rad2deg(np.abs(errors).max()))
    assert summary["largest_at"] == ROBOT.joint_names[np.abs(errors).max(axis=0).argmax()]
    assert progress[0] == 0.0 and progress[-1] == 1.0 and np.all(np.diff(progress) >= 0.0)


def test_without_return_motion_the_arm_is_held_at_the_end() -> None:
    arm = Arm()
    plan = plan_motion(ROBOT, short_move(), arm.motion.start_posture(arm.q), arm.motion.check, to_rest=False)
    arm.motion.begin(plan, arm.q, arm.stamp)
    while arm.motion.moving:
        arm.run(10)
    assert [name for name, _ in arm.motion.phases] == ["approach", "trajectory", "done"]
    np.testing.assert_allclose(arm.run(500), np.tile(short_move().end, (500, 1)), atol=1e-12)
    np.testing.assert_allclose(arm.q, short_move().end, atol=2e-3)


def test_a_plan_for_an_arm_that_moved_since_is_refused() -> None:
    arm = Arm()
    plan = plan_motion(ROBOT, short_move(), arm.motion.start_posture(arm.q), arm.motion.check)
    with pytest.raises(SafetyError, match=r"pan_joint moved by 17\.\d deg since 'short' was planned"):
        arm.motion.begin(plan, arm.q + 0.3 * np.eye(8)[0], arm.stamp)
    assert not arm.motion.active
    arm.motion.begin(plan, arm.q, arm.stamp)
    arm.run(10)


def test_motions_of_other_joints_or_without_a_state_are_refused() -> None:
    arm = Arm()
    other = approach(np.zeros(2), np.ones(2), ("a", "b"))
    with pytest.raises(DataError, match="moves a, b; robot 'crane_x7' has"):
        arm.motion.begin(other, arm.q, arm.stamp)
    with pytest.raises(SafetyError, match="expected finite angles"):
        arm.motion.begin(short_move(), arm.q * np.nan, arm.stamp)


class Led:
    """Control law that follows no reference."""

    name, follows_reference, uses_model = "led", False, False

    def torque(self, q, dq, q_ref, dq_ref, ddq_ref) -> np.ndarray:
        return 0.1 * np.ones(len(q))

    def gains(self) -> dict:
        return {}


def test_guided_arm_is_held_at_its_last_posture() -> None:
    arm = Arm()
    pd = arm.motion.controller.law
    arm.motion.hold(arm.q, arm.stamp)
    arm.run(100)
    arm.motion.switch_to(Led())
    for k in range(3500):
        arm.q = arm.q + (k > 1000) * 0.0002  # far beyond what a held arm may be away from its reference
        references = arm.run(1)
        arm.dq[:] = 0.0
    with pytest.raises(SafetyError, match="led cannot follow a reference"):
        arm.motion.begin(short_move(), arm.q, arm.stamp)
    arm.motion.switch_to(pd)
    where = references[-1]
    np.testing.assert_allclose(arm.run(1000)[-1], where)
    np.testing.assert_allclose(arm.q, where, atol=1e-2)
    assert arm.motion.phase == "hold" and arm.motion.phases == []


def test_moving_arm_is_not_released_by_another_law() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    arm.run(100)
    with pytest.raises(SafetyError, match="led cannot take over"):
        arm.motion.switch_to(Led())
    with pytest.raises(SafetyError, match="a motion is running"):
        arm.motion.hold(arm.q, arm.stamp)
    arm.motion.cancel(arm.stamp)
    arm.run(1500)
    arm.motion.switch_to(Led())
    np.testing.assert_allclose(arm.run(1)[0], arm.q, atol=1e-3)


class Push(Led):
    """Control law without feedback that pushes the first joint."""

    name, follows_reference = "push", True

    def torque(self, q, dq, q_ref, dq_ref, ddq_ref) -> np.ndarray:
        return 0.3 * np.eye(len(q))[0]


def pushed(arm: Arm, duration: float, window: Window) -> None:
    """Run a plan whose trajectory has no feedback."""
    rest = HoldPath(np.array(ROBOT.rest_posture))
    rest.duration = duration
    there = approach(arm.q, ROBOT.rest_posture, ROBOT.joint_names)
    back = approach(ROBOT.rest_posture, ROBOT.rest_posture, ROBOT.joint_names)
    parts = (Part("approach", there), Part("trajectory", rest, Push(), window), Part("rest", back))
    arm.motion.begin(MotionPlan("push", duration, arm.q.copy(), parts), arm.q, arm.stamp)


WIDE = Window(ROBOT.lower, ROBOT.upper, np.full(8, 4.0))


def test_a_part_without_feedback_ends_by_time_and_the_arm_returns() -> None:
    arm = Arm()
    pushed(arm, 0.4, WIDE)
    furthest = 0.0
    while arm.motion.moving:
        arm.run(1)
        furthest = max(furthest, arm.q[0])
    assert 0.1 < furthest < 1.0 and arm.motion.stopped_itself == ""
    assert [name for name, _ in arm.motion.phases] == ["approach", "trajectory", "rest", "done"]
    np.testing.assert_allclose(arm.q, ROBOT.rest_posture, atol=2e-3)


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (Window(ROBOT.lower, ROBOT.rest_posture + 0.5, np.full(8, 4.0)), r"can no longer stop within .* to 28\.6 deg"),
        (Window(ROBOT.lower, ROBOT.upper, np.full(8, 0.8)), r"moves at 0\.8\d rad/s, at most 0\.80 rad/s"),
    ],
)
def test_a_part_without_feedback_stops_itself_within_its_window(window: Window, words: str) -> None:
    arm = Arm()
    pushed(arm, 5.0, window)
    furthest, fastest = 0.0, 0.0
    while arm.motion.moving:
        arm.run(1)
        furthest, fastest = max(furthest, arm.q[0]), max(fastest, arm.dq[0])
    assert re.search(rf"stopped early after \d\.\d\d s: {ROBOT.joint_names[0]} {words}", arm.motion.stopped_itself)
    assert 0.1 < furthest < window.upper[0] and fastest < window.speed[0] + 0.02
    np.testing.assert_allclose(arm.q, ROBOT.rest_posture, atol=2e-3)


def test_states_that_are_lost_end_a_part_without_feedback() -> None:
    arm = Arm()
    pushed(arm, 5.0, WIDE)
    while arm.motion.phase != "trajectory":
        arm.run(1)
    arm.run(300)
    found = arm.q.copy(), arm.dq.copy()
    arm.stamp += 60 * MS
    q_ref = arm.run(1)[0]
    assert "joint states were lost for 0.061 s" in arm.motion.stopped_itself
    np.testing.assert_allclose(q_ref, found[0], atol=2e-3)  # it brakes from where the arm is found, and never backwards
    while arm.motion.moving and arm.dq[0] > 0.05:
        before, q_ref = q_ref, arm.run(1)[0]
        assert q_ref[0] >= before[0] and arm.dq[0] <= found[1][0] + 0.02
    while arm.motion.moving:
        arm.run(1)
    np.testing.assert_allclose(arm.q, ROBOT.rest_posture, atol=2e-3)


@pytest.mark.parametrize("gap_ms", [30, 130, 300])
def test_lost_states_of_a_standing_arm_without_feedback_end_its_part(gap_ms: int) -> None:
    """As in a torque ramp before the joint gets loose: its velocity, and so its braking path, is exactly zero."""
    arm = Arm()
    pushed(arm, 5.0, WIDE)
    while arm.motion.phase != "trajectory":
        arm.run(1)
    for _ in range(1500):  # it sticks
        arm.dq = 0.0 * arm.dq
        arm.run(1)
    arm.stamp += gap_ms * MS
    arm.run(1)
    assert "joint states were lost" in arm.motion.stopped_itself
    while arm.motion.moving:
        arm.run(1)
    np.testing.assert_allclose(arm.q, ROBOT.rest_posture, atol=2e-3)


@pytest.mark.parametrize("gap_ms", [60, 200])
def test_a_cancel_within_a_gap_brakes_from_where_the_arm_is_found(gap_ms: int) -> None:
    arm = Arm()
    pushed(arm, 5.0, WIDE)
    while arm.motion.phase != "trajectory" or arm.dq[0] < 1.0:
        arm.run(1)
    arm.motion.cancel(arm.stamp)  # whose state is the last one for a while
    arm.stamp += gap_ms * MS
    arm.q, arm.dq = arm.q + 0.08 * np.eye(8)[0], 0.3 * arm.dq
    found = arm.q.copy()
    references = arm.run(400)
    assert np.abs(references[0] - found).max() < 2e-3 and (np.diff(references[:, 0]) >= -1e-9).all()
    assert arm.motion.phase == "cancelled" and not arm.motion.moving


def test_after_a_long_gap_the_reference_goes_on_from_an_arm_that_stands() -> None:
    """The hardware has stopped the arm meanwhile: its former velocity no longer counts."""
    arm = Arm()
    pushed(arm, 5.0, WIDE)
    while arm.motion.phase != "trajectory" or arm.dq[0] < 1.0:
        arm.run(1)
    arm.stamp += 300 * MS
    arm.q, arm.dq = arm.q + 0.1 * np.eye(8)[0], 0.0 * arm.dq
    references = arm.run(200)
    assert np.abs(references - arm.q).max() < 0.02  # it returns from there, slowly
    held = Arm()
    held.motion.begin(short_move(), held.q, held.stamp)
    held.run(1200)
    held.stamp += 500 * MS
    held.q, held.dq = held.q + 0.4 * np.eye(8)[0], 0.0 * held.dq
    with pytest.raises(SafetyError, match="the arm is held in place"):
        held.run(1)
    stood = held.q.copy()
    held.dq = 0.0 * held.dq
    np.testing.assert_allclose(held.run(300)[-1], stood, atol=1e-3)


def test_a_position_that_is_no_number_releases_an_arm_without_feedback() -> None:
    arm = Arm()
    pushed(arm, 5.0, WIDE)
    while arm.motion.phase != "trajectory":
        arm.run(1)
    arm.run(100)
    arm.q = np.where(np.arange(8) == 3, np.nan, arm.q)
    with pytest.raises(SafetyError, match="released"):
        arm.run(1)
    assert not arm.motion.active


@pytest.mark.parametrize("moved", [0.005, 0.19])
def test_a_motion_begins_where_the_arm_is_although_it_moved_since_it_was_planned(moved: float) -> None:
    arm = Arm()
    plan = plan_motion(ROBOT, short_move(), arm.q, arm.motion.check)
    arm.q = arm.q + moved * np.eye(8)[0]
    arm.motion.begin(plan, arm.q, arm.stamp)
    first = arm.q.copy()
    references = arm.run(5000)
    assert np.abs(references[0] - first).max() < 0.0051
    assert np.abs(np.diff(references, axis=0)).max() < 0.002
    assert [name for name, _ in arm.motion.phases][:2] == ["approach", "trajectory"]


def test_progress_counts_all_parts_of_a_trajectory() -> None:
    arm = Arm()
    pushed(arm, 0.4, WIDE)
    progress = []
    while arm.motion.moving:
        arm.run(1)
        progress.append(arm.motion.progress(arm.stamp))
    assert np.all(np.diff(progress) >= 0.0) and progress[-1] == 1.0


def test_a_part_without_feedback_can_be_cancelled_and_ends_at_rest() -> None:
    arm = Arm()
    pushed(arm, 5.0, WIDE)
    while arm.motion.phase != "trajectory":
        arm.run(1)
    arm.run(700)
    assert arm.dq[0] > 0.5
    arm.motion.cancel(arm.stamp)
    arm.run(2000)
    assert arm.motion.phase == "cancelled" and not arm.motion.moving and np.abs(arm.dq).max() < 1e-3


def test_demo_motions_keep_the_real_limits() -> None:
    excitation = load_excitation(ROBOT)
    for name in ("demo_identification", "demo_validation"):
        excitation.trajectory(name).check_limits(ROBOT.lower, ROBOT.upper, ROBOT.velocity_limits)
