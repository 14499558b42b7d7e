"""Which servos are on a line, and what their registers hold: read only, nothing is changed."""

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

PING_SLOT_S = 0.003  # a servo that answers a broadcast ping waits so long for every id before its own
SIMULATED_SILENCE_S = 0.06  # a simulated line has no slots
MOST_ROUNDS = 3  # of pings to silent servos, while answers come late
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
    """Who answers on a line.

    Attributes:
        models: model number by id, of all that answer.
        missing: the robot's servos that do not.
        unexpected: those that answer and are not the robot's.
        wrong: the robot's ids at which another model answers.
        corrupted: ids that send corrupted packets: two servos with one id, or a bad line.
    """

    models: Mapping[int, int]
    missing: tuple[int, ...]
    unexpected: tuple[int, ...]
    wrong: tuple[int, ...]
    garbled: tuple[int, ...]

    @property
    def complete(self) -> bool:
        """Whether these are the robot's servos and no others."""
        return not (self.missing or self.unexpected or self.wrong or self.garbled)


def find_servos(bus: ServoBus, robot: Robot, simulated: bool) -> Presence:
    """Ping every servo of the robot, then find unexpected ones by a broadcast ping.

    A servo that answers nothing costs a second, and each further one 60 ms: it is the host that may need longer.

    Raises:
        SilentLineError: servos answered, and then none does any more.
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
                    bus.dialogue.settle()  # where nobody answers any more, these are not the ones to blame
            if bus.dialogue.late == late:
                break  # whoever is silent is so on a host that is not
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
    """Ping servos, and note the model numbers of those that answer; only the first silent one is waited for so long."""
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
    """(id, model number) of the servos that answer at other baud rates, by rate [bit/s]."""
    found = {}
    for baudrate in OTHER_BAUD_RATES:
        if baudrate != bus.baudrate:
            with bus.at_baudrate(baudrate):
                servos = [one for one in scan_line(bus, simulated) if _is_there(bus, one[0])]
            if servos:
                found[baudrate] = servos
    return found


def _is_there(bus: ServoBus, servo_id: int) -> bool:
    """Whether a servo answers at this rate: what a scan found may be a late answer at another."""
    try:
        bus.ping(servo_id)
    except BusTimeoutError:
        return False
    except BusError:
        if not bus.is_open:
            raise
    return True


def scan_line(bus: ServoBus, simulated: bool, expected: Collection[int] = ()) -> list[tuple[int, int]]:
    """Scan the line, and once more if none of the servos that are known to be there answered in time."""
    ids = MAX_SERVO_ID + 1
    window_s = PING_SLOT_S * ids + bus.wire_s((STATUS_OVERHEAD + PING_PARAMETERS) * ids)
    silence_s = SIMULATED_SILENCE_S if simulated else window_s
    found = scan(bus, window_s, silence_s, expected)
    if expected and not found:
        bus.dialogue.settle()
        found = scan(bus, window_s, silence_s, expected)
    return found


class Snapshot:
    """The registers of one servo as they were read."""

    def __init__(self, servo_id: int, blocks: Mapping[int, bytes]) -> None:
        self.servo_id = servo_id
        self._blocks = blocks

    def get(self, register: Register) -> int:
        """A register's raw value; KeyError for one that was not read."""
        for address, data in self._blocks.items():
            if address <= register.address and register.end <= address + len(data):
                return register.from_bytes(data[register.address - address : register.end - address])
        raise KeyError(register.name)

    @property
    def model(self) -> Dynamixel | None:
        """The servo's model by the number in its register; None if dynid does not know that."""
        return DYNAMIXELS.get(self.get(table.MODEL_NUMBER))


def read_snapshot(bus: ServoBus, servo_id: int) -> Snapshot:
    """The registers of one servo that a start depends on.

    Raises:
        MuteServoError: it answers pings, but no reads.
        BusTimeoutError: it does not answer within a second; a SilentLineError if no servo does.
        BusError: its answers cannot be understood.
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
