"""Checks of servos' registers before an arm is driven; each finding includes a remedy."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.control_table import Register
from dynid.hardware.safety.settings import SafetySettings
from dynid.hardware.startup.servo_snapshot import Snapshot
from dynid.robot import Robot
from dynid.robot.servo_fields import WiredServo, mismatch_deg, undrivable_number

Level = Literal["ok", "warning", "error"]
FACTORY_BAUD_RATE = 57_600
NEEDED_SHUTDOWN = (1 << 2) | (1 << 4) | (1 << 5)  # overheating, electrical shock and overload, the factory setting
VOLTAGE_SHUTDOWN = 1 << 0  # input voltage: without this bit a dip is only an alert, and the driver stops the arm
VOLTAGE_RESERVE_V = 1.0  # smallest distance of the voltage from its limits without a warning
REVERSED = 1 << 0  # reverse bit of the drive mode
PAIR_DIFFERENCE_DEG = 3.0  # largest position difference between aligned servos of one joint
HOLD_STILL = "hold the arm still and try again"
STANDING_RAD_S = 0.1  # greatest speed of a joint whose servos are compared, read some milliseconds apart


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    Attributes:
        check: name of the check, a word or two.
        level: "ok"; "warning" if the arm can be driven nevertheless; "error" if something must be done first.
        text: description of the finding.
        remedy: what the user can do; '' if nothing needs to be done.
        fix: name of the fix with which `dynid doctor --fix` applies the remedy; '' if there is no such fix.
        servo_ids: IDs of the servos concerned.
    """

    check: str
    level: Level
    text: str
    remedy: str = ""
    fix: str = ""
    servo_ids: tuple[int, ...] = ()


def with_arguments(text: str, arguments: str) -> str:
    """Return a text in which each command `dynid doctor --fix` is completed by arguments, such as the port.

    Args:
        text: text with any number of these commands.
        arguments: arguments to insert between `doctor` and `--fix`.
    """
    return text.replace("dynid doctor --fix", f"dynid doctor {arguments} --fix")


def judge_servos(robot: Robot, settings: SafetySettings, snapshots: Sequence[Snapshot]) -> list[Finding]:
    """Return findings on all faults of a robot's servos; an empty list if there are none.

    Args:
        robot: the robot.
        settings: settings of the safety guard.
        snapshots: registers of all servos, in the order of `Robot.wired_servos`.
    """
    found: list[Finding] = []
    for wired, snapshot in zip(robot.wired_servos, snapshots, strict=True):
        label = wired.label
        found += _state(label, snapshot, settings)
        found += _setup(wired, snapshot, robot.file.joints[wired.axis].current_limit_a or 0.0)
        found += _own_protection(label, snapshot, settings)
    found += [*_wiring(robot, snapshots), *_apart(robot, snapshots)]
    return found + _firmware(snapshots) + _settings(robot, snapshots) + _answers(snapshots)


def required_settings(wired: WiredServo) -> dict[Register, int]:
    """Return the raw values that a servo's EEPROM registers must have for the control cycle, by register.

    The reverse bit of the drive mode is that of robot.yaml. All other bits are 0, so that torque comes on only on
    request. The PWM limit is the full PWM, because a lower limit would limit the current. A shadow, which moves a joint
    together with another servo, has the ID of that servo as its secondary ID; other servos have none. The startup
    configuration leaves torque off at power-on.
    """
    return {
        table.RETURN_DELAY_TIME: 0,
        table.DRIVE_MODE: REVERSED if wired.reverse_mode else 0,
        table.OPERATING_MODE: table.CURRENT_MODE,
        table.SECONDARY_ID: table.NO_ID if wired.obeys is None else wired.obeys,
        table.PWM_LIMIT: table.FULL_PWM,
        table.STARTUP_CONFIGURATION: 0,
    }


def _state(label: str, snapshot: Snapshot, settings: SafetySettings) -> Iterator[Finding]:
    """Yield findings on faults of a servo's present state: hardware error, torque on, voltage, temperature."""
    ids = (snapshot.servo_id,)
    if status := snapshot.get(table.HARDWARE_ERROR_STATUS):
        text = f"{label} reports {table.hardware_error_text(status)}"
        remedy = (
            "remove the cause, then reboot the servo: start with reboot_servos:=true, or run 'dynid doctor --fix "
            "reboot'"
        )
        yield Finding("hardware error", "error", text, remedy, "reboot", ids)
    if snapshot.get(table.TORQUE_ENABLE):
        tripped = snapshot.get(table.BUS_WATCHDOG) == table.WATCHDOG_TRIPPED
        text = f"{label} has torque on" + (" (stopped by its bus watchdog)" if tripped else "")
        remedy = (
            "end any program that drives the arm, support the arm, then start with take_over:=true or run 'dynid "
            "doctor --fix torque-off': torque goes off"
        )
        yield Finding("torque", "error", text, remedy, "torque-off", ids)
    volts, low, high = _volts(snapshot)
    if not low <= volts <= high:
        text = f"{label} has {volts:.1f} V, outside its limits {low:.1f} to {high:.1f} V"
        yield Finding("voltage", "error", text, "check the power supply", "", ids)
    degrees, limit = snapshot.get(table.PRESENT_TEMPERATURE), snapshot.get(table.TEMPERATURE_LIMIT)
    if degrees >= min(settings.fault_deg_c, limit):
        yield Finding("temperature", "error", f"{label} is at {degrees} deg C", "let it cool down", "", ids)
    elif degrees >= settings.derate_from_deg_c:
        text = f"{label} is at {degrees} deg C: its current limit is lowered"
        yield Finding("temperature", "warning", text, "let it cool down", "", ids)


