"""The control table of the DYNAMIXEL X series as data: addresses, units, error texts.

Source: ROBOTIS e-manual, "Control Table of the X series" (XM430-W350, XM540-W270, Protocol 2.0). Nothing here
does I/O. Raw register values are called counts; the conversions to and from SI are at the end.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.robot import FloatArray

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Register:
    """One entry of the control table: `address` and `size` in bytes, little-endian."""

    name: str
    address: int
    size: int
    signed: bool = False
    writable: bool = True

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


EEPROM_END = 64
TABLE_SIZE = 147

MODEL_NUMBER = Register("model number", 0, 2, writable=False)
FIRMWARE_VERSION = Register("firmware version", 6, 1, writable=False)
ID = Register("ID", 7, 1)
BAUD_RATE = Register("baud rate", 8, 1)
RETURN_DELAY_TIME = Register("return delay time", 9, 1)
DRIVE_MODE = Register("drive mode", 10, 1)
OPERATING_MODE = Register("operating mode", 11, 1)
HOMING_OFFSET = Register("homing offset", 20, 4, signed=True)
TEMPERATURE_LIMIT = Register("temperature limit", 31, 1)
MAX_VOLTAGE_LIMIT = Register("max voltage limit", 32, 2)
MIN_VOLTAGE_LIMIT = Register("min voltage limit", 34, 2)
PWM_LIMIT = Register("PWM limit", 36, 2)
CURRENT_LIMIT = Register("current limit", 38, 2)
VELOCITY_LIMIT = Register("velocity limit", 44, 4)
MAX_POSITION_LIMIT = Register("max position limit", 48, 4)
MIN_POSITION_LIMIT = Register("min position limit", 52, 4)
SHUTDOWN = Register("shutdown", 63, 1)
TORQUE_ENABLE = Register("torque enable", 64, 1)
STATUS_RETURN_LEVEL = Register("status return level", 68, 1)
HARDWARE_ERROR_STATUS = Register("hardware error status", 70, 1, writable=False)
BUS_WATCHDOG = Register("bus watchdog", 98, 1, signed=True)
GOAL_CURRENT = Register("goal current", 102, 2, signed=True)
REALTIME_TICK = Register("realtime tick", 120, 2, writable=False)
PRESENT_PWM = Register("present PWM", 124, 2, signed=True, writable=False)
PRESENT_CURRENT = Register("present current", 126, 2, signed=True, writable=False)
PRESENT_VELOCITY = Register("present velocity", 128, 4, signed=True, writable=False)
PRESENT_POSITION = Register("present position", 132, 4, signed=True, writable=False)
PRESENT_INPUT_VOLTAGE = Register("present input voltage", 144, 2, writable=False)
PRESENT_TEMPERATURE = Register("present temperature", 146, 1, writable=False)

REGISTERS: tuple[Register, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Register))

# Current, velocity and position lie side by side, so one 10-byte block is an axis' whole state.
STATE_ADDRESS = PRESENT_CURRENT.address
STATE_SIZE = PRESENT_POSITION.end - PRESENT_CURRENT.address

CURRENT_MODE = 0
POSITION_MODE = 3
OPERATING_MODES = {
    0: "current",
    1: "velocity",
    3: "position",
    4: "extended position",
    5: "current-based position",
    16: "PWM",
}
WATCHDOG_TRIPPED = -1
STATUS_RETURN_ALL = 2
BAUD_RATES = {0: 9_600, 1: 57_600, 2: 115_200, 3: 1_000_000, 4: 2_000_000, 5: 3_000_000, 6: 4_000_000, 7: 4_500_000}

ALERT_BIT = 0x80
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
