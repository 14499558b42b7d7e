"""Push that hand guiding of a joint of the simulated arm needs, under a law that compensates gravity.

The hand is a spring and a damper between the joint and a point that moves at constant speed. The push is its mean
torque while the joint slides, averaged over both directions. No torque acts on the other joints.
"""

from dataclasses import replace

import numpy as np

from dynid.control.arm_controller import ArmController
from dynid.control.controller import TorqueLaw
from dynid.control.guiding import GuidingComponents
from dynid.control.load_watch import LoadWatch
from dynid.control.motion import MotionExecutor
from dynid.robot import FloatArray, Robot
from dynid.simulation.lockstep.stepped_arm import SteppedArm

# An arm has to stand by itself before it is guided by hand, and its tool is damped from 0.25 m/s on.
SPEED_RAD_S, WAIT_S, LEAD_S, WATCHED_S = 0.3, 1.0, 0.8, 0.4
NO_LOAD_N = 1e3  # smallest force that counts as a load [N]: disabled, as guiding one joint looks like a load
STIFFNESS_NM_RAD, DAMPING_NM_S_RAD = 30.0, 0.5


class Hand:
    """Hand that guides one joint from its present position."""

    def __init__(self, joint: int, speed_rad_s: float, q: FloatArray) -> None:
        self._joint, self._speed, self._target = joint, speed_rad_s, float(q[joint])

    def push(self, q: FloatArray, dq: FloatArray, dt: float) -> FloatArray:
        """Return the hand's torque (n,) [N m] on an arm at q, dq (n,), after moving the hand on by dt [s]."""
        self._target += self._speed * dt
        torque, j = np.zeros_like(q), self._joint
        torque[j] = STIFFNESS_NM_RAD * (self._target - q[j]) + DAMPING_NM_S_RAD * (self._speed - dq[j])
        return torque


def push_of(arm: SteppedArm, motion: MotionExecutor, joint: int, speed_rad_s: float) -> float:
    """Return the mean push [N m] along the motion over the last `WATCHED_S` of guiding a joint for `LEAD_S`."""
    motion.hold(arm.measure(), arm.stamp_ns)
    cycle = arm.robot.file.bus.cycle_s
    for _ in range(round(WAIT_S / cycle)):
        arm.follow(motion)
    hand = Hand(joint, speed_rad_s, arm.plant.q)
    pushes = []
    for _ in range(round(LEAD_S / cycle)):
        torque = hand.push(arm.plant.q, arm.plant.dq, cycle)
        arm.follow(motion, torque)
        pushes.append(float(torque[joint]))
    return float(np.sign(speed_rad_s) * np.mean(pushes[-round(WATCHED_S / cycle) :]))


def pushes(
    robot: Robot, law: TorqueLaw, filter_s: float, *, mount: str | None, seed: int, pose: FloatArray
) -> FloatArray:
    """Return the push that guiding every joint needs, (n,) [N m]: the mean of both directions.

    Args:
        robot: the robot.
        law: control law that compensates gravity.
        filter_s: time constant of the velocity estimate [s].
        mount: mount of the simulated arm.
        seed: seed of its noise.
        pose: start position of every joint, (n,) [rad].
    """
    found, means = np.zeros((2, robot.size)), GuidingComponents.of(robot)
    unwatched = replace(means, load=LoadWatch(means.settings.model_copy(update={"guiding_load_n": NO_LOAD_N})))
    for side, sign in enumerate((1.0, -1.0)):
        for joint in range(robot.size):
            arm = SteppedArm(robot, mount=mount, seed=seed + joint, q0=pose)
            motion = MotionExecutor(robot, ArmController(law, filter_s, robot.size))
            motion.guiding.components = unwatched
            found[side, joint] = push_of(arm, motion, joint, sign * SPEED_RAD_S)
    return np.asarray(found.mean(axis=0))
