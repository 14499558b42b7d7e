"""One emulated X-series servo: its control table and the rules for reading and writing it.

Source of the rules: ROBOTIS e-manual, "XM430-W350" control table. Only current mode drives the motor; in any other
mode the emulated motor carries no current.
"""

import struct

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.control_table import Register

RESULT_FAIL, INSTRUCTION_ERROR, RANGE_ERROR, LENGTH_ERROR, LIMIT_ERROR, ACCESS_ERROR = 1, 2, 4, 5, 6, 7

_ALLOWED = {
    table.OPERATING_MODE: frozenset(table.OPERATING_MODES),
    table.BAUD_RATE: frozenset(table.BAUD_RATES),
    table.RETURN_DELAY_TIME: frozenset(range(255)),
    table.DRIVE_MODE: frozenset((0, 1, 4, 5, 8, 9, 12, 13)),
    table.TORQUE_ENABLE: frozenset((0, 1)),
    table.STATUS_RETURN_LEVEL: frozenset((0, 1, 2)),
    table.BUS_WATCHDOG: frozenset(range(128)),
}
_BY_ADDRESS = {register.address: register for register in table.REGISTERS}
_GOALS = range(100, 120)
_STATE = struct.Struct("<hii")
_INT16 = struct.Struct("<h")
# What every cycle needs, at its place in the table: the general way takes longer than the arm's own mechanics.
_TORQUE_AT, _MODE_AT, _WATCHDOG_AT = (
    register.address for register in (table.TORQUE_ENABLE, table.OPERATING_MODE, table.BUS_WATCHDOG)
)
_GOAL_CURRENT_AT, _CURRENT_LIMIT_AT = table.GOAL_CURRENT.address, table.CURRENT_LIMIT.address
_TICK_AT = table.REALTIME_TICK.address
_TRIPPED_BYTE = table.WATCHDOG_TRIPPED & 0xFF


