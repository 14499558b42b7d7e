"""The control table of the DYNAMIXEL X series: registers, units, error texts, and each model's ranges and defaults.

Source: ROBOTIS e-manual, pages of the models that `control_table.csv` names, Protocol 2.0. Nothing here talks to a
servo. Raw register values are called counts; the conversions to and from SI are at the end.
"""

import csv
import math
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynid.robot import FloatArray

IntArray = NDArray[np.int64]
EEPROM_END = 64


@dataclass(frozen=True)
class Register:
    """One entry of the control table: `address` and `size` in bytes, little-endian.

    `limit` names the register that bounds this one's magnitude, '' for none; `unit` is that of one count.
    """

    name: str
    address: int
    size: int
    signed: bool = False
    writable: bool = True
    unit: str = ""
    limit: str = ""

    @property
    def in_eeprom(self) -> bool:
        """Whether the register keeps its value without power, and so is locked while torque is on."""
        return self.address < EEPROM_END

    @property
    def end(self) -> int:
        """The address after the register's last byte."""
        return self.address + self.size

    def to_bytes(self, count: int) -> bytes:
        """The register's bytes for a raw value; OverflowError when it does not fit."""
        return int(count).to_bytes(self.size, "little", signed=self.signed or count < 0)

    def from_bytes(self, data: bytes | bytearray) -> int:
        """The raw value from the register's bytes."""
        return int.from_bytes(data, "little", signed=self.signed)


@dataclass(frozen=True)
class Entry:
    """A register in one model: its raw value as delivered or after power-on, and which values may be written."""

    register: Register
    default: int
    allowed: Container[int]


