"""A motion on an ideal double integrator: phases, continuity, refusal, cancelling."""

import numpy as np
import pytest

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.control.motion import MotionExecutor
from dynid.errors import SafetyError
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
            references.append(step.q_ref)
            self.dq = self.dq + (step.tau - self.damping * self.dq) / self.inertia * 0.001
            self.q = self.q + self.dq * 0.001
        return np.array(references)


def short_move() -> "object":
    target = np.array(ROBOT.rest_posture)
    target[:3] += 0.3
    return approach(np.array(ROBOT.rest_posture) + 0.05, target, ROBOT.joint_names, name="short")


def test_phases_in_order_and_a_continuous_reference() -> None:
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


def test_an_arm_that_was_let_go_is_fetched_from_where_it_is() -> None:
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
    with pytest.raises(SafetyError, match="under way"):
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


def test_an_arm_that_does_not_follow_is_given_up() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    arm.run(10)
    arm.q = arm.q + 0.5
    with pytest.raises(SafetyError, match="off its reference"):
        arm.run(1)
    assert not arm.motion.active


def test_a_state_that_is_not_a_number_is_given_up_at_once() -> None:
    arm = Arm()
    arm.motion.begin(short_move(), arm.q, arm.stamp)
    arm.run(10)
    arm.q = arm.q * np.nan
    with pytest.raises(SafetyError, match="off its reference"):
        arm.run(1)
    assert not arm.motion.active


def test_demo_motions_keep_the_real_limits() -> None:
    excitation = load_excitation(ROBOT)
    for name in ("demo_identification", "demo_validation"):
        excitation.trajectory(name).check_limits(ROBOT.lower, ROBOT.upper, ROBOT.velocity_limits)
