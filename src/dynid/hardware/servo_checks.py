"""What servos must be like before an arm is driven: judged from their registers, each finding with what to do."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dynid.hardware import control_table as table
from dynid.hardware.control_table import Register
from dynid.hardware.safety_settings import SafetySettings
from dynid.hardware.servo_snapshot import Snapshot
from dynid.robot import Robot

Level = Literal["ok", "warning", "error"]
OLDEST_FIRMWARE = 38  # the first with the bus watchdog
FACTORY_BAUD_RATE = 57_600
# What the cycle relies on: set in the servos where it differs. Drive mode 0 is: not reversed, torque only on request.
REQUIRED: tuple[tuple[Register, int], ...] = (
    (table.RETURN_DELAY_TIME, 0),
    (table.DRIVE_MODE, 0),
    (table.OPERATING_MODE, table.CURRENT_MODE),
)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: what, a word or two.
        level: `ok`; `warning`, the arm can be driven; `error`, something must be done first.
        text: what was found.
        remedy: what to do, '' for nothing.
        fix: the name under which `dynid doctor --fix` does it, '' where only a person can.
        servo_ids: the servos it is about.
    """

    check: str
    level: Level
    text: str
    remedy: str = ""
    fix: str = ""
    servo_ids: tuple[int, ...] = ()


def judge_servos(robot: Robot, settings: SafetySettings, snapshots: Sequence[Snapshot]) -> list[Finding]:
    """What is wrong with the servos of a robot, snapshots in joint order, n of them; empty if nothing is."""
    found: list[Finding] = []
    for joint, snapshot in zip(robot.file.joints, snapshots, strict=True):
        label = f"servo {snapshot.servo_id} ({joint.name})"
        for finding in (
            _hardware_error(label, snapshot),
            _torque(label, snapshot),
            _homing_offset(label, snapshot),
            _current_limit(label, snapshot, joint.current_limit_a or 0.0),
            _firmware(label, snapshot),
            _shutdown(label, snapshot),
            _voltage(label, snapshot),
            _temperature(label, snapshot, settings),
        ):
            if finding is not None:
                found.append(finding)
    return found + _settings(snapshots) + _answers(snapshots)


def _hardware_error(label: str, snapshot: Snapshot) -> Finding | None:
    status = snapshot.get(table.HARDWARE_ERROR_STATUS)
    if not status:
        return None
    text = f"{label} reports {table.hardware_error_text(status)}"
    remedy = "find the cause, then reboot it: with reboot_servos:=true at the start, or 'dynid doctor --fix reboot'"
    return Finding("hardware error", "error", text, remedy, "reboot", (snapshot.servo_id,))


def _torque(label: str, snapshot: Snapshot) -> Finding | None:
    if not snapshot.get(table.TORQUE_ENABLE):
        return None
    tripped = snapshot.get(table.BUS_WATCHDOG) == table.WATCHDOG_TRIPPED
    text = f"{label} has its torque on" + (" (stopped by its bus watchdog)" if tripped else "")
    remedy = (
        "end the program that drives the arm, if one does; support the arm; then start with take_over:=true, or run "
        "'dynid doctor --fix torque-off': torque goes off"
    )
    return Finding("torque", "error", text, remedy, "torque-off", (snapshot.servo_id,))


def _homing_offset(label: str, snapshot: Snapshot) -> Finding | None:
    offset = snapshot.get(table.HOMING_OFFSET)
    if not offset:
        return None
    degrees = math.degrees(offset * table.POSITION_RAD_PER_COUNT)
    text = f"{label} has homing offset {offset} ({degrees:.2f} deg) instead of 0, which shifts its zero"
    return Finding("homing offset", "error", text, "set it to 0, then check the zero pose", "", (snapshot.servo_id,))


def _current_limit(label: str, snapshot: Snapshot, wanted_a: float) -> Finding | None:
    limit_a = snapshot.get(table.CURRENT_LIMIT) * table.CURRENT_A_PER_COUNT
    if wanted_a <= limit_a + table.CURRENT_A_PER_COUNT:
        return None
    text = f"{label} is limited to {limit_a:.2f} A, below current_limit_a {wanted_a} in robot.yaml"
    return Finding("current limit", "error", text, "lower that, or raise the servo's", "", (snapshot.servo_id,))