class Servo:
    """A servo's registers; starts as delivered, but with the given id and at the bus' baud rate.

    Args:
        servo_id: id on the bus.
        model_number: as answered to a ping.
        current_limit_count: the factory value of the current limit register.
        baud_code: value of the baud rate register.
    """

    def __init__(self, servo_id: int, model_number: int, current_limit_count: int, baud_code: int = 5) -> None:
        self.bytes = bytearray(table.TABLE_SIZE)
        self.torque_was_enabled = False
        factory = {
            table.MODEL_NUMBER: model_number,
            table.FIRMWARE_VERSION: 48,
            table.ID: servo_id,
            table.BAUD_RATE: baud_code,
            table.RETURN_DELAY_TIME: 250,
            table.OPERATING_MODE: table.POSITION_MODE,
            table.TEMPERATURE_LIMIT: 80,
            table.MAX_VOLTAGE_LIMIT: 160,
            table.MIN_VOLTAGE_LIMIT: 95,
            table.PWM_LIMIT: 885,
            table.CURRENT_LIMIT: current_limit_count,
            table.VELOCITY_LIMIT: 200,
            table.MAX_POSITION_LIMIT: 4095,
            table.SHUTDOWN: 0b110100,
        }
        for register, value in factory.items():
            self.set(register, value)
        self.reboot()

    def reboot(self) -> None:
        """Start: RAM registers as after power-on, torque off, errors cleared, EEPROM kept."""
        self.bytes[table.EEPROM_END :] = bytes(table.TABLE_SIZE - table.EEPROM_END)
        self.set(table.STATUS_RETURN_LEVEL, table.STATUS_RETURN_ALL)
        self.set(table.GOAL_CURRENT, self.get(table.CURRENT_LIMIT))
        self.set(table.PRESENT_INPUT_VOLTAGE, 120)
        self.set(table.PRESENT_TEMPERATURE, 35)

    def get(self, register: Register) -> int:
        """A register's raw value."""
        return register.from_bytes(self.bytes[register.address : register.end])

    def set(self, register: Register, count: int) -> None:
        """Set a register's raw value past all rules, as the servo itself does."""
        self.bytes[register.address : register.end] = register.to_bytes(count)

    @property
    def servo_id(self) -> int:
        """Id on the bus."""
        return self.bytes[table.ID.address]

    @property
    def torque_enabled(self) -> bool:
        """Whether the motor may carry current."""
        return bool(self.bytes[table.TORQUE_ENABLE.address])

    @property
    def alert(self) -> int:
        """The alert bit of the status error byte, or 0."""
        return table.ALERT_BIT if self.bytes[table.HARDWARE_ERROR_STATUS.address] else 0

    @property
    def drive_current_count(self) -> int:
        """The current commanded to the motor; 0 unless torque is on, in current mode, watchdog not tripped."""
        found = self.bytes
        if not found[_TORQUE_AT] or found[_MODE_AT] != table.CURRENT_MODE or found[_WATCHDOG_AT] == _TRIPPED_BYTE:
            return 0
        return int(_INT16.unpack_from(found, _GOAL_CURRENT_AT)[0])

    @property
    def watchdog_tripped(self) -> bool:
        """Whether the bus was silent for too long; goals are read-only until 0 is written to the watchdog."""
        return self.bytes[_WATCHDOG_AT] == _TRIPPED_BYTE

    @property
    def watchdog_s(self) -> float:
        """The armed watchdog time [s]; infinity when off or tripped."""
        count = self.bytes[_WATCHDOG_AT]
        return count * table.WATCHDOG_S_PER_COUNT if 0 < count != _TRIPPED_BYTE else float("inf")

    def trip_watchdog(self) -> None:
        """What the servo does when the bus was silent for longer than the watchdog time."""
        self.set(table.BUS_WATCHDOG, table.WATCHDOG_TRIPPED)

    def raise_hardware_error(self, bits: int) -> None:
        """Set bits of the hardware error status; those in the shutdown register switch the torque off."""
        self.bytes[table.HARDWARE_ERROR_STATUS.address] |= bits
        if bits & self.bytes[table.SHUTDOWN.address]:
            self.set(table.TORQUE_ENABLE, 0)

    def set_state(self, current_count: int, velocity_count: int, position_count: int, tick_ms: int) -> None:
        """What the sensors read now."""
        _STATE.pack_into(self.bytes, table.STATE_ADDRESS, current_count, velocity_count, position_count)
        _INT16.pack_into(self.bytes, _TICK_AT, tick_ms)

    def read(self, address: int, size: int) -> tuple[int, bytes]:
        """(status error, data) for a read instruction."""
        if size == 0 or address + size > table.TABLE_SIZE:
            return RANGE_ERROR, b""
        return 0, bytes(self.bytes[address : address + size])

    def write(self, address: int, data: bytes) -> int:
        """Carry out a write instruction; the status error, 0 if it succeeded. A refused write changes nothing."""
        if not data or address + len(data) > table.TABLE_SIZE:
            return RANGE_ERROR
        writes, error = self._split(address, data)
        for register, value in writes:
            error = error or self._refusal(register, value)
        if error:
            return error
        mode_before = self.get(table.OPERATING_MODE)
        self.bytes[address : address + len(data)] = data
        if self.get(table.OPERATING_MODE) != mode_before:
            self.set(table.GOAL_CURRENT, self.get(table.CURRENT_LIMIT))
        self.torque_was_enabled |= self.torque_enabled
        return 0

    def write_goal_current(self, count: int) -> None:
        """What `write` does with a goal current, quickly and without a status."""
        if abs(count) <= _INT16.unpack_from(self.bytes, _CURRENT_LIMIT_AT)[0] and not self.watchdog_tripped:
            _INT16.pack_into(self.bytes, _GOAL_CURRENT_AT, count)

    def _split(self, address: int, data: bytes) -> tuple[list[tuple[Register, int]], int]:
        writes = []
        position = address
        while position < address + len(data):
            register = _BY_ADDRESS.get(position)
            if register is None:
                position += 1
                continue
            piece = data[position - address : register.end - address]
            if len(piece) < register.size:
                return [], LENGTH_ERROR
            writes.append((register, register.from_bytes(piece)))
            position = register.end
        return writes, 0

    def _refusal(self, register: Register, value: int) -> int:
        locked = register.in_eeprom and self.torque_enabled
        if locked or not register.writable:
            return ACCESS_ERROR
        if value not in _ALLOWED.get(register, (value,)) or (register.address in _GOALS and self.watchdog_tripped):
            return RANGE_ERROR
        if register is table.GOAL_CURRENT and abs(value) > self.get(table.CURRENT_LIMIT):
            return LIMIT_ERROR
        if register is table.TORQUE_ENABLE and value and self.alert:
            return RESULT_FAIL
        return 0