def _wiring(robot: Robot, snapshots: Sequence[Snapshot]) -> Iterator[Finding]:
    """Yield findings on servos whose reverse mode or secondary ID differs from robot.yaml.

    Both depend on how the arm is built, so dynid never changes them.
    """
    for wired, snapshot in zip(robot.wired_servos, snapshots, strict=True):
        ids, label = (snapshot.servo_id,), wired.label
        if wrong := _reversal(wired, snapshot):
            found = "reversed" if snapshot.get(table.DRIVE_MODE) & REVERSED else "not reversed"
            text = f"{label} is {found} by its drive mode, and robot.yaml wants it otherwise: {wrong}"
            remedy = (
                "correct reverse_mode or shadow_ids in robot.yaml, or bit 0 of its drive mode with DYNAMIXEL Wizard"
            )
            yield Finding("reverse mode", "error", text, remedy, "", ids)
        obeyed = snapshot.get(table.SECONDARY_ID)
        if _is_unknown_shadow(robot, wired, obeyed):
            text = f"{label} obeys servo {obeyed} by its secondary ID, and robot.yaml does not say so"
            remedy = (
                f"if both move one joint, write shadow_ids: [{snapshot.servo_id}] to the joint of servo {obeyed}; else "
                "set the secondary ID to 255 with DYNAMIXEL Wizard"
            )
            yield Finding("shadow", "error", text, remedy, "", ids)


def _reversal(wired: WiredServo, snapshot: Snapshot) -> str:
    """Return the consequence of a reverse mode that differs from robot.yaml; '' if it does not differ."""
    if bool(snapshot.get(table.DRIVE_MODE) & REVERSED) == wired.reverse_mode:
        return ""
    if wired.first:
        return "its joint would turn the wrong way"
    return "the servos of its joint would pull against each other"


def _is_unknown_shadow(robot: Robot, wired: WiredServo, obeyed: int) -> bool:
    return obeyed not in (table.NO_ID, wired.obeys, wired.servo_id) and obeyed in robot.all_servo_ids


def _apart(robot: Robot, snapshots: Sequence[Snapshot]) -> Iterator[Finding]:
    """Yield a finding for each servo whose position disagrees with the first servo of its joint.

    If the joint moves, the finding only asks the user to hold the arm still: the servos were read one after the other,
    so their positions cannot be compared during a motion.
    """
    first = snapshots[: robot.size]
    for wired, snapshot in zip(robot.followers, snapshots[robot.size :], strict=True):
        leader, before = robot.wired_servos[wired.axis], first[wired.axis]
        position = snapshot.get(table.PRESENT_POSITION)
        degrees = mismatch_deg(wired, leader, position, before.get(table.PRESENT_POSITION))
        if abs(degrees) <= PAIR_DIFFERENCE_DEG:
            continue
        ids, speed = (wired.servo_id, leader.servo_id), max(_speed(snapshot), _speed(before))
        if speed > STANDING_RAD_S:
            text = f"joint {wired.joint} moves at {speed:.1f} rad/s, so its servos' positions cannot be compared"
            yield Finding("alignment", "error", text, HOLD_STILL, "", ids)
        else:
            text = f"{wired.label} stands {degrees:.1f} deg from servo {leader.servo_id}, which moves the same joint"
            remedy = (
                "the two are mounted or set differently: with torque off, correct the horn, or the homing offset of "
                f"servo {wired.servo_id} (or its centre_count in robot.yaml), until both positions agree"
            )
            yield Finding("alignment", "error", text, remedy, "", ids)


def _speed(snapshot: Snapshot) -> float:
    """Return the magnitude of the velocity that a servo reports [rad/s]."""
    return abs(snapshot.get(table.PRESENT_VELOCITY)) * table.VELOCITY_RAD_S_PER_COUNT


