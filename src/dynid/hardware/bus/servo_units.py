"""Conversion between raw register values (counts) and SI, with each servo's unit of current, sign and centre."""

import numpy as np

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.control_table import IntArray
from dynid.hardware.bus.state_kernels import CENTRE, CONSTANT, CURRENT, POSITION, VELOCITY, ZERO
from dynid.robot import FloatArray, Robot, read_only


class ServoUnits:
    """Conversion between raw register values (counts) and SI for the first servos of all n joints of a robot.

    Arrays are (..., n) in joint order.

    Values in SI are those of the motors, before gears and coupling (`dynid.model.transmission`). The sign is
    `direction` of robot.yaml: on an axis with -1, all registers have the opposite sign of the motor's values.

    Args:
        robot: servo models, directions and centre counts.

    Attributes:
        current_a: electrical current per count of the servos' current registers, positive, (n,) [A].
    """

    def __init__(self, robot: Robot) -> None:
        self.current_a = robot.current_units
        self._centres = read_only(robot.centre_counts)
        self._whole_centres = self._centres.astype(np.int64)
        self._current = read_only(robot.directions * self.current_a)
        self._velocity = read_only(robot.directions * table.VELOCITY_RAD_S_PER_COUNT)
        self._position = read_only(robot.directions * table.POSITION_RAD_PER_COUNT)

    def rows(self, robot: Robot) -> FloatArray:
        """Return the constants (6, n) that the compiled conversions in `state_kernels` need.

        The rows are centre counts; position, velocity and current per count; zero offsets and torque constants of the
        joints. Each motor must move one joint only.
        """
        found = np.empty((6, robot.size))
        found[CENTRE], found[POSITION], found[VELOCITY] = self._centres, self._position, self._velocity
        found[CURRENT], found[ZERO], found[CONSTANT] = self._current, robot.zero_offsets, robot.joint_constants
        return found

    def currents(self, counts: IntArray) -> FloatArray:
        """Convert signed register values (..., n) to motor currents (..., n) [A]."""
        return np.asarray(counts * self._current)

    def current_counts(self, current_a: FloatArray) -> IntArray:
        """Return the signed register values (..., n) nearest to motor currents (..., n) [A]."""
        return np.rint(current_a / self._current).astype(np.int64)

    def velocities(self, counts: IntArray) -> FloatArray:
        """Convert signed register values (..., n) to motor velocities (..., n) [rad/s]."""
        return np.asarray(counts * self._velocity)

    def velocity_counts(self, velocity: FloatArray) -> IntArray:
        """Return the signed register values (..., n) nearest to motor velocities (..., n) [rad/s]."""
        return np.rint(velocity / self._velocity).astype(np.int64)

    def positions(self, counts: IntArray) -> FloatArray:
        """Convert position register values (..., n) to motor angles (..., n) [rad], which are 0 at the centre count."""
        return np.asarray((counts - self._centres) * self._position)

    def position_counts(self, position: FloatArray) -> IntArray:
        """Return the position register values (..., n) nearest to motor angles (..., n) [rad]."""
        return np.asarray(np.rint(position / self._position).astype(np.int64) + self._whole_centres)

    def current_caps(self, limits_a: FloatArray) -> IntArray:
        """Return the largest values of current registers, (n,), that stay within motor current limits (n,) [A]."""
        return np.floor(limits_a / self.current_a + 1e-9).astype(np.int64)
