"""Conversion between servo registers and joint motors in the simulation, for one or more servos per joint.

The positive direction of a shaft is that of its servo's registers with drive mode 0. The sign between shaft and joint
depends on how the servo is mounted. It is computed from the directions and drive modes in robot.yaml, and does not
depend on the present drive mode of the servo. So if that mode differs from robot.yaml, the joint turns opposite to its
commands, as on a real arm.
"""

import numpy as np

from dynid.hardware.bus.control_table import POSITION_RAD_PER_COUNT, VELOCITY_RAD_S_PER_COUNT, IntArray
from dynid.robot import FloatArray, Robot, read_only


class Shafts:
    """Converter between the motors of n joints, in SI, and the registers of m servos, in counts.

    The servos are in the order of `Robot.wired_servos`. A joint with several servos counts as one motor. Its current
    is the mean of the servos' currents, because its torque constant is that of all its servos together.

    Attributes:
        current_a: current per count, (m,) [A].
    """

    def __init__(self, robot: Robot) -> None:
        wired, self._size = robot.wired_servos, robot.size
        self._axes = np.array([one.axis for one in wired], dtype=np.intp)
        self._shared = len(wired) > robot.size
        reversed_ = np.array([-1.0 if one.reverse_mode else 1.0 for one in wired])
        self._sign = read_only(reversed_ * [one.direction for one in wired] * robot.directions[self._axes])
        self._centres = read_only(reversed_ * [one.centre_count for one in wired])
        self.current_a = read_only(robot.current_units[self._axes])
        self._share = read_only(self._sign / np.bincount(self._axes)[self._axes])
        self._commanded_a = np.zeros(len(wired))

    def counts(self, current_a: FloatArray, dq: FloatArray, q: FloatArray) -> tuple[list[int], list[int], list[int]]:
        """Return current, velocity and position of all m servo shafts, in register counts.

        Args:
            current_a: current readings of the motors, (n,) [A].
            dq: velocities of the motors, (n,) [rad/s].
            q: positions of the motors, (n,) [rad].
        """
        shaft_a = self._sign * current_a[self._axes]
        if self._shared:  # each servo carries its own current, with the error of the joint's sensor
            error = current_a - self.motor_currents(self._commanded_a)
            shaft_a = self._commanded_a + self._sign * error[self._axes]
        velocity = self._sign * dq[self._axes] / VELOCITY_RAD_S_PER_COUNT
        position = self._centres + np.rint(self._sign * q[self._axes] / POSITION_RAD_PER_COUNT)
        return _whole(shaft_a / self.current_a), _whole(velocity), _whole(position)

    def velocities(self, dq: FloatArray) -> FloatArray:
        """Return the velocities of the shafts, (m,) [rad/s], from those of the motors dq, (n,) [rad/s]."""
        return np.asarray(self._sign * dq[self._axes])

    def carried(self, counts: IntArray) -> FloatArray:
        """Return the currents of the m servos, (m,) [A], from register counts (m,).

        A current is positive if its torque acts in the positive direction of the shaft, whatever the drive mode.
        """
        return np.asarray(counts * self.current_a)

    def motor_currents(self, shaft_a: FloatArray) -> FloatArray:
        """Return the motors' currents, (n,) [A], from those of the servos, (m,) [A] in the sign of the shafts.

        The servos' currents are stored for the next call of `counts`.
        """
        self._commanded_a = shaft_a
        if not self._shared:
            return np.asarray(self._sign * shaft_a)
        shared = np.bincount(self._axes, weights=self._share * shaft_a, minlength=self._size)
        return np.asarray(shared, dtype=np.float64)


def _whole(values: FloatArray) -> list[int]:
    return [int(value) for value in np.rint(values).tolist()]
