"""Fixes that `dynid doctor --fix NAME` applies to servos and adapter; each name stands for one kind of change."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynid.errors import BusError, BusTimeoutError, SafetyError, UnknownNameError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.dialogue import PATIENT_S
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.bus.usb_latency import SYSTEM, set_latency
from dynid.hardware.startup.bring_up import let_answer, reboot_faulty
from dynid.hardware.startup.position_mode import write_position_mode
from dynid.hardware.startup.servo_checks import unfit_settings
from dynid.hardware.startup.servo_snapshot import Snapshot, find_elsewhere, find_servos, read_snapshot
from dynid.robot import Robot


@dataclass(frozen=True)
class _ConnectedServos:
    bus: ServoBus
    robot: Robot
    system: Path

    def snapshots(self) -> list[Snapshot]:
        return [read_snapshot(self.bus, servo_id) for servo_id in self.robot.all_servo_ids]


def apply_fixes(
    robot: Robot,
    port: str,
    baudrate: int | None,
    names: Sequence[str],
    system: Path = SYSTEM,
    *,
    consented: bool = False,
) -> list[str]:
    """Apply the named fixes, in the order of `FIXES`.

    Args:
        robot: robot whose servos are on the line.
        port: path of the serial device.
        baudrate: baud rate that the servos shall use [bit/s]; None for the baud rate in robot.yaml.
        names: names of fixes, as in `FIXES`.
        system: root of sysfs, which contains the latency timers of serial adapters.
        consented: whether the user consents to changes of a real arm's servos; a simulated arm needs no consent.

    Returns:
        One line for every change.

    Raises:
        UnknownNameError: there is no fix with one of these names.
        SafetyError: servos would be changed on a line that is not simulated, without consent; nothing was sent.
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
        if not (consented or bus.simulated) and any(FIXES[name] is not _nothing for name in names):
            raise SafetyError(
                f"port {port} is not a simulated servo bus, and changes of its servos were not confirmed: repeat the "
                "command"
            )
        servos = _ConnectedServos(bus, robot, system)
        for name, fix in FIXES.items():
            if name in names:
                lines += fix(servos)
    finally:
        bus.close()
    return lines


def _baud_rate(servos: _ConnectedServos) -> list[str]:
    """Set servos that answer at other baud rates to the baud rate of the bus; return one line of text for each."""
    bus, lines = servos.bus, []
    wanted = next((code for code, rate in table.BAUD_RATES.items() if rate == bus.baudrate), None)
    if wanted is None:
        raise BusError(f"the servos cannot be set to {bus.baudrate} bit/s")
    target = bus.baudrate
    present = find_servos(bus, servos.robot, bus.simulated).models
    for rate, answering in find_elsewhere(bus, bus.simulated).items():
        for servo_id, _ in answering:
            if servo_id in present:
                lines.append(
                    f"servo {servo_id} at {rate} bit/s: left as it is, since a servo with this id answers at {target} "
                    "bit/s; give it the id of a missing servo first"
                )
            elif servo_id in servos.robot.all_servo_ids:
                with bus.at_baudrate(rate):
                    _write_baud_rate(bus, servo_id, wanted)
                bus.ping(servo_id, PATIENT_S)
                lines.append(f"servo {servo_id}: baud rate {rate} -> {target} bit/s")
    return lines


def _write_baud_rate(bus: ServoBus, servo_id: int, code: int) -> None:
    try:
        bus.write(servo_id, table.BAUD_RATE, code)
    except BusTimeoutError:
        return  # the reply may already have the new rate; the following ping checks it


def _torque_off(servos: _ConnectedServos) -> list[str]:
    """Switch off the torque of all servos, and return one line of text for each change.

    The arm drops unless it is supported. Servos that do not answer get the instruction as well.

    Raises:
        BusError: a servo did not answer, or did not confirm; the torque of all others is off.
    """
    bus, ids, lines = servos.bus, servos.robot.all_servo_ids, list[str]()
    let_answer(bus, servos.robot)
    on, failed = list[int](), list[str]()
    for servo_id in ids:
        try:
            if read_snapshot(bus, servo_id).get(table.TORQUE_ENABLE):
                on.append(servo_id)
        except BusError as error:
            failed.append(str(error))
    bus.sync_write(table.TORQUE_ENABLE, [0] * len(ids), ids)
    for servo_id in on:
        try:
            with bus.patiently():
                bus.write(servo_id, table.TORQUE_ENABLE, 0)
                bus.write(servo_id, table.BUS_WATCHDOG, 0)
        except BusError as error:
            failed.append(str(error))
        else:
            lines.append(f"servo {servo_id}: torque off")
    if failed:
        done = f"; of the others: {', '.join(lines)}" if lines else ""
        raise BusError(f"not all servos confirm that their torque is off: {'; '.join(failed)}{done}")
    return lines


def _reboot(servos: _ConnectedServos) -> list[str]:
    """Reboot the servos that report a hardware error; return one line of text for each."""
    with servos.bus.patiently():
        return reboot_faulty(servos.bus, servos.robot, servos.snapshots())


def _eeprom(servos: _ConnectedServos) -> list[str]:
    """Correct the EEPROM settings that the driver needs; return one line of text for each change.

    Servos that are in neither current mode nor position mode get position mode. Current mode is set only by the start
    of the driver, which also sets the goal current.
    """
    lines = []
    let_answer(servos.bus, servos.robot)
    for servo_id, register, found, wanted in unfit_settings(servos.robot, servos.snapshots()):
        mode = register is table.OPERATING_MODE
        with servos.bus.patiently():
            if mode:
                write_position_mode(servos.bus, servo_id)
            else:
                servos.bus.write(servo_id, register, wanted)
        lines.append(f"servo {servo_id}: {register.name} {found} -> {table.POSITION_MODE if mode else wanted}")
    return lines


def _nothing(_: _ConnectedServos) -> list[str]:
    return []


# In the order of execution; the latency timer needs no open port and is set before all others.
FIXES: dict[str, Callable[[_ConnectedServos], list[str]]] = {
    "latency-timer": _nothing,
    "baud-rate": _baud_rate,
    "torque-off": _torque_off,
    "reboot": _reboot,
    "eeprom": _eeprom,
}