def _setup(wired: WiredServo, snapshot: Snapshot, wanted_a: float) -> Iterator[Finding]:
    """Yield findings on faults of a servo's set-up: homing offset, model, current limit, firmware, goal PWM.

    Args:
        wired: the servo in robot.yaml.
        snapshot: registers of the servo.
        wanted_a: current limit of its joint in robot.yaml [A].
    """
    ids, label, model = (snapshot.servo_id,), wired.label, snapshot.model
    if (offset := snapshot.get(table.HOMING_OFFSET)) and wired.first:  # homing offsets align the other servos
        degrees = math.degrees(offset * table.POSITION_RAD_PER_COUNT)
        text = f"{label} has homing offset {offset} ({degrees:.2f} deg) instead of 0, which shifts its zero"
        yield Finding("homing offset", "error", text, "set it to 0, then check the zero pose", "", ids)
    unit_a = None if model is None else model.current_unit_a
    if model is None or unit_a is None:
        for text in undrivable_number(label, snapshot.get(table.MODEL_NUMBER)):
            yield Finding("model", "error", text, "replace the servo", "", ids)
        return
    limit_a = snapshot.get(table.CURRENT_LIMIT) * unit_a
    if wanted_a > limit_a + unit_a:
        text = f"{label} is limited to {limit_a:.2f} A, below current_limit_a {wanted_a} in robot.yaml"
        yield Finding("current limit", "error", text, "lower current_limit_a, or raise the servo's limit", "", ids)
    version = snapshot.get(table.FIRMWARE_VERSION)
    if version < model.watchdog_firmware:
        text = (
            f"{label} has firmware {version}, which has no bus watchdog: the servo would keep driving without a driver"
        )
        remedy = f"update it to {model.watchdog_firmware} or newer with ROBOTIS's DYNAMIXEL Wizard"
        yield Finding("firmware", "error", text, remedy, "", ids)
    if (pwm := snapshot.get(table.GOAL_PWM)) < table.FULL_PWM:
        text = f"{label} has goal PWM {pwm} instead of {table.FULL_PWM}, which limits its torque"
        yield Finding("goal PWM", "warning", text, "the driver sets it at startup", "", ids)


def _own_protection(label: str, snapshot: Snapshot, settings: SafetySettings) -> Iterator[Finding]:
    """Yield findings on unsuitable limits at which a servo switches itself off or reports an alert.

    Args:
        label: description of the servo.
        snapshot: registers of the servo.
        settings: settings of the safety guard.
    """
    ids = (snapshot.servo_id,)
    shutdown = snapshot.get(table.SHUTDOWN)
    if missing := NEEDED_SHUTDOWN & ~shutdown:
        text = f"{label} does not switch off at {table.hardware_error_text(missing)}"
        yield Finding("shutdown", "warning", text, "set these bits in its shutdown register", "", ids)
    if shutdown & VOLTAGE_SHUTDOWN:
        text = f"{label} switches off at input voltage: the arm falls where the supply dips"
        yield Finding("shutdown", "warning", text, "clear bit 0 of its shutdown register", "", ids)
    limit, limits = snapshot.get(table.TEMPERATURE_LIMIT), None if snapshot.model is None else snapshot.model.limits
    if limits is None:
        return
    hottest = limits.temperature  # factory value; the e-manual warns against higher ones
    if not settings.fault_deg_c < limit <= hottest:
        text = (
            f"{label} has a temperature limit of {limit} deg C, expected more than {settings.fault_deg_c:g} (there the "
            f"driver stops the arm; the servo would drop it) and at most {hottest}"
        )
        yield Finding("temperature limit", "error", text, f"set it to {hottest}", "", ids)
    volts, low, high = _volts(snapshot)
    if low <= volts <= high and not low + VOLTAGE_RESERVE_V <= volts <= high - VOLTAGE_RESERVE_V:
        text = f"{label} has {volts:.1f} V, less than {VOLTAGE_RESERVE_V} V within its limits {low:.1f} to {high:.1f} V"
        widest = [f"{0.1 * end:.1f}" for end in limits.voltage_range]
        remedy = (
            f"widen its voltage limits to {' and '.join(widest)} V, or check the power supply: a dip under load stops "
            "the arm"
        )
        yield Finding("voltage", "warning", text, remedy, "", ids)


def _volts(snapshot: Snapshot) -> tuple[float, float, float]:
    """Return a servo's present input voltage, and its lowest and highest allowed input voltage [V]."""
    registers = (table.PRESENT_INPUT_VOLTAGE, table.MIN_VOLTAGE_LIMIT, table.MAX_VOLTAGE_LIMIT)
    volts, low, high = (snapshot.get(register) * table.VOLTAGE_V_PER_COUNT for register in registers)
    return volts, low, high


