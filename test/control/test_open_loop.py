"""Excitation of one joint without feedback, within a window and within the joint's torque limit."""

import numpy as np
import pytest

from dynid.control.breakaway import RAMP_S, Breakaway, Ramp
from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.motion_check import MotionCheck, nominal_torques, robot_limits
from dynid.control.open_loop import ExcitationSettings, OpenLoopJoint, SwitchingPath, excited_joint, plan_excitation
from dynid.errors import SafetyError, UnknownNameError
from dynid.identification.joint_level.excited_arm import simulate_excitation
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation

ROBOT = load_robot("crane_x7")
SETTINGS = load_controller(ROBOT)
ACCELERATION = load_excitation(ROBOT).acceleration_limits
LIMITS = robot_limits(ROBOT, ACCELERATION)
N = ROBOT.size


@pytest.fixture(scope="module")
def torques():
    return nominal_torques(ROBOT, None)


def plan(torques, joint, **settings):
    check = MotionCheck(ROBOT, LIMITS, torques)
    chosen = ExcitationSettings(**settings)
    return plan_excitation(ROBOT, SETTINGS, joint, ROBOT.rest_posture, check, LIMITS, torques, chosen)


def test_the_excited_joint_has_no_feedback_and_the_others_have_theirs(torques):
    law, held = OpenLoopJoint(SETTINGS, 6, torques, 9.0), FeedforwardPdLaw(SETTINGS)
    rng = np.random.default_rng(0)
    q, dq, q_ref, dq_ref, ddq_ref = 0.3 * rng.normal(size=(5, N))
    gravity = torques(q[None], np.zeros((1, N)), np.zeros((1, N)))[0]
    found = law.torque(q, dq, q_ref, dq_ref, ddq_ref) - gravity
    others = np.arange(N) != 6
    np.testing.assert_allclose(found[others], held.torque(q, dq, q_ref, dq_ref, ddq_ref)[others])
    assert found[6] == pytest.approx(SETTINGS.inertia_kg_m2[6] * ddq_ref[6])
    again = law.torque(q, dq + 1.0, q_ref + 0.2, dq_ref, ddq_ref) - gravity
    assert again[6] == pytest.approx(found[6]) and np.abs(again - found)[others].min() > 0.01
    weak = OpenLoopJoint(SETTINGS, 6, torques, 0.001)
    assert abs(weak.torque(q, dq, q_ref, dq_ref, ddq_ref)[6]) == 0.001


def test_the_path_stands_and_its_acceleration_is_the_signal():
    path = SwitchingPath(np.arange(3.0), 1, np.array([1.0, -1.0, 2.0]), 0.001, 0.5, 2.0, Breakaway(0.25, 9.0))
    q, dq, ddq = np.full((3, 3), np.nan)
    for t, expected in ((0.0, 1.0), (0.00099, 1.0), (0.001, -1.0), (0.0025, 2.0), (0.0031, 0.0), (-0.1, 0.0)):
        path.sample_into(t, q, dq, ddq)
        np.testing.assert_array_equal(q, [0.0, 1.0, 2.0])
        np.testing.assert_array_equal(ddq, [0.0, expected, 0.0])
        assert not dq.any()


def test_every_joint_has_a_plan_with_room_to_both_sides(torques):
    for joint in range(N):
        one = plan(torques, joint)
        assert one.name == f"joint_excitation_{joint + 1}" and excited_joint(ROBOT, one.name) == joint
        driven = [part for part in one.parts if isinstance(part.path, SwitchingPath)]
        ramps = [part for part in one.parts if isinstance(part.path, Ramp)]
        assert [part.path.duration for part in ramps] == [RAMP_S, RAMP_S]
        for part in (*ramps, *driven):
            posture, window = driven[0].path.posture, part.window
            assert window.lower[joint] < posture[joint] < window.upper[joint]
            assert window.lower[joint] > ROBOT.lower[joint] and window.upper[joint] < ROBOT.upper[joint]
        signal = np.concatenate([part.path.signal for part in driven])
        assert abs(signal.mean()) < 0.05 * np.abs(signal).max()
        assert one.duration > sum(part.path.duration for part in driven)


def test_too_much_torque_and_too_little_room_are_refused(torques):
    with pytest.raises(SafetyError, match=r"tilt_joint needs \d+\.\d+ N m, allowed are 11\.\d+ N m"):
        plan(torques, 1, acceleration_rad_s2=120.0)
    with pytest.raises(SafetyError, match="too little for an excitation"):
        plan(torques, 0, window_rad=0.04)
    for name in ("joint_excitation_9", "2"):
        with pytest.raises(UnknownNameError, match="joint_excitation_8"):
            excited_joint(ROBOT, name)


@pytest.mark.slow
def test_on_the_simulated_arm_the_joint_stays_within_its_window_and_ends_at_rest():
    run = simulate_excitation(ROBOT, SETTINGS, 7, ACCELERATION, friction="viscous")
    assert [name for name, _ in run.phases] == ["approach", "trajectory", "rest", "done"]
    assert np.all(run.q_true > ROBOT.lower) and np.all(run.q_true < ROBOT.upper)
    driven = (run.dq_ref[:, 7] == 0.0) & (run.ddq_ref[:, 7] != 0.0)
    assert driven.sum() > 8000 and np.ptp(run.q_true[driven, 7]) > 0.5
    assert np.abs(run.dq_true[driven, 7]).max() < ROBOT.velocity_limits[7]
    assert np.abs(np.ptp(run.q_true[-100:], axis=0)).max() < 0.02 * 0.1  # a backlash may still be crossed
    held = np.arange(N) != 7
    assert np.abs(run.q_true[driven] - run.q_ref[driven])[:, held].max() < 0.12
    assert np.all(np.abs(run.torque_command[driven]) < LIMITS.torque)
