"""What the shafts of simulated servos have to do with the motors of the joints: signs, centres, and shared joints.

A shaft counts as its servo does with drive mode 0. Which way it is mounted follows from what robot.yaml wants: a servo
whose registers then are set otherwise reads and pulls the other way, as a real one.
"""

import numpy as np

from dynid.hardware.bus.control_table import POSITION_RAD_PER_COUNT, VELOCITY_RAD_S_PER_COUNT, IntArray
from dynid.robot import FloatArray, Robot, read_only


class Shafts:
    """Converts between the motors of n joints, SI, and the counts of m servos, in the order of `Robot.wired_servos`.

    The motor of a joint with several servos carries the mean of their currents: its torque constant is that of all.

    Attributes:
        current_a: size of a count of current, (m,) [A].
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
        """Return the counts of current, velocity and position of all shafts.

        Args:
            current_a, dq, q: what the motors' sensors read, (n,) [A, rad/s, rad].
        """
        shaft_a = self._sign * current_a[self._axes]
        if self._shared:  # each carries its own current, and errs as the joint's sensor does
            error = current_a - self.motor_currents(self._commanded_a)
            shaft_a = self._commanded_a + self._sign * error[self._axes]
        velocity = self._sign * dq[self._axes] / VELOCITY_RAD_S_PER_COUNT
        position = self._centres + np.rint(self._sign * q[self._axes] / POSITION_RAD_PER_COUNT)
        return _whole(shaft_a / self.current_a), _whole(velocity), _whole(position)

    def velocities(self, dq: FloatArray) -> FloatArray:
        """Return the velocities of the shafts, (m,) [rad/s], at velocities dq of the motors, (n,) [rad/s]."""
        return np.asarray(self._sign * dq[self._axes])

    def carried(self, counts: IntArray) -> FloatArray:
        """Return the currents of counts, (m,) [A] as the shafts count."""
        return np.asarray(counts * self.current_a)

    def motor_currents(self, shaft_a: FloatArray) -> FloatArray:
        """Return the motors' currents, (n,) [A], of currents in the servos, (m,) [A] as the shafts count."""
        self._commanded_a = shaft_a
        if not self._shared:
            return np.asarray(self._sign * shaft_a)
        shared = np.bincount(self._axes, weights=self._share * shaft_a, minlength=self._size)
        return np.asarray(shared, dtype=np.float64)


def _whole(values: FloatArray) -> list[int]:
    return [int(value) for value in np.rint(values).tolist()]
