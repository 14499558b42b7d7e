"""Arm of DYNAMIXEL X servos in current mode: functions to open it, read it, write currents, and switch torque off.

Real and simulated arms differ in the port only. A real arm can do harm, so a real port needs explicit consent. Every
port counts as real unless it carries the mark of a simulated arm, see `dynid.hardware.bus.simulated_line`.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynid.errors import BusError, SafetyError
from dynid.hardware.arm.arming import Arming
from dynid.hardware.arm.servo_side_hold import ServoSideHold
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.clock import SYSTEM_CLOCK, Clock
from dynid.hardware.bus.control_table import IntArray
from dynid.hardware.bus.masks import any_set
from dynid.hardware.bus.port import WaitingPortHandler, open_port
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.bus.servo_units import ServoUnits
from dynid.hardware.bus.simulated_line import is_simulated_port
from dynid.hardware.bus.slow_state import TORQUE, WATCHDOG, SlowPoll
from dynid.hardware.bus.state_cycle import StateCycle
from dynid.hardware.bus.state_exchange import CycleCounters, StateReading
from dynid.hardware.bus.state_kernels import goal_counts, states_in_si
from dynid.hardware.safety.limit_kernels import all_finite
from dynid.hardware.startup.bring_up import StartOptions, reboot_faulty, start_up
from dynid.hardware.startup.position_mode import CONFIRM_ATTEMPTS, CONSEQUENCE, leave_position_mode
from dynid.hardware.startup.servo_snapshot import read_snapshot
from dynid.model.drivable import refuse_undrivable
from dynid.model.transmission import Transmission
from dynid.robot import FloatArray, Robot

NO_SERVO_REPLIES = "any servo (is the cable plugged in, and the power on?)"


class ArmSample(NamedTuple):
    """State of the arm from one read; arrays are (n,) in joint order.

    Attributes:
        stamp_ns: time at which the replies arrived [ns since the epoch]. It is measured on the monotonic clock, to
            which a constant is added: wall clock minus monotonic clock when the port was opened. So the intervals
            between samples stay correct if the wall clock is set.
        q: joint angles [rad]. In this and the next three arrays, a joint that was not read keeps its last valid value.
        dq: joint velocities [rad/s].
        current_a: present joint currents [A], which are joint torques divided by `Robot.joint_constants`. If each motor
            moves one joint, they are the motor currents, negated where the gear ratio is negative.
        tau_present: joint torques from the present currents and the robot's torque constants [N m].
        valid: whether this read contains the joint's values; a coupled joint needs all of its motors.
        answered: whether the joint's first servo answered.
        alert: whether the joint's first servo reports a hardware error.
        complete: whether this read contains the values of all joints.
        repeated: whether a complete read equals the previous one bit for bit although the arm moves.
    """

    stamp_ns: int
    q: FloatArray
    dq: FloatArray
    current_a: FloatArray
    tau_present: FloatArray
    valid: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    alert: NDArray[np.bool_]
    complete: bool
    repeated: bool = False


class DynamixelArm:
    """Robot arm of DYNAMIXEL servos on one bus, driven by motor currents.

    Args:
        robot: servo IDs and models, limits, centre counts and torque constants.
        port: path of the serial device.
        allow_real_port: whether a real arm is permitted; must be True for every port without the mark of a simulated
            arm.
        baudrate: baud rate [bit/s]; None for the baud rate in robot.yaml.
        watchdog_s: silence of the bus after which a servo stops by itself [s]; 0.02 to 0.1.
        reply_margin_s: wait time of a read for replies beyond their time on the wire [s].
        clock: clock of the arm and its control loop.
        start: changes that `open` may make in addition to the usual set-up: correct EEPROM settings, switch off torque
            that is on, reboot servos. If `start` is None, only EEPROM settings may be corrected, and only on a
            simulated line.
        opener: opens the port, see `ServoBus`.

    Attributes:
        robot: the robot, with the cycle time in use.
        bus: the servo bus, for requests outside the control cycle.
        start: additional actions that `open` may take.
        changed: lasting changes that `open` made in the servos, one line each.
        cycle: the exchange of states and goal currents with all servos.
        slow: newest slow values (torque enable, errors, settings, voltage, temperature) of all servos.
        simulated: whether the line is simulated; determined by `open`, False before that.
        watchdog_s: silence of the bus after which a servo stops by itself [s].
        watchdog_count: `watchdog_s` as a value of the bus watchdog register.
        servo_side_hold: fallback while the servos do not answer the driver: they hold their joints themselves, in
            position mode.

    Raises:
        SafetyError: the port is real, and `allow_real_port` is False.
        ConfigurationError: the robot cannot be driven, see `dynid.model.drivable`.
        ValueError: `watchdog_s` is out of range.
    """

    def __init__(
        self,
        robot: Robot,
        port: str,
        *,
        allow_real_port: bool = False,
        baudrate: int | None = None,
        watchdog_s: float = 0.1,
        reply_margin_s: float = 0.006,
        clock: Clock = SYSTEM_CLOCK,
        start: StartOptions | None = None,
        opener: Callable[[str, int], WaitingPortHandler] = open_port,
    ) -> None:
        self._allow_real_port, self.simulated = allow_real_port, False
        if not allow_real_port and opener is open_port and not is_simulated_port(port):
            raise _not_simulated(port)
        refuse_undrivable(robot)
        if not 0.02 <= watchdog_s <= 0.1:
            raise ValueError(f"watchdog_s is {watchdog_s}, expected 0.02 to 0.1 s")
        self.robot, self.watchdog_count = robot, table.watchdog_to_count(watchdog_s)
        rate = baudrate or robot.file.bus.baudrate
        self.bus = ServoBus(port, rate, robot.servo_ids, reply_margin_s=reply_margin_s, clock=clock, opener=opener)
        self.start = start or StartOptions(write_eeprom=None)
        self._transmission = Transmission(robot)
        self.watchdog_s = self.watchdog_count * table.WATCHDOG_S_PER_COUNT
        self.changed: list[str] = []
        # whether torque may be on: this object switched it on, and torque off was not confirmed since
        self._torque_is_ours = False
        self.servo_side_hold = ServoSideHold(self.bus, robot)
        self._all_ids = robot.all_servo_ids
        self._nobody = np.zeros(robot.size, dtype=np.bool_)  # empty mask, shared by all samples without an alert
        self.cycle = StateCycle(self.bus, paired=[one for one in robot.followers if one.obeys is None])
        self._units = ServoUnits(robot)
        self._caps = self._units.current_caps(robot.current_limits)
        self._unit_rows = self._units.rows(robot)
        self._slow = SlowPoll(self.bus, robot, self.cycle)
        self.slow = self._slow.state
        self._arming = Arming(self.bus, robot, self.watchdog_count, self.slow)

    @property
    def counters(self) -> CycleCounters:
        """Error counters of the reads of the servos."""
        return self.cycle.counters

    def open(self) -> None:
        """Open the port, check every servo, and set them up: current mode, goal current 0, torque off.

        This also works after the port was lost: torque that this object had switched on before is then accepted and
        switched off. The device behind the port may have changed meanwhile, so the consent to a real port is checked
        again after opening.

        Raises:
            SafetyError: the port is real, and `allow_real_port` is False; nothing was sent.
            BusError: the port cannot be used, or servos are missing, unexpected or not fit to be driven. One message
                lists all findings and their remedies.
        """
        self.bus.open()
        try:
            self.simulated = self.bus.simulated
            if not self.simulated and not self._allow_real_port:
                raise _not_simulated(self.bus.port)
            take_over = self.start.take_over or self._torque_is_ours
            options = replace(self.start.on(simulated=self.simulated), take_over=take_over)
            self.changed = start_up(self.bus, self.robot, options, simulated=self.simulated)
            self._torque_is_ours = False
            self.servo_side_hold.forget()
            self.cycle.probe()
        except BaseException:
            self.bus.close()
            raise

    def enable(self) -> None:
        """Set the bus watchdogs, and switch torque on with goal current 0.

        Every servo must confirm that its torque is on; otherwise torque is switched off again.

        Raises:
            BusError: a servo did not switch its torque on, did not accept its settings (see `Arming.arm`), or did not
                return to current mode after it held its joint in position mode. The message names these servos. It
                also names servos that did not confirm that torque is off again.
        """
        self.servo_side_hold.end()
        self._torque_is_ours = True
        self._slow.forget_torque()
        self._arming.arm()
        self.bus.sync_write(table.TORQUE_ENABLE, [1] * len(self._all_ids), self._all_ids)
        unconfirmed = self._unconfirmed(1)
        if unconfirmed:
            text = f"torque did not switch on at {', '.join(unconfirmed)}"
            try:
                self.disable()
            except BusError as error:
                raise BusError(f"{text}; {error}") from error
            raise BusError(text)

    def disable(self) -> None:
        """Set goal current 0, switch off the torque of all servos, and then their bus watchdogs.

        Every servo must confirm that its torque is off. There is one exception: while servos do not answer, they may
        have been made to hold their joints in position mode (`servo_side_hold`). If such a servo still does not answer,
        it is unknown whether its joint is at rest. Its torque then stays on with goal PWM 0, which brakes the joint
        without current from the supply.

        Raises:
            BusError: a servo did not confirm that its torque is off, which includes a servo that was left braking; the
                message names it. In this case the bus watchdogs are not switched off: they stop the servos when the bus
                falls silent. A servo that was left braking is not stopped, because the hold in position mode had
                switched off its watchdog.
        """
        ids, size = self._all_ids, len(self._all_ids)
        unconfirmed: list[str] = []
        brakes = self._brake_unseen()
        off_ids = [wired.servo_id for wired in self.robot.wired_servos if not brakes[wired.axis]]
        for _ in range(CONFIRM_ATTEMPTS):
            self.bus.sync_write(table.GOAL_CURRENT, [0] * size, ids)
            self.bus.sync_write(table.TORQUE_ENABLE, [0] * len(off_ids), off_ids)
            unconfirmed = self._unconfirmed(0)
            if not unconfirmed:
                self.bus.sync_write(table.BUS_WATCHDOG, [0] * size, ids)
                self._torque_is_ours = False
                return
        names = ", ".join(unconfirmed) if len(unconfirmed) < size else NO_SERVO_REPLIES
        consequence = f"their watchdog stops them after {self.watchdog_s:.2f} s of bus silence"
        if any(brakes):
            consequence = "those that hold their joints themselves now only brake them: support the arm"
        raise BusError(f"torque off was not confirmed by {names}; {consequence}: switch the arm's power off")

    def _brake_unseen(self) -> list[bool]:
        """Set goal PWM 0 at servos that hold their joints in position mode, so that they only brake.

        Returns:
            For each of the n joints, whether its first servo holds it in position mode and still does not answer.
        """
        if not self.servo_side_hold.held.any():
            return [False] * self.robot.size
        _, answers = self.bus.sync_read(table.TORQUE_ENABLE)
        self.servo_side_hold.brake()
        return [bool(held) and not answer for held, answer in zip(self.servo_side_hold.held, answers, strict=True)]

    def close(self) -> None:
        """Set zero current, switch torque off, set position mode, and close the port, if it is open.

        `dynid.hardware.startup.position_mode` explains why position mode is set.

        Raises:
            BusError: a servo did not confirm that its torque is off, or did not confirm position mode. The port is
                closed nevertheless, and every servo that answers is in position mode.
        """
        if not self.bus.is_open:
            return
        try:
            try:
                self.disable()
            finally:  # set the mode even if a servo did not confirm torque off
                unconfirmed = leave_position_mode(self.bus, self._all_ids)
        finally:
            self.bus.close()
        if unconfirmed:
            names = {wired.servo_id: wired.joint for wired in self.robot.wired_servos}
            joints = ", ".join(names[servo_id] for servo_id in unconfirmed)
            raise BusError(f"torque is off, but {joints} did not confirm position mode: {CONSEQUENCE}")

    def __enter__(self) -> "DynamixelArm":
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, meanwhile: Callable[[], None] | None = None) -> ArmSample:
        """Read the present state of all joints; `ArmSample.valid` is False for joints whose servos did not answer.

        Args:
            meanwhile: called once while the bytes are on the wire.

        Raises:
            BusError: the port is lost.
        """
        reading = self.cycle.read(meanwhile)
        q, dq, current_a, tau_present = self._in_si(reading)
        answered = reading.valid.copy()
        alert = self._nobody
        if any_set(reading.errors):
            alert = (reading.errors & table.ALERT_BIT).astype(np.bool_)
        stamp_ns, complete, repeated = reading.stamp_ns, reading.complete, reading.repeated
        valid = self._transmission.joints_read(answered)
        return ArmSample(stamp_ns, q, dq, current_a, tau_present, valid, answered, alert, complete, repeated)

    def _in_si(self, reading: StateReading) -> Iterable[FloatArray]:
        """Convert raw register values to joint angles [rad], velocities [rad/s], currents [A] and torques [N m].

        Each of the four returned arrays is (n,).
        """
        if self._transmission.direct:
            counts = reading.position_count, reading.velocity_count, reading.current_count
            rows: FloatArray = states_in_si(*counts, self._unit_rows)
            return rows
        joints, units = self._transmission, self._units
        current_a = joints.joint_currents(units.currents(reading.current_count))
        return (
            joints.joint_motion(units.positions(reading.position_count)) + self.robot.zero_offsets,
            joints.joint_motion(units.velocities(reading.velocity_count)),
            current_a,
            current_a * self.robot.joint_constants,
        )

    def write_currents(self, current_a: FloatArray) -> FloatArray:
        """Write the servos' goal currents, rounded to counts and clipped to the robot's current limits.

        Args:
            current_a: wanted joint currents (torque divided by `Robot.joint_constants`), (n,) [A].

        Returns:
            The joint currents that were written, (n,) [A].

        Raises:
            SafetyError: the values are not n finite numbers.
            BusError: the port is lost.
        """
        wanted = np.asarray(current_a, dtype=np.float64)
        if wanted.shape != (self.robot.size,) or not all_finite(wanted):
            raise SafetyError(f"goal currents must be {self.robot.size} finite numbers, got {wanted.tolist()}")
        if self._transmission.direct:
            goals: tuple[IntArray, FloatArray] = goal_counts(
                wanted, self.servo_side_hold.held, self._caps, self._unit_rows
            )
            self.cycle.write(goals[0])
            return goals[1]
        wanted = self._transmission.motor_currents(self._transmission.within(wanted, self.robot.current_limits))
        wanted = np.where(self.servo_side_hold.held, 0.0, wanted)
        counts = np.clip(self._units.current_counts(wanted), -self._caps, self._caps)
        self.cycle.write(counts)
        return self._transmission.joint_currents(self._units.currents(counts))

    def motor_currents(self, current_a: FloatArray) -> FloatArray:
        """Convert joint currents (torque divided by `Robot.joint_constants`), (n,) [A], to motor currents (n,) [A]."""
        return self._transmission.motor_currents(current_a)

    def by_joint(self, values: FloatArray) -> FloatArray:
        """Return for each joint the largest value among its servos, (n,), from values of all servos, (m,)."""
        size = self.robot.size
        if len(values) == size:
            return values
        found = values[:size].copy()
        for wired, value in zip(self.robot.followers, values[size:].tolist(), strict=True):
            found[wired.axis] = np.fmax(found[wired.axis], value)  # fmax ignores NaN, which marks an unknown value
        return found

    def begin_slow_polls(self) -> None:
        """Start or resume the polling of slow values (temperature, errors, settings).

        The age of every value counts from this call, even if the value was read earlier or not yet.
        """
        self._slow.begin()

    def slow_poll(self) -> bool:
        """Read one block of slow values (temperature, errors, settings) from one servo.

        A round takes 3 m + 1 calls: three blocks of each of the m servos, and one EEPROM block of one servo. If there
        are joints with several servos, calls of the round alternate with additional calls. Each of these reads position
        or torque enable of a servo that is not the first of its joint. If a servo does not answer, its old values stay.

        Returns:
            Whether a servo's temperature was read.

        Raises:
            BusError: the port is lost.
        """
        answered, temperature = self._slow.poll_with_cycle(self.cycle) if self.cycle.ticking else self._slow.poll_next()
        self.counters.timeouts += not answered
        return temperature

    def poll_torque(self, axes: NDArray[np.bool_]) -> None:
        """Read torque enable, hardware error and bus watchdog of some servos now, in addition to the regular polling.

        Args:
            axes: mask of the servos to read, (m,), in the order of `Robot.wired_servos`; or (n,), for the first servo
                of each joint.

        Raises:
            BusError: the port is lost.
        """
        for axis in np.flatnonzero(axes).tolist():
            self._slow.poll(axis, TORQUE)
            self._slow.poll(axis, WATCHDOG)

    def tripped_watchdogs(self) -> NDArray[np.bool_]:
        """Read all bus watchdogs; return a mask (m,) of the tripped ones, False for servos that do not answer."""
        for _ in range(CONFIRM_ATTEMPTS):
            values, valid = self.bus.sync_read(table.BUS_WATCHDOG, self._all_ids)
            if all(valid):
                break
        np.copyto(self.slow.watchdog, values, where=np.array(valid))
        return np.asarray(valid) & np.equal(values, table.WATCHDOG_TRIPPED)

    def reboot_servos(self) -> list[str]:
        """Reboot the servos that report a hardware error, then check and set up all servos again; torque must be off.

        Returns:
            One line for each servo that was rebooted.

        Raises:
            BusError: a servo does not answer after its reboot, still reports an error, or is not fit to be driven.
        """
        with self.bus.patiently():
            snapshots = [read_snapshot(self.bus, servo_id) for servo_id in self.robot.all_servo_ids]
            lines = reboot_faulty(self.bus, self.robot, snapshots)
        start_up(self.bus, self.robot, self.start.on(simulated=self.simulated), simulated=self.simulated)
        self._slow.forget_torque()
        self._slow.begin()
        return lines

    def _unconfirmed(self, torque_enable: int) -> list[str]:
        """Return labels (ID, joint) of the servos whose torque enable register differs from `torque_enable`.

        Servos that do not answer are included. The registers are read until all of them are equal to `torque_enable`,
        at most `CONFIRM_ATTEMPTS` times; the last read counts.
        """
        unconfirmed: list[str] = []
        for _ in range(CONFIRM_ATTEMPTS):
            values, valid = self.bus.sync_read(table.TORQUE_ENABLE, self._all_ids)
            unconfirmed = [
                wired.label
                for wired, value, read in zip(self.robot.wired_servos, values, valid, strict=True)
                if not read or value != torque_enable
            ]
            if not unconfirmed:
                break
        return unconfirmed


def _not_simulated(port: str) -> SafetyError:
    return SafetyError(
        f"port {port} is not a simulated servo bus; an arm behind a real port will move: clear its workspace, keep the "
        "emergency stop within reach, and allow the real port explicitly (a relay is a real port, too: only one that "
        "'dynid simulated-arm' serves itself is simulated)"
    )
