"""Joints whose servos do not answer are held by the servos themselves: what is written to them may still arrive.

Nothing confirms it, so everything is said twice, one thing in a control cycle: the other motors must not be left alone
meanwhile. Position mode knows no goal current, and in current mode there is then none: a servo that boots in between,
and so misses the mode, does not run away when torque comes on.
"""

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.control_table import Register
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.bus.servo_units import ServoUnits
from dynid.hardware.safety.overload import load_motors
from dynid.model.transmission import Transmission
from dynid.robot import FloatArray, Robot
from dynid.robot.servo_fields import WiredServo

TOLD = 2  # times
BRAKED_S = 0.1  # from nothing to full strength: a joint that turns fast is braked by its back-EMF alone
Instruction = tuple[Register, list[int], list[int]]  # raw values for servos of these ids


class UnseenHold:
    """The servos of a bus that hold their joints themselves.

    Args:
        bus: the bus.
        robot: current limits; its `motors.yaml` says which voltage drives them, where there is one.

    Attributes:
        held: which servos, (n,).
    """

    def __init__(self, bus: ServoBus, robot: Robot) -> None:
        self._bus, self._units, self._zeros = bus, ServoUnits(robot), robot.zero_offsets
        self._wired = robot.wired_servos
        self.held, self._transmission = np.zeros(robot.size, dtype=np.bool_), Transmission(robot)
        motors = load_motors(robot)
        share = np.ones(robot.size)
        if motors is not None:
            stalled = [one.winding.supply_v / one.winding.resistance_ohm for one in motors]
            share = np.minimum(1.0, robot.current_limits / stalled)
        self._most = np.floor(table.FULL_PWM * share)
        self._strength = self._told = 0.0
        self._to_tell: deque[list[Instruction]] = deque()  # by control cycle

    def begin(self, axes: NDArray[np.bool_], q: FloatArray) -> None:
        """Have servos, a mask (n,), hold their joints, in the control cycles to come; see `step`.

        Without a watchdog, so that they go on when this process ends.

        Args:
            axes: whose.
            q: where the joints are, as far as is known, (n,) [rad]: for servos that do not take their present position
                by themselves when torque comes on.
        """
        self.held |= axes
        chosen = [wired for wired in self._wired if axes[wired.axis]]
        ids = [wired.servo_id for wired in chosen]
        of_axes = self._units.position_counts(self._transmission.motor_motion(q - self._zeros)).tolist()
        goals = [one.centre_count + one.direction * (of_axes[one.axis] - self._centre(one)) for one in chosen]
        counts = np.clip(goals, 0, table.COUNTS_PER_TURN - 1).tolist()

        def told(*values: tuple[Register, int | list[int]]) -> list[list[Instruction]]:
            every = [(one, value if isinstance(value, list) else [value] * len(ids), ids) for one, value in values]
            return [every] * TOLD

        self._strength = self._told = 0.0
        self._to_tell += told(
            (table.TORQUE_ENABLE, 0), (table.BUS_WATCHDOG, 0), (table.OPERATING_MODE, table.POSITION_MODE)
        )
        self._to_tell += told((table.GOAL_POSITION, counts), (table.GOAL_PWM, 0))
        self._to_tell += told((table.GOAL_CURRENT, 0), (table.TORQUE_ENABLE, 1))

    def step(self, strength: float, step_s: float) -> None:
        """Once in a control cycle: write what is due.

        Args:
            strength: how much of the voltage for their current limits the servos may use, 1 to 0; with none, a motor
                only brakes.
            step_s: time since the cycle before [s].

        Raises:
            BusError: the port is lost.
        """
        if self._to_tell:
            for register, values, ids in self._to_tell.popleft():
                self._bus.sync_write(register, values, ids)
            return
        self._strength = min(strength, self._strength + step_s / BRAKED_S)
        if self._strength != self._told:
            self._tell_strength(self._strength)

    def brake(self) -> None:
        """From now on, servos that hold their joints only brake them; those that did not begin yet do nothing.

        Raises:
            BusError: the port is lost.
        """
        self._to_tell.clear()
        for _ in range(TOLD):
            self._tell_strength(0.0)

    def _tell_strength(self, strength: float) -> None:
        pwm = np.rint(strength * self._most).astype(np.int64).tolist()
        held = [wired for wired in self._wired if self.held[wired.axis]]
        self._bus.sync_write(table.GOAL_PWM, [pwm[one.axis] for one in held], [one.servo_id for one in held])
        self._told = strength

    def end(self) -> None:
        """Torque off, and the servos as they were before, in current mode.

        Raises:
            BusError: one did not confirm it.
        """
        self._to_tell.clear()
        for servo_id in self._ids():
            self._bus.write(servo_id, table.TORQUE_ENABLE, 0)
            self._bus.write(servo_id, table.OPERATING_MODE, table.CURRENT_MODE)
            self._bus.write(servo_id, table.GOAL_PWM, table.FULL_PWM)
        self.forget()

    def forget(self) -> None:
        """All servos were set up anew."""
        self._to_tell.clear()
        self.held[:] = False

    def _ids(self) -> Iterator[int]:
        return (wired.servo_id for wired in self._wired if self.held[wired.axis])

    def _centre(self, servo: WiredServo) -> int:
        """Return the centre count of the first servo of a servo's joint."""
        return self._wired[servo.axis].centre_count
