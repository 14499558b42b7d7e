"""Gears between motors and joints: q_motor = gear_ratio * (C q_joint), tau_joint = C' (gear_ratio * tau_motor).

This is the only module that converts between motor and joint quantities. All code except the servo driver states
quantities at the joints, including currents. The current of a joint is its torque divided by its torque constant at the
joint, `Robot.joint_constants`. If every motor moves one joint, the current of a joint is that of its motor times the
sign of the gear ratio.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dynid.robot import FloatArray, Robot, read_only


class Transmission:
    """Converter between the n motors and the n joints of a robot; values are (..., n).

    The current of a joint is its torque divided by its torque constant at the joint, `Robot.joint_constants`.

    Args:
        robot: the robot, whose gear ratios and coupling are used, and for currents also its torque constants.

    Attributes:
        direct: whether motor and joint quantities are equal: no gear ratio other than 1, and no coupling.
        coupled: whether any motor moves several joints.
    """

    def __init__(self, robot: Robot) -> None:
        self._robot, self._ratio, self._C = robot, robot.gear_ratios, robot.coupling
        self.coupled = bool((self._C != np.eye(robot.size)).any())
        self.direct = not self.coupled and bool((self._ratio == 1.0).all())
        self._inverse = read_only(np.linalg.inv(self._C))

    # -- positions and velocities ------------------------------------------------------------------------------

    def joint_motion(self, motor: FloatArray) -> FloatArray:
        """Return joint positions or velocities, (..., n) [rad or rad/s], from those of the motors."""
        if self.direct:
            return motor
        values = motor / self._ratio
        return np.asarray(values @ self._inverse.T) if self.coupled else values

    def motor_motion(self, joint: FloatArray) -> FloatArray:
        """Return motor positions or velocities, (..., n) [rad or rad/s], from those of the joints."""
        if self.direct:
            return joint
        return np.asarray(self._ratio * (joint @ self._C.T if self.coupled else joint))

    def joint_speed(self, motor_speed: FloatArray) -> FloatArray:
        """Return the largest speed of each joint, (n,) [rad/s], if no motor exceeds `motor_speed`, (n,) [rad/s]."""
        return np.asarray(np.abs(self._inverse) @ (motor_speed / np.abs(self._ratio)))

    def motor_range(self) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and the largest encoder angle of each motor within the joint limits, (n,) each [rad]."""
        offsets = self._robot.zero_offsets
        ends = [self._ratio[:, None] * self._C * (limit - offsets) for limit in (self._robot.lower, self._robot.upper)]
        return np.minimum(*ends).sum(axis=1), np.maximum(*ends).sum(axis=1)

    # -- torques and currents ----------------------------------------------------------------------------------

    def joint_torque(self, motor: FloatArray) -> FloatArray:
        """Return joint torques, (..., n) [N m], from those of the motors."""
        return motor if self.direct else np.asarray((motor * self._ratio) @ self._C)

    @cached_property
    def _to_joints(self) -> FloatArray:
        """Matrix from motor currents to joint currents, (n, n), see `joint_currents`."""
        robot = self._robot
        torques = self._C.T * (self._ratio * robot.torque_constants)  # joint torques per ampere of each motor
        return read_only(torques / robot.joint_constants[:, None])

    @cached_property
    def _to_motors(self) -> FloatArray:
        return read_only(np.linalg.inv(self._to_joints))

    def joint_currents(self, motor_a: FloatArray) -> FloatArray:
        """Return the currents of the joints, (..., n) [A], from those of the motors.

        The current of a joint is its torque divided by its torque constant at the joint, `Robot.joint_constants`.
        """
        return motor_a if self.direct else np.asarray(motor_a @ self._to_joints.T)

    def motor_currents(self, joint_a: FloatArray) -> FloatArray:
        """Return the currents of the motors, (..., n) [A], from those of the joints, see `joint_currents`."""
        return joint_a if self.direct else np.asarray(joint_a @ self._to_motors.T)

    def currents_for(self, tau: FloatArray) -> FloatArray:
        """Return the currents of the motors, (..., n) [A], that produce these torques at the joints, (..., n) [N m]."""
        return self.motor_currents(tau / self._robot.joint_constants)

    def within(self, joint_a: FloatArray, motor_caps: FloatArray) -> FloatArray:
        """Return currents of the joints, (n,) [A], reduced so that no motor exceeds its current limit.

        All joints that share motors are reduced by the same factor. If each motor were limited alone, the torque of a
        joint that several motors move could change its sign. The currents of joints without shared motors are returned
        unchanged; the caller limits them by the limits of the joints.

        Args:
            joint_a: wanted currents of the joints, (n,) [A], see `joint_currents`.
            motor_caps: current limits of the motors, (n,) [A].
        """
        if not self.coupled:
            return joint_a
        excess = np.maximum(1.0, np.abs(self.motor_currents(joint_a)) / motor_caps)
        found = joint_a.copy()
        for group in self._groups:
            found[group] /= excess[group].max()
        return found

    # -- availability of joint positions -----------------------------------------------------------------------

    @cached_property
    def _groups(self) -> list[NDArray[np.intp]]:
        """Groups of axes that are coupled with each other, as indices; axes without coupling are in no group."""
        linked = (self._C != 0.0) | (self._C.T != 0.0)
        for _ in range(len(linked)):
            linked = (linked.astype(np.int64) @ linked.astype(np.int64)) > 0
        groups = {tuple(np.flatnonzero(row).tolist()) for row in linked}
        return [np.array(group) for group in sorted(groups) if len(group) > 1]

    def joints_read(self, motors_seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return whether the position of each joint is known, (n,).

        This requires that the encoders of all motors with which the joint is coupled have been read; for a joint
        without coupling, only that of its own motor.

        Args:
            motors_seen: whether each motor's encoder has been read, (n,).
        """
        if not self.coupled:
            return motors_seen
        seen = motors_seen.copy()
        for group in self._groups:
            seen[group] = motors_seen[group].all()
        return seen
