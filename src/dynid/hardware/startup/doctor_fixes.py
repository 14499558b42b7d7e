"""What `dynid doctor --fix` can change, each by its name; everything else is left as it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynid.errors import BusError, BusTimeoutError, UnknownNameError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.dialogue import PATIENT_S
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.bus.usb_latency import SYSTEM, set_latency
from dynid.hardware.startup.bring_up import reboot_faulty
from dynid.hardware.startup.servo_checks import unfit_settings
from dynid.hardware.startup.servo_snapshot import Snapshot, find_elsewhere, read_snapshot
from dynid.robot import Robot


@dataclass(frozen=True)
class _Patient:
    bus: ServoBus
    robot: Robot
    system: Path

    def snapshots(self) -> list[Snapshot]:
        return [read_snapshot(self.bus, servo_id) for servo_id in self.robot.all_servo_ids]


def apply_fixes(
    robot: Robot, port: str, baudrate: int | None, names: Sequence[str], system: Path = SYSTEM
) -> list[str]:
    """Make the named changes, in a sensible order.

    Args:
        robot: what is on the line.
        port: path of the serial device.
        baudrate: the rate at which the servos shall answer [bit/s]; None is the robot's.
        names: of `FIXES`.
        system: root of the system's device files.

    Returns:
        One line for everything that was changed.

    Raises:
        UnknownNameError: no such fix.
        BusError: a change was not possible.
    """
    for name in names:
        if name not in FIXES:
            raise UnknownNameError("fix", name, tuple(FIXES))
    lines: list[str] = []
    if "latency-timer" in names:
        lines.append(set_latency(port, system))
    bus = ServoBus(port, baudrate or robot.file.bus.baudrate, robot.servo_ids)
    bus.open()
    try:
        patient = _Patient(bus, robot, system)
        for name, fix in FIXES.items():
            if name in names:
                lines += fix(patient)
    finally:
        bus.close()
    return lines


def _baud_rate(patient: _Patient) -> list[str]:
    """Set the robot's servos that answer at other rates to the one that is asked for."""
    bus, lines = patient.bus, []
    wanted = next((code for code, rate in table.BAUD_RATES.items() if rate == bus.baudrate), None)
    if wanted is None:
        raise BusError(f"the servos cannot be set to {bus.baudrate} bit/s")
    target = bus.baudrate
    for rate, servos in find_elsewhere(bus, bus.simulated).items():
        for servo_id, _ in servos:
            if servo_id in patient.robot.all_servo_ids:
                with bus.at_baudrate(rate):
                    _write_baud_rate(bus, servo_id, wanted)
                bus.ping(servo_id, PATIENT_S)
                lines.append(f"servo {servo_id}: baud rate {rate} -> {target} bit/s")
    return lines


def _write_baud_rate(bus: ServoBus, servo_id: int, code: int) -> None:
    try:
        bus.write(servo_id, table.BAUD_RATE, code)
    except BusTimeoutError:
        return  # it may confirm at the new rate already; the ping that follows tells


def _torque_off(patient: _Patient) -> list[str]:
    """Torque off where it is on; the arm drops unless it is held."""
    lines = []
    for snapshot in patient.snapshots():
        if snapshot.get(table.TORQUE_ENABLE):
            with patient.bus.patiently():
                patient.bus.write(snapshot.servo_id, table.TORQUE_ENABLE, 0)
                patient.bus.write(snapshot.servo_id, table.BUS_WATCHDOG, 0)
            lines.append(f"servo {snapshot.servo_id}: torque off")
    return lines


def _reboot(patient: _Patient) -> list[str]:
    """Reboot the servos that report a hardware error."""
    with patient.bus.patiently():
        return reboot_faulty(patient.bus, patient.robot, patient.snapshots())


def _eeprom(patient: _Patient) -> list[str]:
    """Write the settings that the driver relies on, where they differ."""
    lines = []
    for servo_id, register, found, wanted in unfit_settings(patient.robot, patient.snapshots()):
        with patient.bus.patiently():
            patient.bus.write(servo_id, register, wanted)
        lines.append(f"servo {servo_id}: {register.name} {found} -> {wanted}")
    return lines


def _nothing(_: _Patient) -> list[str]:
    return []


# In the order in which they are made; the latency timer needs no open port and comes before.
FIXES: dict[str, Callable[[_Patient], list[str]]] = {
    "latency-timer": _nothing,
    "baud-rate": _baud_rate,
    "torque-off": _torque_off,
    "reboot": _reboot,
    "eeprom": _eeprom,
}
