"""Scan of a serial line for servos, with their IDs, baud rates and settings; it needs no robot.yaml."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dynid.errors import BusError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.clock import SYSTEM_CLOCK, Clock
from dynid.hardware.bus.port import WaitingPortHandler, open_port
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.servos.models import model_text
from dynid.hardware.startup.servo_checks import REVERSED
from dynid.hardware.startup.servo_snapshot import OTHER_BAUD_RATES, Snapshot, read_snapshot, scan_line
from dynid.robot import Robot
from dynid.robot.draft_servos import cycle_s, unfit_rate


@dataclass(frozen=True)
class FoundServo:
    """A servo that answers on the line.

    Attributes:
        servo_id: ID in the answer to a ping.
        model_number: model number in the answer to a ping.
        baudrate: baud rate at which the servo answers [bit/s].
        snapshot: registers of the servo; None if it answers pings only.
    """

    servo_id: int
    model_number: int
    baudrate: int
    snapshot: Snapshot | None

    def as_dict(self) -> dict[str, Any]:
        """Return all data of the servo as a dictionary of plain values, for JSON."""
        found: dict[str, Any] = {"id": self.servo_id, "baudrate": self.baudrate, "model_number": self.model_number}
        one = self.snapshot
        if one is None:
            return found | {"model": model_text(self.model_number), "registers": "not readable"}
        model = one.model
        unit_a = None if model is None else model.current_unit_a
        return found | {
            "model": model_text(self.model_number) if model is None else model.name,
            "firmware": one.get(table.FIRMWARE_VERSION),
            "operating_mode": table.OPERATING_MODES.get(one.get(table.OPERATING_MODE), "unknown"),
            "reverse_mode": bool(one.get(table.DRIVE_MODE) & REVERSED),
            "obeys": one.obeys,
            "current_limit_a": None if unit_a is None else round(one.get(table.CURRENT_LIMIT) * unit_a, 3),
            "position_count": one.get(table.PRESENT_POSITION),
            "torque": bool(one.get(table.TORQUE_ENABLE)),
            "voltage_v": round(one.get(table.PRESENT_INPUT_VOLTAGE) * table.VOLTAGE_V_PER_COUNT, 1),
            "temperature_deg_c": one.get(table.PRESENT_TEMPERATURE),
            "hardware_error": table.hardware_error_text(one.get(table.HARDWARE_ERROR_STATUS)),
        }


def scan_port(
    port: str,
    rates: Sequence[int] = OTHER_BAUD_RATES,
    *,
    clock: Clock = SYSTEM_CLOCK,
    opener: Callable[[str, int], WaitingPortHandler] = open_port,
) -> list[FoundServo]:
    """Return all servos that answer on a line at any of the given baud rates; nothing is written to them.

    Args:
        port: path of the serial device.
        rates: baud rates to try [bit/s].
        clock: clock of the line, see `ServoBus`.
        opener: opens the port, see `ServoBus`.

    Raises:
        BusError: the port cannot be used.
    """
    found: list[FoundServo] = []
    for rate in rates:
        bus = ServoBus(port, rate, (), clock=clock, opener=opener)
        bus.open()
        try:
            models_by_id = dict(scan_line(bus, bus.simulated))
            bus.models |= models_by_id
            found += [FoundServo(one, models_by_id[one], rate, _registers(bus, one)) for one in sorted(models_by_id)]
        finally:
            bus.close()
    return found


def _registers(bus: ServoBus, servo_id: int) -> Snapshot | None:
    try:
        return read_snapshot(bus, servo_id)
    except BusError:
        if not bus.is_open:
            raise
        return None


def blocks(found: Sequence[FoundServo], port: str) -> dict[str, Any]:
    """Return the blocks `servos` and `bus` of robot.yaml for the found servos.

    Torque constants [N m/A] are proposals that follow from published stall data; without such data they are 1.

    Args:
        found: the servos.
        port: path of the serial device.
    """
    models = {one.model_number: one.snapshot.model for one in found if one.snapshot is not None}
    servos = {
        model.name: {"model_number": number, "torque_constant_nm_per_a": model.torque_constant_nm_per_a or 1.0}
        for number, model in models.items()
        if model is not None and model.has_current_control
    }
    rates = sorted({one.baudrate for one in found}, key=lambda rate: -sum(one.baudrate == rate for one in found))
    bus: dict[str, Any] = {"port": port}
    if rates:
        first = sum(one.baudrate == rates[0] for one in found)
        bus |= {"baudrate": rates[0], "cycle_s": cycle_s(first, rates[0])}
    return {"servos": servos, "bus": bus}


def oddities(found: Sequence[FoundServo], robot: Robot | None) -> Iterator[str]:
    """Yield a sentence for each inconsistency among the found servos, and between them and a robot's file, if any."""
    rates = {one.baudrate for one in found}
    if len(rates) > 1:
        listed = "; ".join(f"{rate}: {_ids(one for one in found if one.baudrate == rate)}" for rate in sorted(rates))
        yield f"servos answer at different baud rates ({listed}): an arm's servos share one"
    for rate in sorted(rates):
        if why := unfit_rate(sum(one.baudrate == rate for one in found), rate):
            yield why
    present = {one.servo_id for one in found}
    for one in found:
        model = one.snapshot.model if one.snapshot is not None else None
        if one.snapshot is None:
            yield f"servo {one.servo_id} answers pings but not reads: its status return level is 0"
            continue
        if model is None or not model.has_current_control:
            yield f"servo {one.servo_id} is {model_text(one.model_number)}, which dynid does not drive"
        obeyed = one.snapshot.obeys
        if obeyed is not None:
            where = "" if obeyed in present else ", which does not answer"
            yield f"servo {one.servo_id} obeys servo {obeyed}{where}: shadow_ids: [{one.servo_id}] of that one's joint"
    if robot is not None:
        yield from _against(found, robot)


def _against(found: Sequence[FoundServo], robot: Robot) -> Iterator[str]:
    """Yield a sentence for each difference between the found servos and a robot's file."""
    by_id = {one.servo_id: one for one in found}
    for wired in robot.wired_servos:
        one = by_id.get(wired.servo_id)
        if one is None:
            yield f"{wired.label} of {robot.name} does not answer"
        elif one.model_number != wired.model_number:
            yield f"{wired.label} is {model_text(one.model_number)} instead of {model_text(wired.model_number)}"
        elif one.baudrate != robot.file.bus.baudrate:
            yield f"{wired.label} answers at {one.baudrate} bit/s instead of {robot.file.bus.baudrate}"
        elif one.snapshot is not None:
            if bool(one.snapshot.get(table.DRIVE_MODE) & REVERSED) != wired.reverse_mode:
                yield f"{wired.label}: its reverse mode is not that of robot.yaml"
            if one.snapshot.obeys not in (None, wired.obeys):
                yield f"{wired.label}: its secondary ID is not that of robot.yaml"
    known = {*robot.all_servo_ids, *robot.file.bus.other_ids}
    if unknown_servos := [one for one in found if one.servo_id not in known]:
        yield f"servos that {robot.name} does not have: {_ids(iter(unknown_servos))}"


def _ids(servos: Iterator[FoundServo]) -> str:
    return ", ".join(str(one.servo_id) for one in servos)
