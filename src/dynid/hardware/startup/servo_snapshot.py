"""Which servos are on a line, and what their registers hold: read only, nothing is changed."""

from collections.abc import Mapping
from dataclasses import dataclass

from dynid.errors import BusError, BusTimeoutError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.control_table import Register
from dynid.hardware.bus.port import REPLY_LATENCY_MS
from dynid.hardware.bus.protocol import MAX_SERVO_ID
from dynid.hardware.bus.servo_bus import ATTEMPTS, PING_PARAMETERS, STATUS_OVERHEAD, ServoBus
from dynid.robot import Robot

PING_SLOT_S = 0.003  # a servo that answers a broadcast ping waits so long for every id before its own
SIMULATED_SILENCE_S = 0.06  # a simulated line has no slots
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
    """Ping every servo of the robot, and then whoever else is there; BusError if the port is lost."""
    models: dict[int, int] = {}
    garbled: list[int] = []
    for servo_id in robot.servo_ids:
        try:
            models[servo_id] = bus.ping(servo_id)
        except BusTimeoutError:
            continue
        except BusError:
            if not bus.is_open:
                raise
            garbled.append(servo_id)
    for servo_id, model in _scan(bus, simulated):
        models.setdefault(servo_id, model)
    expected = dict(zip(robot.servo_ids, robot.model_numbers, strict=True))
    return Presence(
        models=models,
        missing=tuple(one for one in expected if one not in models and one not in garbled),
        unexpected=tuple(sorted(set(models) - set(expected))),
        wrong=tuple(one for one, model in expected.items() if models.get(one, model) != model),
        garbled=tuple(garbled),
    )


def find_elsewhere(bus: ServoBus, simulated: bool) -> dict[int, list[tuple[int, int]]]:
    """(id, model number) of the servos that answer at other baud rates, by rate [bit/s]."""
    found = {}
    for baudrate in OTHER_BAUD_RATES:
        if baudrate != bus.baudrate:
            with bus.at_baudrate(baudrate):
                servos = _scan(bus, simulated)
            if servos:
                found[baudrate] = servos
    return found


def _scan(bus: ServoBus, simulated: bool) -> list[tuple[int, int]]:
    ids = MAX_SERVO_ID + 1
    window_s = PING_SLOT_S * ids + bus.wire_s((STATUS_OVERHEAD + PING_PARAMETERS) * ids)
    return bus.scan(window_s, SIMULATED_SILENCE_S if simulated else window_s)


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


def read_snapshot(bus: ServoBus, servo_id: int) -> Snapshot:
    """The registers of one servo that a start depends on.

    Raises:
        BusTimeoutError: it does not answer reads.
        BusError: its answers cannot be understood.
    """
    blocks: dict[int, bytes] = {}
    damaged = bus.parser.crc_errors + bus.parser.malformed
    for address, size in _BLOCKS:
        for attempt in range(ATTEMPTS):
            bus.retries += attempt > 0
            data = bus.read_block(servo_id, address, size, REPLY_LATENCY_MS * 1e-3)
            if data is not None:
                blocks[address] = data
                break
        else:
            if bus.parser.crc_errors + bus.parser.malformed > damaged:
                raise BusError(f"servo {servo_id} on {bus.port} sends corrupted packets: {GARBLED_REMEDY}")
            raise BusTimeoutError(
                f"servo {servo_id} on {bus.port} answers pings but not reads: its status return level is 0, or it is "
                "another kind of device"
            )
    return Snapshot(servo_id, blocks)
