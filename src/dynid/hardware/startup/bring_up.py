"""Check and set-up of an arm's servos before the 1 kHz control cycle starts.

After the set-up, all servos are in current mode with torque off. Nothing is written before everything was checked, and
one message reports all faults.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from dynid.errors import BusError, BusTimeoutError, MuteServoError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.dialogue import QUICK_S, SILENCE_S
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.bus.simulated_line import is_simulated_port
from dynid.hardware.safety.settings import load_safety
from dynid.hardware.servos.models import model_text
from dynid.hardware.startup import servo_snapshot
from dynid.hardware.startup.position_mode import CONSEQUENCE, leave_position_mode
from dynid.hardware.startup.servo_checks import (
    FACTORY_BAUD_RATE,
    Finding,
    eeprom_differences,
    judge_servos,
    unfit_settings,
    with_arguments,
)
from dynid.robot import Robot

REBOOT_S = 3.0  # longest duration of a servo's reboot
REBOOT_POLL_S = 0.05


@dataclass(frozen=True)
class StartOptions:
    """Additional actions that the start of a driver may take.

    Attributes:
        write_eeprom: whether to correct wrong settings in the servos' EEPROM; None means only on a simulated line.
            Servos in position mode are always set to current mode, which the driver needs; a driver sets them to
            position mode when it ends.
        take_over: whether to start although torque is on. The start then switches torque off, and an unsupported arm
            drops.
        reboot_servos: whether to reboot servos that report a hardware error.
    """

    write_eeprom: bool | None = False
    take_over: bool = False
    reboot_servos: bool = False

    def on(self, *, simulated: bool) -> "StartOptions":
        """Return these options; if `write_eeprom` is None, it is replaced by the value of `simulated`."""
        return replace(self, write_eeprom=simulated) if self.write_eeprom is None else self

    def allow(self, finding: Finding) -> bool:
        """Return whether these options permit the start of the driver to fix the fault that a finding reports."""
        allowed = {"eeprom": self.write_eeprom is True, "torque-off": self.take_over, "reboot": self.reboot_servos}
        return allowed.get(finding.fix, False)


def start_up(bus: ServoBus, robot: Robot, options: StartOptions, *, simulated: bool) -> list[str]:
    """Check every servo, then set them up: current mode, goal current 0, torque off, watchdog off.

    Args:
        bus: an open bus.
        robot: robot whose servos must be on the bus.
        options: additional actions that are permitted.
        simulated: whether the line is simulated, which shortens the search for servos.

    Returns:
        One line for each lasting change of a servo.

    Raises:
        BusError: servos are missing, unexpected, of another model, or not fit to be driven. One message lists all
            findings.
    """
    with bus.patiently():
        return _start_up(bus, robot, options, simulated)


def _start_up(bus: ServoBus, robot: Robot, options: StartOptions, simulated: bool) -> list[str]:
    presence = check_servos(bus, robot, simulated)
    _refuse_driven_others(bus, robot, [one for one in robot.file.bus.other_ids if one in presence.models])
    snapshots = _snapshots(bus, robot)
    refused = [one for one in _judged(robot, snapshots) if not options.allow(one)]
    if refused:
        raise BusError("; ".join(f"{one.text}: {with_arguments(one.remedy, bus.port)}" for one in refused))
    changed = reboot_faulty(bus, robot, snapshots)
    if changed:
        snapshots = _snapshots(bus, robot)
    if any(one.get(table.STATUS_RETURN_LEVEL) != table.STATUS_RETURN_ALL for one in snapshots):
        let_answer(bus, robot)
    return changed + configure(bus, robot, snapshots)


def _refuse_driven_others(bus: ServoBus, robot: Robot, other_ids: list[int]) -> None:
    """Raise BusError if a servo with one of `other_ids` has torque on, or obeys a servo of the robot.

    The driver does not control servos in `other_ids`. A servo obeys another servo if its secondary ID is the ID of that
    servo.
    """
    for servo_id in other_ids:
        obeyed = bus.read(servo_id, table.SECONDARY_ID)
        if obeyed in robot.all_servo_ids:
            raise BusError(
                f"servo {servo_id}, one of other_ids in robot.yaml, obeys servo {obeyed} by its secondary ID and would "
                f"move with it: if both move one joint, write shadow_ids: [{servo_id}] to that joint; else set the "
                "secondary ID to 255 with DYNAMIXEL Wizard"
            )
        if bus.read(servo_id, table.TORQUE_ENABLE):
            raise BusError(
                f"servo {servo_id}, one of other_ids in robot.yaml, has torque on: the driver leaves it alone, so it "
                "would keep its torque when the arm stops; end the program that drives it, and switch its torque off"
            )


def check_servos(bus: ServoBus, robot: Robot, simulated: bool) -> servo_snapshot.Presence:
    """Compare the servos that answer with those of the robot's file, and return the servos that answer.

    Args:
        bus: an open bus.
        robot: the expected robot.
        simulated: whether the line is simulated, which shortens the search for servos.

    Raises:
        BusError: servos are missing, unexpected, of another model, or send corrupted packets. One message lists all
            faults, and the baud rates at which missing servos answer.
    """
    presence = servo_snapshot.find_servos(bus, robot, simulated)
    if presence.complete:
        return presence
    elsewhere = servo_snapshot.find_elsewhere(bus, simulated) if presence.missing else {}
    raise BusError(with_arguments(presence_text(bus, robot, presence, elsewhere), bus.port))


def presence_text(
    bus: ServoBus, robot: Robot, presence: servo_snapshot.Presence, elsewhere: dict[int, list[tuple[int, int]]]
) -> str:
    """Return a message about servos that differ from the robot's file, with the remedy.

    Args:
        bus: the bus.
        robot: the expected robot.
        presence: the servos that answer.
        elsewhere: (ID, model number) of the servos that answer at each other baud rate [bit/s].
    """
    other = "; ".join(_elsewhere_text(presence.missing, rate, servos) for rate, servos in elsewhere.items())
    if not presence.models and not presence.garbled:
        reason = f"it is not the servo bus of {robot.name}, the power is off, or the servos use another baud rate"
        if is_simulated_port(bus.port):
            reason += "; of a simulated arm, its process or this computer stands still"
        return f"no servo answers on {bus.port} at {bus.baudrate} bit/s within {SILENCE_S:.0f} s: {other or reason}"
    wired = {one.servo_id: one for one in robot.wired_servos}
    problems = []
    if presence.missing:
        problems.append("missing servos: " + ", ".join(f"{one} ({wired[one].joint})" for one in presence.missing))
    if presence.unexpected:
        found = (f"{one} ({model_text(presence.models[one])})" for one in presence.unexpected)
        problems.append("unexpected servos: " + ", ".join(found))
    if presence.wrong:
        found = (
            f"{one} ({wired[one].joint}) is {model_text(presence.models[one])} instead of "
            f"{model_text(wired[one].model_number)}, {wired[one].model_name} in robot.yaml"
            for one in presence.wrong
        )
        problems.append("wrong servos: " + ", ".join(found))
    if presence.garbled:
        found = (f"{one} ({wired[one].joint})" for one in presence.garbled)
        problems.append(f"corrupted packets from {', '.join(found)}: {servo_snapshot.GARBLED_REMEDY}")
    if other:
        problems.append(other)
    if bus.dialogue.late:
        problems.append(bus.dialogue.lateness)
    return f"servos on {bus.port} are not those of {robot.name}: {'; '.join(problems)}; check ids and wiring"


def _elsewhere_text(missing: Collection[int], baudrate: int, servos: list[tuple[int, int]]) -> str:
    """Return a message about servos that answer at another baud rate, with the remedy.

    Args:
        missing: IDs of the robot's servos that do not answer at the usual baud rate.
        baudrate: the other baud rate [bit/s].
        servos: (ID, model number) of the servos that answer at this baud rate.
    """
    ids = ", ".join(str(servo_id) for servo_id, _ in servos)
    delivered = ", factory-fresh" if baudrate == FACTORY_BAUD_RATE else ""
    unknown_ids = [str(servo_id) for servo_id, _ in servos if servo_id not in missing]
    first = f"give {', '.join(unknown_ids)} the missing ids with DYNAMIXEL Wizard, then " if unknown_ids else ""
    return (
        f"servos {ids} answer at {baudrate} bit/s{delivered}: {first}set their baud rate with "
        "'dynid doctor --fix baud-rate', or start with that rate"
    )


def _snapshots(bus: ServoBus, robot: Robot) -> list[servo_snapshot.Snapshot]:
    """Return the registers of all servos; servos that answer only pings are first set to answer every instruction."""
    try:
        return [servo_snapshot.read_snapshot(bus, servo_id) for servo_id in robot.all_servo_ids]
    except MuteServoError:
        let_answer(bus, robot)
        return [servo_snapshot.read_snapshot(bus, servo_id) for servo_id in robot.all_servo_ids]


def let_answer(bus: ServoBus, robot: Robot) -> None:
    """Set all servos to answer every instruction, by a sync write, which works although they answer only pings."""
    ids = robot.all_servo_ids
    bus.sync_write(table.STATUS_RETURN_LEVEL, [table.STATUS_RETURN_ALL] * len(ids), ids)


def _judged(robot: Robot, snapshots: list[servo_snapshot.Snapshot]) -> list[Finding]:
    return [one for one in judge_servos(robot, load_safety(robot), snapshots) if one.level == "error"]


def configure(bus: ServoBus, robot: Robot, snapshots: list[servo_snapshot.Snapshot]) -> list[str]:
    """Set all servos to torque off, current mode, full PWM, goal current 0 and watchdog off.

    Wrong EEPROM settings are corrected; correct ones are not written. If the set-up fails after torque was switched
    off, all servos are set to position mode, as the driver does when it ends.

    Returns:
        One line for each lasting change of an EEPROM register.

    Raises:
        BusError: a servo did not confirm a write; the message names servos that may still be in current mode.
    """
    labels = {one.servo_id: one.label for one in robot.wired_servos}
    for servo_id in labels:
        bus.write(servo_id, table.TORQUE_ENABLE, 0)
    try:
        _set_up(bus, robot, snapshots)
    except BaseException as error:
        left = leave_position_mode(bus, labels)
        if isinstance(error, BusError) and left:
            names = ", ".join(labels[servo_id] for servo_id in left)
            raise BusError(f"{error}; {names} did not confirm position mode: {CONSEQUENCE}") from error
        raise
    return [
        f"{labels[servo_id]}: {register.name} {found} -> {wanted}"
        for servo_id, register, found, wanted in unfit_settings(robot, snapshots)
    ]


def _set_up(bus: ServoBus, robot: Robot, snapshots: list[servo_snapshot.Snapshot]) -> None:
    """Correct wrong EEPROM settings, then set watchdog off, full PWM and goal current 0 in all servos.

    Torque must be off.
    """
    limited_ids = {one.servo_id for one in snapshots if one.get(table.GOAL_PWM) < table.FULL_PWM}
    for servo_id, register, _, wanted in eeprom_differences(robot, snapshots):
        bus.write(servo_id, register, wanted)
    for servo_id in robot.all_servo_ids:
        bus.write(servo_id, table.BUS_WATCHDOG, 0)  # a tripped watchdog would refuse the goals
        if servo_id in limited_ids:
            bus.write(servo_id, table.GOAL_PWM, table.FULL_PWM)
        bus.write(servo_id, table.GOAL_CURRENT, 0)  # last: a change of mode sets it to the current limit


def reboot_faulty(bus: ServoBus, robot: Robot, snapshots: list[servo_snapshot.Snapshot]) -> list[str]:
    """Reboot the servos that report a hardware error, which switches their torque off.

    Returns:
        One line for each rebooted servo.

    Raises:
        BusError: a servo does not answer after its reboot, or reports the error again.
    """
    lines = []
    for wired, snapshot in zip(robot.wired_servos, snapshots, strict=True):
        error = snapshot.get(table.HARDWARE_ERROR_STATUS)
        if not error:
            continue
        label, text = wired.label, table.hardware_error_text(error)
        bus.reboot(snapshot.servo_id)
        _await(bus, snapshot.servo_id)
        if bus.read(snapshot.servo_id, table.HARDWARE_ERROR_STATUS):
            raise BusError(f"{label} still reports {text} after a reboot: find and remove the cause")
        lines.append(f"{label}: rebooted after it reported {text}")
    return lines


def _await(bus: ServoBus, servo_id: int) -> None:
    """Wait until a servo answers again after a reboot; raise BusTimeoutError if that takes longer than `REBOOT_S`."""
    deadline_ns = bus.clock.monotonic_ns() + int(REBOOT_S * 1e9)
    while True:
        bus.clock.sleep(REBOOT_POLL_S)
        try:
            bus.ping(servo_id, QUICK_S[:1])
        except BusTimeoutError:
            if bus.clock.monotonic_ns() > deadline_ns:
                bus.dialogue.settle()  # raises an error about the whole line if no servo answers
                raise BusTimeoutError(f"servo {servo_id} did not answer within {REBOOT_S} s after its reboot") from None
            continue
        return