def _read_table() -> tuple[dict[str, Register], dict[int, dict[int, Entry]]]:
    """The registers by name, and the entries of each model by model number and address."""
    with (Path(__file__).parent / "control_table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    registers: dict[str, Register] = {}
    models: dict[int, dict[int, Entry]] = {}
    for row in rows:
        address, size, signed = int(row["address"]), int(row["size"]), row["signed"] == "yes"
        shape = (row["name"], address, size, signed, "W" in row["access"], row["unit"], row["limit"])
        registers[row["name"]] = Register(*shape)
    for model in (column.removesuffix(" default") for column in rows[0] if column.endswith(" default")):
        entries = {}
        for row in rows:
            if row[f"{model} default"]:
                register, default = registers[row["name"]], int(row[f"{model} default"])
                entries[register.address] = Entry(register, default, _allowed(register, row[f"{model} range"]))
        models[entries[0].default] = entries  # at address 0 is the model number
    return registers, models


def _allowed(register: Register, text: str) -> Container[int]:
    """What may be written: `least..greatest`, values with | between them, or nothing for all that fit."""
    if not text:
        half = 1 << 8 * register.size - 1
        return range(-half, half) if register.signed else range(2 * half)
    if ".." in text:
        least, greatest = map(int, text.split(".."))
        return range(least, greatest + 1)
    return frozenset(map(int, text.split("|")))


_REGISTERS, MODELS = _read_table()
REGISTERS = tuple(_REGISTERS.values())
TABLE_SIZE = max(register.end for register in REGISTERS)
_LISTED = {  # addresses that every model has
    at
    for register in REGISTERS
    if all(register.address in one for one in MODELS.values())
    for at in range(register.address, register.end)
}

MODEL_NUMBER = _REGISTERS["model number"]
FIRMWARE_VERSION = _REGISTERS["firmware version"]
ID = _REGISTERS["ID"]
BAUD_RATE = _REGISTERS["baud rate"]
RETURN_DELAY_TIME = _REGISTERS["return delay time"]
DRIVE_MODE = _REGISTERS["drive mode"]
OPERATING_MODE = _REGISTERS["operating mode"]
SECONDARY_ID = _REGISTERS["secondary ID"]
HOMING_OFFSET = _REGISTERS["homing offset"]
MOVING_THRESHOLD = _REGISTERS["moving threshold"]
TEMPERATURE_LIMIT = _REGISTERS["temperature limit"]
MAX_VOLTAGE_LIMIT = _REGISTERS["max voltage limit"]
MIN_VOLTAGE_LIMIT = _REGISTERS["min voltage limit"]
PWM_LIMIT = _REGISTERS["PWM limit"]
CURRENT_LIMIT = _REGISTERS["current limit"]
VELOCITY_LIMIT = _REGISTERS["velocity limit"]
MAX_POSITION_LIMIT = _REGISTERS["max position limit"]
MIN_POSITION_LIMIT = _REGISTERS["min position limit"]
STARTUP_CONFIGURATION = _REGISTERS["startup configuration"]
SHUTDOWN = _REGISTERS["shutdown"]
TORQUE_ENABLE = _REGISTERS["torque enable"]
STATUS_RETURN_LEVEL = _REGISTERS["status return level"]
REGISTERED_INSTRUCTION = _REGISTERS["registered instruction"]
HARDWARE_ERROR_STATUS = _REGISTERS["hardware error status"]
BUS_WATCHDOG = _REGISTERS["bus watchdog"]
GOAL_PWM = _REGISTERS["goal PWM"]
GOAL_CURRENT = _REGISTERS["goal current"]
GOAL_VELOCITY = _REGISTERS["goal velocity"]
VELOCITY_I_GAIN, VELOCITY_P_GAIN = _REGISTERS["velocity I gain"], _REGISTERS["velocity P gain"]
POSITION_D_GAIN, POSITION_I_GAIN, POSITION_P_GAIN = (_REGISTERS[f"position {one} gain"] for one in "DIP")
PROFILE_ACCELERATION = _REGISTERS["profile acceleration"]
PROFILE_VELOCITY = _REGISTERS["profile velocity"]
GOAL_POSITION = _REGISTERS["goal position"]
REALTIME_TICK = _REGISTERS["realtime tick"]
MOVING = _REGISTERS["moving"]
PRESENT_PWM = _REGISTERS["present PWM"]
PRESENT_CURRENT = _REGISTERS["present current"]
PRESENT_VELOCITY = _REGISTERS["present velocity"]
PRESENT_POSITION = _REGISTERS["present position"]
PRESENT_INPUT_VOLTAGE = _REGISTERS["present input voltage"]
PRESENT_TEMPERATURE = _REGISTERS["present temperature"]
BACKUP_READY = _REGISTERS["backup ready"]

# (address of the first indirect data, one after the last, address of the first indirect address)
INDIRECT = ((224, 252, 168), (634, 662, 578))

# Current, velocity and position lie side by side, so one 10-byte block is an axis' whole state.
STATE_ADDRESS = PRESENT_CURRENT.address
STATE_SIZE = PRESENT_POSITION.end - PRESENT_CURRENT.address

CURRENT_MODE, VELOCITY_MODE, POSITION_MODE, CURRENT_BASED_POSITION_MODE, PWM_MODE = 0, 1, 3, 5, 16
OPERATING_MODES = {
    0: "current",
    1: "velocity",
    3: "position",
    4: "extended position",
    5: "current-based position",
    16: "PWM",
}
NO_ID, FULL_PWM = 255, 885
WATCHDOG_TRIPPED = -1
STATUS_RETURN_ALL = 2
BAUD_RATES = {0: 9_600, 1: 57_600, 2: 115_200, 3: 1_000_000, 4: 2_000_000, 5: 3_000_000, 6: 4_000_000, 7: 4_500_000}

ALERT_BIT = 0x80
CRC_ERROR = 3
STATUS_ERRORS = {
    1: "result fail: the servo could not execute the instruction",
    2: "instruction error: unknown instruction",
    3: "CRC error: the instruction arrived corrupted",
    4: "data range error: the value is outside the register's range",
    5: "data length error: fewer bytes than the register",
    6: "data limit error: the value is beyond the servo's own limit",
    7: "access error: read-only, write-only, or EEPROM while torque is on",
}
HARDWARE_ERRORS = {0: "input voltage", 2: "overheating", 3: "motor encoder", 4: "electrical shock", 5: "overload"}

CURRENT_A_PER_COUNT = 0.00269
VELOCITY_RAD_S_PER_COUNT = 0.0239808
COUNTS_PER_TURN = 4096
POSITION_RAD_PER_COUNT = 2.0 * math.pi / COUNTS_PER_TURN
CENTRE_COUNT = 2048
WATCHDOG_S_PER_COUNT = 0.020
RETURN_DELAY_S_PER_COUNT = 2e-6
VOLTAGE_V_PER_COUNT = 0.1


def listed_parts(address: int, size: int) -> list[tuple[int, int]]:
    """(address, size) of the parts of a block without addresses that a model does not list."""
    starts = [at for at in range(address, address + size) if at in _LISTED and (at == address or at - 1 not in _LISTED)]
    ends = [at for at in range(address + 1, address + size) if at not in _LISTED and at - 1 in _LISTED]
    return [(at, min((end for end in ends if end > at), default=address + size) - at) for at in starts]


def status_error_text(error: int) -> str:
    """Words for the error byte of a status packet, the alert bit included; empty when there is none."""
    number = error & ~ALERT_BIT
    texts = [STATUS_ERRORS.get(number, f"unknown error number {number}")] if number else []
    if error & ALERT_BIT:
        texts.append("hardware alert")
    return "; ".join(texts)


def hardware_error_text(status: int) -> str:
    """Words for a hardware error status register; empty when no bit is set."""
    return ", ".join(HARDWARE_ERRORS.get(bit, f"bit {bit}") for bit in range(8) if status >> bit & 1)


def current_from_counts(counts: IntArray) -> FloatArray:
    """Current [A] from signed counts, any shape."""
    return np.asarray(counts, dtype=np.float64) * CURRENT_A_PER_COUNT


def current_to_counts(current_a: FloatArray) -> IntArray:
    """Signed counts nearest to a current [A], any shape."""
    return np.rint(np.asarray(current_a) / CURRENT_A_PER_COUNT).astype(np.int64)


def velocity_from_counts(counts: IntArray) -> FloatArray:
    """Velocity [rad/s] from signed counts, any shape."""
    return np.asarray(counts, dtype=np.float64) * VELOCITY_RAD_S_PER_COUNT


def velocity_to_counts(velocity: FloatArray) -> IntArray:
    """Signed counts nearest to a velocity [rad/s], any shape."""
    return np.rint(np.asarray(velocity) / VELOCITY_RAD_S_PER_COUNT).astype(np.int64)


def position_from_counts(counts: IntArray, centre_count: int = CENTRE_COUNT) -> FloatArray:
    """Angle [rad] from counts, any shape; `centre_count` is where the angle is zero."""
    return (np.asarray(counts, dtype=np.float64) - centre_count) * POSITION_RAD_PER_COUNT


def position_to_counts(position: FloatArray, centre_count: int = CENTRE_COUNT) -> IntArray:
    """Counts nearest to an angle [rad], any shape; `centre_count` is where the angle is zero."""
    return np.rint(np.asarray(position) / POSITION_RAD_PER_COUNT).astype(np.int64) + centre_count


def watchdog_to_count(seconds: float) -> int:
    """Bus watchdog register value for a time [s], rounded up to 20 ms steps; ValueError outside 1..127."""
    count = math.ceil(seconds / WATCHDOG_S_PER_COUNT - 1e-9)
    if not 1 <= count <= 127:
        raise ValueError(f"bus watchdog {seconds} s is outside 0.02 to 2.54 s")
    return count
