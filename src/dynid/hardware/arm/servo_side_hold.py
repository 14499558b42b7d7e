"""Hold of joints by their own servos, in position mode, while these servos do not answer the driver.

Instructions may still reach a servo whose answers are lost. They are sync writes, which servos do not confirm, so each
is sent twice. Only a few instructions are sent per control cycle, because the other motors need their currents
meanwhile. The goal current is set to 0 too, although position mode does not use it. A servo that is booting may miss
the change of mode and stay in current mode. With a nonzero goal current it would run away when torque comes on.
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
from dynid.hardware.servos.models import DYNAMIXELS
from dynid.model.transmission import Transmission
from dynid.robot import FloatArray, Robot
from dynid.robot.servo_fields import WiredServo

TIMES_SENT = 2  # number of times that each instruction is sent
BORDER_COUNTS = 256  # distance from the end of an encoder's revolution within which a servo only brakes its joint
BRAKING_S = 0.1  # time in which a servo's own hold reaches full strength; until then back EMF brakes a fast joint
Instruction = tuple[Register, list[int], list[int]]  # register, raw values, IDs


class ServoSideHold:
    """Hold of joints by their own servos in position mode, while these servos do not answer the driver.

    In position mode a servo controls its position itself. Its goal PWM bounds the motor's voltage. This PWM is
    chosen so that a motor at standstill draws at most the joint's current limit.

    Args:
        bus: the servo bus.
        robot: limits of current and torque. The goal PWM follows from the winding resistance in `motors.yaml`, or else
            from the model's published stall current. A servo whose model has neither only brakes its joint.

    Attributes:
        held: mask of the joints that their servos hold in position mode, (n,).
    """

    def __init__(self, bus: ServoBus, robot: Robot) -> None:
        self._bus, self._units, self._zeros = bus, ServoUnits(robot), robot.zero_offsets
        self._wired = robot.wired_servos
        self.held, self._transmission = np.zeros(robot.size, dtype=np.bool_), Transmission(robot)
        limits = np.minimum(robot.current_limits, robot.torque_limits / robot.joint_constants)
        share = np.minimum(1.0, limits / _stall_currents(robot))
        self._largest_pwm = np.floor(table.FULL_PWM * share)
        self._share = np.ones(robot.size)  # 0 for joints that their servos only brake, (n,)
        self._strength = self._sent_strength = 0.0
        self._instructions: deque[list[Instruction]] = deque()  # one list per control cycle

    def begin(self, axes: NDArray[np.bool_], q: FloatArray) -> None:
        """Prepare the instructions that make servos hold their joints in position mode; `step` sends them.

        The watchdogs of these servos are switched off, so that they continue to hold when this process ends.

        Args:
            axes: mask of the joints to hold, (n,).
            q: estimated joint angles, (n,) [rad]. They are sent as goal positions. Some servos replace these by their
                own present positions when torque comes on. A joint near the end of its encoder's revolution is only
                braked: if it crossed the end unseen, its servo would drive it nearly a whole turn to the goal.
        """
        self.held |= axes
        self._share[axes] = 1.0
        chosen = [wired for wired in self._wired if axes[wired.axis]]
        ids = [wired.servo_id for wired in chosen]
        axis_counts = self._units.position_counts(self._transmission.motor_motion(q - self._zeros)).tolist()
        goals = [one.centre_count + one.direction * (axis_counts[one.axis] - self._centre(one)) for one in chosen]
        counts = np.mod(goals, table.COUNTS_PER_TURN)  # position mode knows no whole turns
        near = np.minimum(counts, table.COUNTS_PER_TURN - counts) < BORDER_COUNTS
        for one, only_brakes in zip(chosen, near.tolist(), strict=True):
            if only_brakes:  # beyond the border, the way to the goal would be nearly a whole turn
                self._share[one.axis] = 0.0

        def repeated(*values: tuple[Register, int | list[int]]) -> list[list[Instruction]]:
            instructions = [
                (one, value if isinstance(value, list) else [value] * len(ids), ids) for one, value in values
            ]
            return [instructions] * TIMES_SENT

        self._strength = self._sent_strength = 0.0
        self._instructions += repeated(
            (table.TORQUE_ENABLE, 0), (table.BUS_WATCHDOG, 0), (table.OPERATING_MODE, table.POSITION_MODE)
        )
        self._instructions += repeated((table.GOAL_POSITION, counts.tolist()), (table.GOAL_PWM, 0))
        self._instructions += repeated((table.GOAL_CURRENT, 0), (table.TORQUE_ENABLE, 1))

    def step(self, strength: float, step_s: float) -> None:
        """Send the next instructions of the hold to the servos; must be called once per control cycle.

        Args:
            strength: factor on the servos' goal PWM, 0 to 1. At 1 a motor can reach its current limit; at 0 it only
                brakes.
            step_s: time since the previous cycle [s].

        Raises:
            BusError: the port is lost.
        """
        if self._instructions:
            for register, values, ids in self._instructions.popleft():
                self._bus.sync_write(register, values, ids)
            return
        self._strength = min(strength, self._strength + step_s / BRAKING_S)
        if self._strength != self._sent_strength:
            self._send_strength(self._strength)

    def brake(self) -> None:
        """Set goal PWM 0 at servos that hold their joints in position mode, so that they only brake.

        Pending instructions are dropped.

        Raises:
            BusError: the port is lost.
        """
        self._instructions.clear()
        for _ in range(TIMES_SENT):
            self._send_strength(0.0)

    def _send_strength(self, strength: float) -> None:
        pwm = np.rint(strength * self._share * self._largest_pwm).astype(np.int64).tolist()
        held = [wired for wired in self._wired if self.held[wired.axis]]
        self._bus.sync_write(table.GOAL_PWM, [pwm[one.axis] for one in held], [one.servo_id for one in held])
        self._sent_strength = strength

    def end(self) -> None:
        """Switch torque off and restore current mode at the servos that held their joints in position mode.

        Raises:
            BusError: a servo did not confirm a write.
        """
        self._instructions.clear()
        for servo_id in self._ids():
            self._bus.write(servo_id, table.TORQUE_ENABLE, 0)
            self._bus.write(servo_id, table.OPERATING_MODE, table.CURRENT_MODE)
            self._bus.write(servo_id, table.GOAL_PWM, table.FULL_PWM)
        self.forget()

    def forget(self) -> None:
        """Clear the record of servos that hold their joints in position mode, because all servos were set up again."""
        self._instructions.clear()
        self.held[:] = False

    def _ids(self) -> Iterator[int]:
        return (wired.servo_id for wired in self._wired if self.held[wired.axis])

    def _centre(self, servo: WiredServo) -> int:
        """Return the centre count (register at angle zero) of the first servo on the joint that `servo` moves."""
        return self._wired[servo.axis].centre_count


def _stall_currents(robot: Robot) -> FloatArray:
    """Return the current of each joint's first servo at standstill with full PWM (the stall current), (n,) [A].

    If the robot has a motors.yaml, the stall current is the supply voltage in this file divided by the winding
    resistance. Otherwise it is the largest of the stall currents that are published for the servo's model at several
    supply voltages, or infinity if none is published.
    """
    motors = load_motors(robot)
    if motors is not None:
        return np.array([one.winding.supply_v / one.winding.resistance_ohm for one in motors])
    known = [DYNAMIXELS.get(servo.model_number) for servo in robot.servo_models]
    points = [() if model is None else model.stall for model in known]
    return np.array([max((point.current_a for point in one), default=np.inf) for one in points])
