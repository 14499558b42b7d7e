"""An arm of DYNAMIXEL X servos in current mode: open, read, write currents, and leave it without torque.

The real and the simulated arm differ in the port only. A real port moves metal, so it must be asked for; every port
is real that does not prove the opposite when it is opened, see `dynid.hardware.bus.simulated_line`.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynid.errors import BusError, SafetyError
from dynid.hardware.arm.arming import Arming
from dynid.hardware.arm.unseen_hold import UnseenHold
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.clock import SYSTEM_CLOCK, Clock
from dynid.hardware.bus.control_table import IntArray
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
from dynid.hardware.startup.servo_snapshot import read_snapshot
from dynid.model.drivable import refuse_undrivable
from dynid.model.transmission import Transmission
from dynid.robot import FloatArray, Robot

CONFIRM_ATTEMPTS = 3
NOBODY_ANSWERS = "any servo (is the cable plugged in, and the power on?)"


class ArmSample(NamedTuple):
    """The arm's state from one read; each (n,), joint order.

    Attributes:
        stamp_ns: when the replies had arrived [ns since the epoch]: the monotonic clock and its distance from the
            wall clock when the port was opened, so that setting the clock does not bend the motion.
        q: joint angles [rad]; where `valid` is False the last valid ones, as for all values.
        dq: joint velocities [rad/s].
        current_a: present currents [A], as counted at the joints (`dynid.model.transmission`).
        tau_present: torque by the present current and the robot's torque constants [N m].
        valid: whether this read brought the joint's values, for which a coupled joint needs all of its motors.
        answered: whether the servo answered.
        alert: whether the servo reports a hardware error.
        complete: whether all are valid.
        repeated: whether a complete read brought the one before it again, to the bit, though the arm moves.
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
    """The servos of one robot as one arm.

    Args:
        robot: ids, models, limits, centre count, torque constants.
        port: path of the serial device.
        allow_real_port: must be True for any port that does not prove to be a simulated line.
        baudrate: [bit/s]; None is the robot's.
        watchdog_s: after which silence of the bus a servo stops by itself [s]; 0.02 to 0.1.
        reply_margin_s: how long a read waits for replies beyond their time on the wire.
        start: what `open` may do that it does not do unasked; None is nothing on a real line, and writing the EEPROM
            on a simulated one.
        clock: by which the arm and its control loop live.
        opener: opens the port, see `ServoBus`.

    Attributes:
        bus: the line, for work beside the cycle.
        changed: what `open` changed in the servos and stays, one line each.
        cycle: the exchange of states and currents, which knows how it reads.
        slow: what was read of slow values so far.
        simulated: whether the line is; known while it is open, and afterwards as it was last.
        watchdog_s: after which silence of the bus a servo stops by itself [s].
        unseen: servos that hold their joints themselves.

    Raises:
        SafetyError: a real port without `allow_real_port`.
        ConfigurationError: the robot cannot be driven, see `dynid.model.drivable`.
        ValueError: `watchdog_s` out of range.
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
        self._torque_is_ours = False  # switched on by us, and not confirmed to be off
        self.unseen = UnseenHold(self.bus, robot)
        self._all_ids = robot.all_servo_ids
        self.cycle = StateCycle(self.bus, paired=[one for one in robot.followers if one.obeys is None])
        self._units = ServoUnits(robot)
        self._caps = self._units.current_caps(robot.current_limits)
        self._unit_rows = self._units.rows(robot)
        self._slow = SlowPoll(self.bus, robot, self.cycle)
        self.slow = self._slow.state
        self._arming = Arming(self.bus, robot, self.watchdog_count, self.slow)

    @property
    def counters(self) -> CycleCounters:
        """Faults of the reads so far."""
        return self.cycle.counters

    def open(self) -> None:
        """Open the port, check every servo, and set them up: current mode, goal current 0, torque off.

        Also after the port was lost; torque that this arm had switched on itself is taken over then. What is behind the
        port may have changed meanwhile, so consent is asked of the line that was opened.

        Raises:
            SafetyError: a real line without `allow_real_port`; nothing was sent.
            BusError: the port cannot be used, or the servos are not the robot's or not fit; one message with all
                findings and what to do.
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
            self.unseen.forget()
            self.cycle.probe()
        except BaseException:
            self.bus.close()
            raise

    def enable(self) -> None:
        """Goal current 0, watchdog armed and read back, torque on; confirmed by every servo, or torque is off again.

        Raises:
            BusError: a servo did not switch its torque on, by name; says so if torque off was not confirmed either. Or
                one that held its joint itself did not confirm current mode, or one is not armed (see `Arming.arm`).
        """
        self.unseen.end()
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
        """Goal current 0, torque off, watchdog off; confirmed by every servo.

        Servos that hold their joints unseen, and still do not answer, are left braking: nobody knows whether the arm
        rests.

        Raises:
            BusError: a servo did not confirm, by name; the armed watchdog stops it when the bus falls silent.
        """
        ids, size = self._all_ids, len(self._all_ids)
        unconfirmed: list[str] = []
        brakes = self._brake_unseen()
        off = [wired.servo_id for wired in self.robot.wired_servos if not brakes[wired.axis]]
        for _ in range(CONFIRM_ATTEMPTS):
            self.bus.sync_write(table.GOAL_CURRENT, [0] * size, ids)
            self.bus.sync_write(table.TORQUE_ENABLE, [0] * len(off), off)
            unconfirmed = self._unconfirmed(0)
            if not unconfirmed:
                self.bus.sync_write(table.BUS_WATCHDOG, [0] * size, ids)
                self._torque_is_ours = False
                return
        who = ", ".join(unconfirmed) if len(unconfirmed) < size else NOBODY_ANSWERS
        rest = f"their watchdog stops them after {self.watchdog_s:.2f} s of bus silence"
        if any(brakes):
            rest = "those that hold their joints themselves now only brake them: support the arm"
        raise BusError(f"torque off was not confirmed by {who}; {rest}: switch the arm's power off")

    def _brake_unseen(self) -> list[bool]:
        """Have servos that hold their joints unseen brake without current; which do, (n,): not those that answer."""
        if not self.unseen.held.any():
            return [False] * self.robot.size
        _, answers = self.bus.sync_read(table.TORQUE_ENABLE)
        self.unseen.brake()
        return [bool(held) and not answer for held, answer in zip(self.unseen.held, answers, strict=True)]

    def close(self) -> None:
        """Zero current, torque off, position mode, and close the port; more than once does no harm.

        A servo that is left in current mode has its current limit as goal after power-on, and obeys no position limits:
        whoever switches its torque on next would have it run away. In position mode it stays where it is.

        Raises:
            BusError: torque off or the mode was not confirmed; the port is closed all the same, and every servo that
                answers is in position mode.
        """
        if not self.bus.is_open:
            return
        try:
            try:
                self.disable()
            finally:  # one servo that does not answer is no reason to leave the others in current mode
                left = self._leave_position_mode()
        finally:
            self.bus.close()
        if left:
            raise BusError(
                f"torque is off, but {', '.join(left)} did not confirm position mode: in current mode they would run "
                "with full current at the next torque on; switch their power off, and start and end the driver once"
            )

    def _leave_position_mode(self) -> list[str]:
        """Have all servos in position mode with goal current 0; the joints whose servo did not confirm."""
        names = {wired.servo_id: wired.joint for wired in self.robot.wired_servos}
        left = list(names)
        for _ in range(CONFIRM_ATTEMPTS):
            left = [servo_id for servo_id in left if not self._took_position_mode(servo_id)]
        return [names[servo_id] for servo_id in left]

    def _took_position_mode(self, servo_id: int) -> bool:
        """Whether a servo confirmed position mode with goal current 0."""
        try:
            self.bus.write(servo_id, table.OPERATING_MODE, table.POSITION_MODE)
            self.bus.write(servo_id, table.GOAL_CURRENT, 0)  # which the mode's change has set to the limit
        except BusError:
            return False
        return True

    def __enter__(self) -> "DynamixelArm":
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, meanwhile: Callable[[], None] | None = None) -> ArmSample:
        """The present state of all joints; `meanwhile` is called while the bytes are on the wire.

        Raises:
            BusError: the port is lost. `ArmSample.valid` marks servos that did not answer.
        """
        reading, joints = self.cycle.read(meanwhile), self._transmission
        answered = reading.valid.copy()
        q, dq, current_a, tau_present = self._in_si(reading)
        return ArmSample(
            stamp_ns=reading.stamp_ns,
            q=q,
            dq=dq,
            current_a=current_a,
            tau_present=tau_present,
            valid=joints.joints_seen(answered),
            answered=answered,
            alert=(reading.errors & table.ALERT_BIT).astype(np.bool_),
            complete=reading.complete,
            repeated=reading.repeated,
        )

    def _in_si(self, reading: StateReading) -> Iterable[FloatArray]:
        """Return q, dq, currents and torques of the joints, (n,) each, of the servos' counts."""
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
        """Set the goal currents, (n,) [A] at the joints; rounded to counts and cut to the robot's current limits.

        Returns:
            The currents that were written, (n,) [A] at the joints.

        Raises:
            SafetyError: not n finite numbers.
            BusError: the port is lost.
        """
        wanted = np.asarray(current_a, dtype=np.float64)
        if wanted.shape != (self.robot.size,) or not all_finite(wanted):
            raise SafetyError(f"goal currents must be {self.robot.size} finite numbers, got {wanted.tolist()}")
        if self._transmission.direct:
            goals: tuple[IntArray, FloatArray] = goal_counts(wanted, self.unseen.held, self._caps, self._unit_rows)
            self.cycle.write(goals[0])
            return goals[1]
        wanted = self._transmission.motor_currents(self._transmission.within(wanted, self.robot.current_limits))
        wanted = np.where(self.unseen.held, 0.0, wanted)
        counts = np.clip(self._units.current_counts(wanted), -self._caps, self._caps)
        self.cycle.write(counts)
        return self._transmission.joint_currents(self._units.currents(counts))

    def motor_currents(self, current_a: FloatArray) -> FloatArray:
        """Return what servos carry, (n,) [A], for currents that are counted at the joints, (n,) [A]."""
        return self._transmission.motor_currents(current_a)

    def by_joint(self, values: FloatArray) -> FloatArray:
        """Return the largest value among the servos of each joint, (n,), of those of all servos, (m,)."""
        size = self.robot.size
        if len(values) == size:
            return values
        found = values[:size].copy()
        for wired, value in zip(self.robot.followers, values[size:].tolist(), strict=True):
            found[wired.axis] = max(found[wired.axis], value)
        return found

    def begin_slow_polls(self) -> None:
        """From now on `slow_poll` is called again and again; before that, no slow value is overdue."""
        self._slow.begin()

    def slow_poll(self) -> bool:
        """Read one block of slow values from one servo; a round takes 3 m + 1 calls. No answer leaves the old value.

        Returns:
            Whether it was a servo's temperature.

        Raises:
            BusError: the port is lost.
        """
        answered, temperature = self._slow.turn_beside(self.cycle) if self.cycle.ticking else self._slow.turn()
        self.counters.timeouts += not answered
        return temperature

    def poll_torque(self, axes: NDArray[np.bool_]) -> None:
        """Read torque enable, hardware error and watchdog of some servos, a mask (m,), out of turn; errors as above."""
        for axis in np.flatnonzero(axes).tolist():
            self._slow.poll(axis, TORQUE)
            self._slow.poll(axis, WATCHDOG)

    def tripped_watchdogs(self) -> NDArray[np.bool_]:
        """Which servos' bus watchdog has tripped, (m,): asked now; who does not answer counts as not."""
        for _ in range(CONFIRM_ATTEMPTS):
            values, valid = self.bus.sync_read(table.BUS_WATCHDOG, self._all_ids)
            if all(valid):
                break
        np.copyto(self.slow.watchdog, values, where=np.array(valid))
        return np.asarray(valid) & np.equal(values, table.WATCHDOG_TRIPPED)

    def reboot_servos(self) -> list[str]:
        """With torque off: reboot the servos that report a hardware error, and check and set up all of them again.

        Returns:
            One line for each servo that was rebooted.

        Raises:
            BusError: a servo did not come back, still reports an error, or is not as it was.
        """
        with self.bus.patiently():
            snapshots = [read_snapshot(self.bus, servo_id) for servo_id in self.robot.all_servo_ids]
            lines = reboot_faulty(self.bus, self.robot, snapshots)
        start_up(self.bus, self.robot, self.start.on(simulated=self.simulated), simulated=self.simulated)
        self._slow.forget_torque()
        self._slow.begin()
        return lines

    def _unconfirmed(self, torque_enable: int) -> list[str]:
        """Servos (id and joint name) whose torque enable is not read back as this; a lost reply is asked again."""
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