def _firmware(snapshots: Sequence[Snapshot]) -> list[Finding]:
    """Return a list with one finding if servos of a model have different firmware versions, else an empty list."""
    versions: dict[int, dict[int, list[str]]] = {}
    for one in snapshots:
        same = versions.setdefault(one.get(table.MODEL_NUMBER), {})
        same.setdefault(one.get(table.FIRMWARE_VERSION), []).append(str(one.servo_id))
    different = [
        f"{version} at {', '.join(ids)}" for same in versions.values() if len(same) > 1 for version, ids in same.items()
    ]
    if not different:
        return []
    ids = tuple(one.servo_id for one in snapshots if len(versions[one.get(table.MODEL_NUMBER)]) > 1)
    text = f"servos of one model have different firmware: {'; '.join(different)}"
    remedy = "bring them to one version with ROBOTIS's DYNAMIXEL Wizard"
    return [Finding("firmware versions", "warning", text, remedy, "", ids)]


def eeprom_differences(robot: Robot, snapshots: Sequence[Snapshot]) -> list[tuple[int, Register, int, int]]:
    """Return (servo ID, register, present value, needed value) of every EEPROM setting that has a wrong value.

    Two settings are left out, because they depend on how the arm is built: the reverse bit of the drive mode, and the
    secondary ID of a servo that obeys another servo of the robot although robot.yaml does not say so. `_wiring` reports
    both.
    """
    differences = []
    for wired, snapshot in zip(robot.wired_servos, snapshots, strict=True):
        listed = frozenset[int]() if snapshot.model is None else snapshot.model.listed
        for register, wanted in required_settings(wired).items():
            found = snapshot.get(register)
            if register is table.DRIVE_MODE:
                wanted = (wanted & ~REVERSED) | (found & REVERSED)
            kept = register is table.SECONDARY_ID and _is_unknown_shadow(robot, wired, found)
            if found != wanted and register.address in listed and not kept:
                differences.append((snapshot.servo_id, register, found, wanted))
    return differences


def unfit_settings(robot: Robot, snapshots: Sequence[Snapshot]) -> list[tuple[int, Register, int, int]]:
    """Return the wrong EEPROM settings that need consent to change, in the form of `eeprom_differences`.

    A servo in position mode instead of current mode is left out. The driver itself leaves servos in position mode, and
    finds them in it at the next start.
    """
    return [
        (servo_id, register, found, wanted)
        for servo_id, register, found, wanted in eeprom_differences(robot, snapshots)
        if register is not table.OPERATING_MODE or found != table.POSITION_MODE
    ]


def _settings(robot: Robot, snapshots: Sequence[Snapshot]) -> list[Finding]:
    """Return a list with one finding about all wrong EEPROM settings; an empty list if there are none."""
    by_value: dict[tuple[Register, int, int], list[int]] = {}
    for servo_id, register, found, wanted in unfit_settings(robot, snapshots):
        by_value.setdefault((register, found, wanted), []).append(servo_id)
    if not by_value:
        return []
    texts = [
        f"{register.name} is {_value_text(register, found)} instead of {_value_text(register, wanted)} at "
        f"servo{'s' * (len(ids) > 1)} {', '.join(map(str, ids))}"
        for (register, found, wanted), ids in by_value.items()
    ]
    factory_fresh = [str(one.servo_id) for one in snapshots if is_factory_fresh(one)]
    note = f" (factory-fresh: {', '.join(factory_fresh)})" if factory_fresh else ""
    remedy = (
        "these settings are in the servos' EEPROM: start with write_eeprom:=true, or run 'dynid doctor --fix eeprom'"
    )
    ids = tuple(sorted({one for servos in by_value.values() for one in servos}))
    return [Finding("settings", "error", "; ".join(texts) + note, remedy, "eeprom", ids)]


def is_factory_fresh(snapshot: Snapshot) -> bool:
    """Return whether a servo still has its factory settings, apart from ID and baud rate."""
    delay, mode = snapshot.get(table.RETURN_DELAY_TIME), snapshot.get(table.OPERATING_MODE)
    return delay == 250 and mode == table.POSITION_MODE


def _value_text(register: Register, value: int) -> str:
    if register is table.OPERATING_MODE:
        return f"{value} ({table.OPERATING_MODES.get(value, 'unknown')})"
    return str(value)


def _answers(snapshots: Sequence[Snapshot]) -> list[Finding]:
    quiet = tuple(s.servo_id for s in snapshots if s.get(table.STATUS_RETURN_LEVEL) != table.STATUS_RETURN_ALL)
    if not quiet:
        return []
    text = f"servo{'s' * (len(quiet) > 1)} {', '.join(map(str, quiet))} do not confirm writes"
    return [Finding("answers", "warning", text, "the driver enables their replies at startup", "", quiet)]
