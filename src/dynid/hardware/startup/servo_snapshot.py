"""Search for the servos on a serial line, and reading of their registers; nothing is written to them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dynid.errors import BusError, BusTimeoutError, MuteServoError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.broadcast_ping import scan
from dynid.hardware.bus.control_table import Register
from dynid.hardware.bus.dialogue import PATIENT_S, PING_PARAMETERS, QUICK_S, STATUS_OVERHEAD
from dynid.hardware.bus.protocol import MAX_SERVO_ID
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.servos.models import DYNAMIXELS, Dynamixel
from dynid.robot import Robot

PING_SLOT_S = 0.003  # delay of a servo's answer to a broadcast ping per ID below its own
SIMULATED_SILENCE_S = 0.06  # silence that ends a scan of a simulated line, which has no such delays
MOST_ROUNDS = 3  # rounds of pings to silent servos while answers come late
GARBLED_REMEDY = "two servos share an id, or the line is bad; connect one servo at a time and give each a unique id"
OTHER_BAUD_RATES = (57_600, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 115_200)
_BLOCKS = (
    (0, table.HARDWARE_ERROR_STATUS.end),
    (table.BUS_WATCHDOG.address, table.BUS_WATCHDOG.size),
    (table.GOAL_PWM.address, table.GOAL_PWM.size),
    (table.PRESENT_CURRENT.address, table.PRESENT_TEMPERATURE.end - table.PRESENT_CURRENT.address),
)


@dataclass(frozen=True)
class Presence:
    """Servos that answer on a serial line, compared with those of a robot's file.

    Attributes:
        models: model numbers by ID, of all servos that answer.
        missing: IDs of the robot's servos that do not answer.
        unexpected: IDs of servos that answer although robot.yaml lists them neither in joints nor under `other_ids`.
        wrong: IDs of the robot's servos that answer with another model number.
        garbled: IDs of the robot's servos that send corrupted packets, because two servos have the same ID or the line
            is bad.
    """

    models: Mapping[int, int]
    missing: tuple[int, ...]
    unexpected: tuple[int, ...]
    wrong: tuple[int, ...]
    garbled: tuple[int, ...]

    @property
    def complete(self) -> bool:
        """Whether all of the robot's servos answer correctly, and no unexpected servos answer."""
        return not (self.missing or self.unexpected or self.wrong or self.garbled)


def find_servos(bus: ServoBus, robot: Robot, simulated: bool) -> Presence:
    """Ping every servo of the robot, then find unexpected servos by a broadcast ping; return which servos answer.

    The search waits a second for the first silent servo and 60 ms for each further silent servo, because a busy host
    may delay answers.

    Args:
        bus: an open bus.
        robot: the expected robot.
        simulated: whether the line is simulated, which shortens the search.

    Raises:
        SilentLineError: servos answered before, but no servo answers any more.
        BusError: the port is lost.
    """
    models: dict[int, int] = {}
    garbled: list[int] = []
    with bus.patiently():
        _ping_each(bus, robot.all_servo_ids, QUICK_S, models, garbled)
        for _ in range(MOST_ROUNDS):
            silent = [one for one in robot.all_servo_ids if one not in models and one not in garbled]
            late = bus.dialogue.late
            if silent:
                _ping_each(bus, silent, PATIENT_S, models, garbled)
                if models:
                    bus.dialogue.settle()  # raises an error if no servo answers any more
            if bus.dialogue.late == late:
                break  # no answer was late, so silence is not the host's fault
        for servo_id, model in scan_line(bus, simulated, models):
            models.setdefault(servo_id, model)
    expected = {one.servo_id: one.model_number for one in robot.wired_servos}
    return Presence(
        models=models,
        missing=tuple(one for one in expected if one not in models and one not in garbled),
        unexpected=tuple(sorted(set(models) - set(expected) - set(robot.file.bus.other_ids))),
        wrong=tuple(one for one, model in expected.items() if models.get(one, model) != model),
        garbled=tuple(garbled),
    )


def _ping_each(
    bus: ServoBus, servo_ids: Sequence[int], waits_s: Sequence[float], models: dict[int, int], garbled: list[int]
) -> None:
    """Ping servos, and record model numbers and corrupted answers.

    Args:
        bus: an open bus.
        servo_ids: IDs to ping.
        waits_s: wait times of the attempts to ping one servo [s]. Once a servo has been silent in all of them, the
            shorter times `QUICK_S` apply to the servos after it.
        models: output, model numbers by ID.
        garbled: output, IDs of the servos that send corrupted packets.
    """
    for servo_id in servo_ids:
        try:
            models[servo_id] = bus.ping(servo_id, waits_s)
        except BusTimeoutError:
            waits_s = QUICK_S
        except BusError:
            if not bus.is_open:
                raise
            garbled.append(servo_id)


