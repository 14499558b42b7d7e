"""Recording of servo positions from a serial line while the user moves the arm by hand.

Torque is off, and nothing is written to the servos.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from dynid.errors import BusError, DataError, SafetyError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.clock import SYSTEM_CLOCK, Clock
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.startup.hand_motions import SAMPLE_S, HandMotions, RecordedServo
from dynid.hardware.startup.joint_match import Evidence, Matcher
from dynid.hardware.startup.servo_checks import REVERSED
from dynid.hardware.startup.servo_snapshot import Snapshot, read_snapshot, scan_line
from dynid.robot import Robot

POSE_SAMPLES = 20  # samples of the pose, one second
MOST_SCANS = 4  # largest number of scans until a scan finds no new servos
SILENT_S = 1.0  # silence of a servo after which the session ends; a busy host delays answers [s]


class User(Protocol):
    """Interface to the person who moves the arm."""

    def ask(self, text: str) -> None:
        """Show a sentence to the user: the next instruction, or the reason why the last motion was rejected."""
        ...

    def confirmed(self) -> bool:
        """Return whether the user has confirmed the present step since the last call.

        An implementation may raise an error to end the recording.
        """
        ...


class WatchedLine:
    """Recorder of the positions of all servos on an open line, while their torque is off.

    Args:
        bus: an open bus.
        servos: servos on the line.
        clock: clock of the samples.

    Attributes:
        servos: servos on the line.
        times: times of the samples since the start [s].
        rows: positions of all servos in each sample [counts].
    """

    def __init__(self, bus: ServoBus, servos: Sequence[RecordedServo], clock: Clock = SYSTEM_CLOCK) -> None:
        self._bus, self.servos, self._clock = bus, tuple(servos), clock
        self._ids = [one.servo_id for one in servos]
        self._start_ns = clock.monotonic_ns()
        self.times: list[float] = []
        self.rows: list[tuple[int, ...]] = []

    def take(self) -> None:
        """Wait for one sampling interval, then append the servos' present positions to the recording.

        Raises:
            BusError: a servo does not answer.
            SafetyError: a servo has torque on.
        """
        self._clock.sleep(SAMPLE_S)
        on = self._read(table.TORQUE_ENABLE)
        refuse_torque([servo_id for servo_id, value in zip(self._ids, on, strict=True) if value], self._bus.port)
        self.rows.append(tuple(self._read(table.PRESENT_POSITION)))
        now = (self._clock.monotonic_ns() - self._start_ns) * 1e-9
        self.times.append(round(max(now, self.times[-1] + 1e-4) if self.times else now, 4))

    def _read(self, register: table.Register) -> list[int]:
        deadline_ns = self._bus.clock.monotonic_ns() + round(SILENT_S * 1e9)
        silent = set(self._ids)
        while True:
            values, valid = self._bus.sync_read(register, self._ids)
            if all(valid):
                return values
            silent -= {servo_id for servo_id, was_read in zip(self._ids, valid, strict=True) if was_read}
            if self._bus.clock.monotonic_ns() > deadline_ns:
                named = ", ".join(map(str, sorted(silent or self._ids)))
                raise BusError(f"servo {named} on {self._bus.port} no longer answers: check power and cable")

    def motions(self, steps: Sequence[tuple[int, int]] = ()) -> HandMotions:
        """Return the recording so far.

        `steps` are the ranges of samples for each joint's motion and for the pose, see `HandMotions.steps`.
        """
        return HandMotions(
            port=self._bus.port,
            baudrate=self._bus.baudrate,
            servos=self.servos,
            time_s=tuple(self.times),
            counts=tuple(self.rows),
            steps=tuple(steps),
        )


@contextmanager
def watched_line(bus: ServoBus, clock: Clock = SYSTEM_CLOCK) -> Iterator[WatchedLine]:
    """Open a bus, find its servos, and yield a recorder of their positions; close the bus after the `with` block.

    Raises:
        BusError: the port cannot be used, no servo answers, or a servo cannot be read.
        SafetyError: a servo has torque on.
    """
    bus.open()
    try:
        bus.models |= _present(bus)
        if not bus.models:
            raise BusError(
                f"no servo answers on {bus.port} at {bus.baudrate} bit/s: check power and cable, and look for other "
                f"rates with dynid robot scan --port {bus.port}"
            )
        snapshots = [read_snapshot(bus, servo_id) for servo_id in sorted(bus.models)]
        refuse_torque([one.servo_id for one in snapshots if one.get(table.TORQUE_ENABLE)], bus.port)
        yield WatchedLine(bus, [_recorded(one) for one in snapshots], clock)
    finally:
        bus.close()


def _present(bus: ServoBus) -> dict[int, int]:
    """Return model numbers by ID of all servos on the line.

    The line is scanned until a scan finds no new servo, because a busy host may miss answers.
    """
    found: dict[int, int] = {}
    for _ in range(MOST_SCANS):
        before = len(found)
        found |= dict(scan_line(bus, bus.simulated, tuple(found)))
        if found and len(found) == before:
            break
    return found


def _recorded(one: Snapshot) -> RecordedServo:
    return RecordedServo(
        servo_id=one.servo_id,
        model_number=one.get(table.MODEL_NUMBER),
        reverse_mode=bool(one.get(table.DRIVE_MODE) & REVERSED),
        obeys=one.obeys,
        homing_offset=one.get(table.HOMING_OFFSET),
    )


def refuse_torque(servo_ids: Sequence[int], port: str) -> None:
    """Raise an error if there are servos with torque on, because the user cannot move their joints by hand.

    Args:
        servo_ids: IDs of the servos with torque on.
        port: path of the serial device, for the message.

    Raises:
        SafetyError: `servo_ids` is not empty.
    """
    if servo_ids:
        raise SafetyError(
            f"servo {', '.join(map(str, servo_ids))} on {port} has torque on: end any program that drives the arm, "
            f"support the arm, then run 'dynid doctor {port} --fix torque-off'; nothing was changed"
        )


def record_for(line: WatchedLine, seconds: float) -> HandMotions:
    """Record positions for the next `seconds` [s], without instructions to the user, and return the hand motions."""
    line.take()
    while line.times[-1] - line.times[0] < seconds:
        line.take()
    return line.motions()


def record_guided(line: WatchedLine, matcher: Matcher, user: User, pose: str) -> HandMotions:
    """Ask the user to move each joint and then to hold a known pose, and return the recorded hand motions.

    Each motion is repeated until it shows without ambiguity which servo moves the joint.

    Args:
        line: recorder of the servos' positions.
        matcher: finds the servo that a motion moved, or rejects the motion.
        user: the person who moves the arm.
        pose: description of the pose, for the user.
    """
    steps, found = list[tuple[int, int]](), list[Evidence]()
    for axis in range(matcher.robot.size):
        while len(found) == axis:
            user.ask(_instruction(matcher.robot, axis))
            begin = len(line.rows)
            line.take()
            while not user.confirmed():
                line.take()
            line.take()
            try:
                found.append(matcher.joint(axis, line.motions().unwrapped[begin:], found))
            except DataError as error:
                _refused(line, user, begin, error)
                continue
            steps.append((begin, len(line.rows)))
            servo, turned = line.servos[found[-1].index].servo_id, found[-1].turned_deg
            user.ask(f"{matcher.label(axis)}: servo {servo} turned by {turned:+.0f} deg")
    return line.motions([*steps, _posed(line, matcher, user, pose)])


def _posed(line: WatchedLine, matcher: Matcher, user: User, pose: str) -> tuple[int, int]:
    """Ask the user to hold the known pose until the arm is still; return the range (first, end) of its samples."""
    while True:
        user.ask(f"pose: bring the arm to {pose}, hold it still, and press Enter")
        while not user.confirmed():
            line.take()  # a whole turn on the way to the pose is recognised by the samples in between
        begin = len(line.rows)
        for _ in range(POSE_SAMPLES):
            line.take()
        try:
            matcher.pose(line.motions().unwrapped[begin:])
        except DataError as error:
            _refused(line, user, begin, error)
            continue
        return begin, len(line.rows)


def _refused(line: WatchedLine, user: User, begin: int, error: DataError) -> None:
    """Show the user why a step was rejected, and drop its samples, which start at index `begin`."""
    del line.rows[begin:], line.times[begin:]
    user.ask(f"not accepted: {error}")


def _instruction(robot: Robot, axis: int) -> str:
    """Return the instruction that asks the user to move the joint with index `axis`."""
    joint = robot.file.joints[axis]
    how = "in its positive direction, as its panel of the figure of dynid robot poses shows"
    if joint.role == "decoupled":
        how = f"towards its upper limit of {joint.upper_deg:g} deg"
    return (
        f"{axis + 1} of {robot.size}, {joint.name}: hold the other joints, move this one by some 20 deg {how}, and "
        "press Enter"
    )