def _firmware(label: str, snapshot: Snapshot) -> Finding | None:
    version = snapshot.get(table.FIRMWARE_VERSION)
    if version >= OLDEST_FIRMWARE:
        return None
    text = f"{label} has firmware {version}, which knows no bus watchdog: it would go on driving without a driver"
    remedy = f"update it to {OLDEST_FIRMWARE} or newer with ROBOTIS's DYNAMIXEL Wizard"
    return Finding("firmware", "error", text, remedy, "", (snapshot.servo_id,))


def _shutdown(label: str, snapshot: Snapshot) -> Finding | None:
    needed = (1 << 2) | (1 << 5)
    missing = needed & ~snapshot.get(table.SHUTDOWN)
    if not missing:
        return None
    text = f"{label} does not switch itself off at {table.hardware_error_text(missing)}"
    return Finding("shutdown", "warning", text, "set these bits in its shutdown register", "", (snapshot.servo_id,))


def _voltage(label: str, snapshot: Snapshot) -> Finding | None:
    unit = table.VOLTAGE_V_PER_COUNT
    volts = snapshot.get(table.PRESENT_INPUT_VOLTAGE) * unit
    low, high = snapshot.get(table.MIN_VOLTAGE_LIMIT) * unit, snapshot.get(table.MAX_VOLTAGE_LIMIT) * unit
    if low <= volts <= high:
        return None
    text = f"{label} has {volts:.1f} V, outside its limits {low:.1f} to {high:.1f} V"
    return Finding("voltage", "error", text, "check the power supply", "", (snapshot.servo_id,))


def _temperature(label: str, snapshot: Snapshot, settings: SafetySettings) -> Finding | None:
    degrees, limit = snapshot.get(table.PRESENT_TEMPERATURE), snapshot.get(table.TEMPERATURE_LIMIT)
    ids = (snapshot.servo_id,)
    if degrees >= min(settings.fault_deg_c, limit):
        return Finding("temperature", "error", f"{label} is at {degrees} deg C", "let it cool down", "", ids)
    if degrees >= settings.derate_from_deg_c:
        text = f"{label} is at {degrees} deg C: its current limit is lowered"
        return Finding("temperature", "warning", text, "let it cool down", "", ids)
    return None


def eeprom_differences(snapshots: Sequence[Snapshot]) -> list[tuple[int, Register, int, int]]:
    """(servo id, register, found, wanted) of every EEPROM setting that the cycle relies on and that differs."""
    return [
        (snapshot.servo_id, register, found, wanted)
        for snapshot in snapshots
        for register, wanted in REQUIRED
        if (found := snapshot.get(register)) != wanted
    ]


def _settings(snapshots: Sequence[Snapshot]) -> list[Finding]:
    """One finding for all settings in EEPROM, or none."""
    by_value: dict[tuple[Register, int, int], list[int]] = {}
    for servo_id, register, found, wanted in eeprom_differences(snapshots):
        by_value.setdefault((register, found, wanted), []).append(servo_id)
    if not by_value:
        return []
    texts = [
        f"{register.name} is {_value_text(register, found)} instead of {_value_text(register, wanted)} at "
        f"servo{'s' * (len(ids) > 1)} {', '.join(map(str, ids))}"
        for (register, found, wanted), ids in by_value.items()
    ]
    fresh = [str(one.servo_id) for one in snapshots if is_factory_fresh(one)]
    note = f" (as delivered: {', '.join(fresh)})" if fresh else ""
    remedy = (
        "these settings lie in the servos' EEPROM: allow writing them with write_eeprom:=true, or run "
        "'dynid doctor --fix eeprom'"
    )
    ids = tuple(sorted({one for servos in by_value.values() for one in servos}))
    return [Finding("settings", "error", "; ".join(texts) + note, remedy, "eeprom", ids)]


def is_factory_fresh(snapshot: Snapshot) -> bool:
    """Whether a servo's settings are those of delivery, its id and baud rate aside."""
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
    return [Finding("answers", "warning", text, "the driver has them answer when it starts", "", quiet)]