def find_elsewhere(bus: ServoBus, simulated: bool) -> dict[int, list[tuple[int, int]]]:
    """Search for servos at all baud rates except that of the bus.

    Args:
        bus: an open bus; its baud rate is not tried.
        simulated: whether the line is simulated, which shortens the search.

    Returns:
        (ID, model number) of the servos that answer, by baud rate [bit/s].
    """
    found = {}
    for baudrate in OTHER_BAUD_RATES:
        if baudrate != bus.baudrate:
            with bus.at_baudrate(baudrate):
                servos = [one for one in scan_line(bus, simulated) if _is_there(bus, one[0])]
            if servos:
                found[baudrate] = servos
    return found


def _is_there(bus: ServoBus, servo_id: int) -> bool:
    """Return whether a servo answers at the bus' present baud rate.

    This check verifies the result of a scan, which may include a late answer to a ping at another baud rate.
    """
    try:
        bus.ping(servo_id)
    except BusTimeoutError:
        return False
    except BusError:
        if not bus.is_open:
            raise
    return True


def scan_line(bus: ServoBus, simulated: bool, expected: Collection[int] = ()) -> list[tuple[int, int]]:
    """Return (ID, model number) of all servos on the line, found by a broadcast ping.

    The scan is repeated once if servos are expected and none answered in time.

    Args:
        bus: an open bus.
        simulated: whether the line is simulated, which shortens the wait.
        expected: IDs of servos that are known to be on the line.
    """
    ids = MAX_SERVO_ID + 1
    window_s = PING_SLOT_S * ids + bus.wire_s((STATUS_OVERHEAD + PING_PARAMETERS) * ids)
    silence_s = SIMULATED_SILENCE_S if simulated else window_s
    found = scan(bus, window_s, silence_s, expected)
    if expected and not found:
        bus.dialogue.settle()
        found = scan(bus, window_s, silence_s, expected)
    return found


class Snapshot:
    """Values of one servo's registers at the time of reading.

    Args:
        servo_id: ID of the servo.
        blocks: register bytes by the address of their first byte.
    """

    def __init__(self, servo_id: int, blocks: Mapping[int, bytes]) -> None:
        self.servo_id = servo_id
        self._blocks = blocks

    def get(self, register: Register) -> int:
        """Return the raw value of a register.

        Raises:
            KeyError: the register was not read.
        """
        for address, data in self._blocks.items():
            if address <= register.address and register.end <= address + len(data):
                return register.from_bytes(data[register.address - address : register.end - address])
        raise KeyError(register.name)

    @property
    def model(self) -> Dynamixel | None:
        """Model of the servo, by its model number register; None if the number is unknown."""
        return DYNAMIXELS.get(self.get(table.MODEL_NUMBER))

    @property
    def obeys(self) -> int | None:
        """ID of another servo whose commands this servo also executes (its secondary ID); None if there is none."""
        secondary = self.get(table.SECONDARY_ID)
        return None if secondary in (table.NO_ID, self.servo_id) else secondary


def read_snapshot(bus: ServoBus, servo_id: int) -> Snapshot:
    """Read all registers of one servo that the start of a driver depends on, and return their values.

    Raises:
        MuteServoError: the servo answers pings, but no reads.
        BusTimeoutError: the servo does not answer within a second. It is a SilentLineError if no servo answers.
        BusError: its answers are damaged.
    """
    damaged = bus.parser.crc_errors + bus.parser.malformed
    try:
        with bus.patiently():
            return Snapshot(servo_id, {address: bus.read_range(servo_id, address, size) for address, size in _BLOCKS})
    except MuteServoError:
        raise MuteServoError(
            f"servo {servo_id} on {bus.port} answers pings but not reads: its status return level is 0, or it is "
            "another kind of device"
        ) from None
    except BusTimeoutError:
        raise
    except BusError:
        if not bus.is_open or bus.parser.crc_errors + bus.parser.malformed == damaged:
            raise
        raise BusError(f"servo {servo_id} on {bus.port} sends corrupted packets: {GARBLED_REMEDY}") from None
