"""Control table of DYNAMIXEL servos: registers, units that all models share, and error texts.

`dynid.hardware.servos` has the registers of each model, their defaults and ranges, and its unit of current. This module
does not communicate with servos. Raw register values are called counts; `servo_units` converts them to and from SI.
"""

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.servos.models import DYNAMIXELS
from dynid.hardware.servos.registers import BAUD_RATES as BAUD_RATES
from dynid.hardware.servos.registers import EEPROM_END as EEPROM_END
from dynid.hardware.servos.registers import REGISTERS as _REGISTERS
from dynid.hardware.servos.registers import Entry as Entry
from dynid.hardware.servos.registers import Register as Register

IntArray = NDArray[np.int64]

MODELS = {number: model.entries for number, model in DYNAMIXELS.items()}
REGISTERS = tuple(_REGISTERS.values())
TABLE_SIZE = max(entry.register.end for entries in MODELS.values() for entry in entries.values())
_LISTED_BY_ALL = frozenset.intersection(*(model.listed for model in DYNAMIXELS.values()))

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

# Current, velocity and position have adjacent addresses, so one 10-byte block holds the whole state of an axis.
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

VELOCITY_RAD_S_PER_COUNT = 0.0239808
COUNTS_PER_TURN = 4096
POSITION_RAD_PER_COUNT = 2.0 * math.pi / COUNTS_PER_TURN
WATCHDOG_S_PER_COUNT = 0.020
RETURN_DELAY_S_PER_COUNT = 2e-6
VOLTAGE_V_PER_COUNT = 0.1


def listed_parts(address: int, size: int, model_number: int | None = None) -> list[tuple[int, int]]:
    """Return the parts of a register block that exist in a servo model's control table, as (address, size).

    Addresses that the control table does not contain are left out.

    Args:
        address: first address of the block.
        size: number of bytes of the block.
        model_number: model number of the servo. If it is None or unknown, only addresses in the control tables of all
            models are kept.
    """
    model = DYNAMIXELS.get(-1 if model_number is None else model_number)
    listed: Collection[int] = _LISTED_BY_ALL if model is None else model.listed
    starts = [at for at in range(address, address + size) if at in listed and (at == address or at - 1 not in listed)]
    ends = [at for at in range(address + 1, address + size) if at not in listed and at - 1 in listed]
    return [(at, min((end for end in ends if end > at), default=address + size) - at) for at in starts]


def status_error_text(error: int) -> str:
    """Return a description of a status packet's error byte with its alert bit; '' if there is no error."""
    number = error & ~ALERT_BIT
    texts = [STATUS_ERRORS.get(number, f"unknown error number {number}")] if number else []
    if error & ALERT_BIT:
        texts.append("hardware alert")
    return "; ".join(texts)


def hardware_error_text(status: int) -> str:
    """Return a description of a hardware error status register; '' if no bit is set."""
    return ", ".join(HARDWARE_ERRORS.get(bit, f"bit {bit}") for bit in range(8) if status >> bit & 1)


def watchdog_to_count(seconds: float) -> int:
    """Return the value of the bus watchdog register for a timeout [s], rounded up to steps of 20 ms.

    Raises:
        ValueError: the register value would be outside 1..127.
    """
    count = math.ceil(seconds / WATCHDOG_S_PER_COUNT - 1e-9)
    if not 1 <= count <= 127:
        raise ValueError(f"bus watchdog {seconds} s is outside 0.02 to 2.54 s")
    return count
