"""The stepped arm equals the arm of the lock-step run, and external forces can act on it."""

import numpy as np
import pytest

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.control.motion import MotionExecutor
from dynid.robot import load_robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.trajectory.trajectory import approach

ROBOT = load_robot("crane_x7")
SETTINGS = load_controller(ROBOT)


def short_motion():
    target = np.array(ROBOT.rest_posture)
    target[[0, 3, 6]] += 0.3
    return approach(np.array(ROBOT.rest_posture) + 0.05, target, ROBOT.joint_names, name="short")


def test_the_stepped_arm_equals_the_lock_step_simulation():
    arm = SteppedArm(ROBOT, seed=3, mount="hanging")
    motion = MotionExecutor(ROBOT, FeedforwardPd(SETTINGS))
    q = arm.measure()
    expected = simulate(ROBOT, short_motion(), FeedforwardPd(SETTINGS), seed=3, mount="hanging")
    motion.begin(short_motion(), q, arm.stamp_ns)
    assert arm.run(motion, lambda: not motion.moving, 60.0)
    found = arm.recorded("short", expected.trajectory_duration, motion.phases)
    count = min(len(found.q), len(expected.q))
    assert count > 4000 and found.phases == expected.phases
    for name in ("stamps_ns", "q", "q_ref", "dq_ref", "torque_goal", "torque_motor", "torque_command", "q_true"):
        first, second = getattr(found, name)[:count], getattr(expected, name)[:count]
        np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(found.torque_present[:count], expected.torque_present[:count], atol=0.02)
    with pytest.raises(ValueError, match="read-only"):
        found.q[0, 0] = 1.0


def test_an_external_push_moves_the_arm():
    still, pushed = SteppedArm(ROBOT, switched_off={"torque_noise"}), SteppedArm(ROBOT, switched_off={"torque_noise"})
    push = 0.5 * np.eye(ROBOT.size)[0]
    for arm, force in ((still, None), (pushed, push)):
        for _ in range(100):
            arm.measure()
            arm.command(np.zeros(ROBOT.size), force)
    assert pushed.plant.q[0] - still.plant.q[0] > 0.01
