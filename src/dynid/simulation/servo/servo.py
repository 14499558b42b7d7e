"""Emulated X-series servo: its control table and the rules for reading and writing it.

Source of the rules: ROBOTIS e-manual, the models' pages and "DYNAMIXEL Protocol 2.0". `UndocumentedBehaviour` has
switches for rules that the e-manual leaves open. The module `own_loops` computes the motor current outside current
mode.
"""

import struct
from collections.abc import Sequence

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.control_table import Register
from dynid.hardware.servos.models import DYNAMIXELS
from dynid.simulation.servo.undocumented import (
    ACCESS_ERROR,
    LENGTH_ERROR,
    LIMIT_ERROR,
    RANGE_ERROR,
    RESULT_FAIL,
    UndocumentedBehaviour,
)

_GOALS = (table.GOAL_PWM, table.GOAL_CURRENT, table.GOAL_VELOCITY, table.GOAL_POSITION)
_PROFILE = (table.PROFILE_ACCELERATION, table.PROFILE_VELOCITY)
_SHIFTING = (table.HOMING_OFFSET, table.DRIVE_MODE, table.OPERATING_MODE)
_BY_NAME = {register.name: register for register in table.REGISTERS}
_STATE = struct.Struct("<hii")
_INT16 = struct.Struct("<h")
# Offsets of registers used every cycle: the general access takes longer than the arm's mechanics.
_TORQUE_AT, _MODE_AT, _WATCHDOG_AT, _DRIVE_MODE_AT = (
    register.address for register in (table.TORQUE_ENABLE, table.OPERATING_MODE, table.BUS_WATCHDOG, table.DRIVE_MODE)
)
_GOAL_CURRENT_AT, _CURRENT_LIMIT_AT = table.GOAL_CURRENT.address, table.CURRENT_LIMIT.address
_TICK_AT = table.REALTIME_TICK.address
_TRIPPED_BYTE = table.WATCHDOG_TRIPPED & 0xFF
REVERSED, _TORQUE_BY_GOAL = 1 << 0, 1 << 3  # bits of the drive mode
_TORQUE_AT_START, _RESTORE_RAM = 1 << 0, 1 << 1  # bits of the startup configuration
_LARGEST_OFFSET_IN_POSITION_MODE = 1024
_GAINS = range(76, 92)
# RAM registers in a backup besides EEPROM and indirect addresses: gains, profile acceleration and velocity.
_BACKED_UP = (_GAINS, range(108, 116))


class Servo:
    """Emulated servo that starts with factory settings, except for the given ID and baud rate.

    Args:
        servo_id: ID on the bus.
        model_number: model number in the answer to a ping; a model of `dynid.hardware.servos`.
        baud_code: value of the baud rate register.
        undocumented: behaviour that the e-manual leaves open; shared by the servos of a chain.

    Attributes:
        bytes: the control table, one byte per address.
        torque_was_enabled: whether torque was ever on.
        shut_down: whether a hardware error selected in the shutdown register has occurred; torque then stays off until
            a reboot.
        registered: address and data of a Reg Write instruction that waits for the Action instruction; None without one.
    """

    def __init__(
        self, servo_id: int, model_number: int, baud_code: int = 5, undocumented: UndocumentedBehaviour | None = None
    ) -> None:
        self.undocumented = undocumented or UndocumentedBehaviour()
        model = DYNAMIXELS[model_number]
        self._entries, self._listed, self._indirect = model.entries, model.listed, model.indirect
        pointers = [range(one.pointers, one.pointers + 2 * (one.end - one.first)) for one in model.indirect]
        self._backed_up = (*_BACKED_UP, *pointers)
        self._plain: set[tuple[int, int]] = set()  # blocks without indirect data
        self._backup: bytes | None = None
        self.bytes = bytearray(table.TABLE_SIZE)
        self.torque_was_enabled = self.shut_down = False
        self.registered: tuple[int, bytes] | None = None
        self._turns: int | None = None
        self._take_goal = False  # whether the next position reading becomes the goal
        self._offset = 0
        self._shifted = True  # whether register values differ from the shaft's values
        self.factory_reset(())
        self.set(table.ID, servo_id)
        self.set(table.BAUD_RATE, baud_code)

    def factory_reset(self, kept: Sequence[Register]) -> None:
        """Reset all registers to factory settings, except those in `kept`, and reboot."""
        values = [(register, self.get(register)) for register in kept]
        for entry in self._entries.values():
            self.set(entry.register, entry.default)
        for register, value in values:
            self.set(register, value)
        self.reboot()

    def reboot(self) -> None:
        """Reboot the servo: RAM registers are as after power-on, hardware errors are cleared, EEPROM does not change.

        Torque is off, unless the startup configuration register switches it on. That register may also restore RAM
        registers from the backup.
        """
        for address, entry in self._entries.items():
            if address >= table.EEPROM_END:
                self.set(entry.register, entry.default)
        self.set(table.BACKUP_READY, self._backup is not None)
        startup = self.get(table.STARTUP_CONFIGURATION)
        if startup & _RESTORE_RAM and self._backup is not None:
            for block in self._backed_up:
                self.bytes[block.start : block.stop] = self._backup[block.start : block.stop]
        self.shut_down, self.registered = False, None
        self._reset_goals()
        self.forget_turns()
        self.set(table.TORQUE_ENABLE, startup & _TORQUE_AT_START)
        self._take_goal = self.torque_enabled and self.undocumented.torque_on_holds
        self.torque_was_enabled |= self.torque_enabled

    def store_backup(self) -> None:
        """Store a copy of the control table, as the Backup instruction does."""
        self._backup = bytes(self.bytes)
        self.set(table.BACKUP_READY, 1)

    def restore_backup(self) -> bool:
        """Restore the EEPROM registers from the backup and reboot; without a backup, do nothing and return False."""
        if self._backup is not None:
            self.bytes[: table.EEPROM_END] = self._backup[: table.EEPROM_END]
            self.reboot()
        return self._backup is not None

    def get(self, register: Register) -> int:
        """Return a register's raw value."""
        return register.from_bytes(self.bytes[register.address : register.end])

    def set(self, register: Register, count: int) -> None:
        """Set a register's raw value without the checks of a write instruction."""
        self.bytes[register.address : register.end] = register.to_bytes(count)
        if register in _SHIFTING:
            self._offset = self.get(table.HOMING_OFFSET)
            if self.bytes[_MODE_AT] == table.POSITION_MODE and abs(self._offset) > _LARGEST_OFFSET_IN_POSITION_MODE:
                self._offset = 0
            self._shifted = True

    @property
    def servo_id(self) -> int:
        """ID of the servo on the bus."""
        return self.bytes[table.ID.address]

    @property
    def torque_enabled(self) -> bool:
        """Whether torque is on, so that the motor may carry current."""
        return bool(self.bytes[_TORQUE_AT])

    @property
    def alert(self) -> int:
        """Alert bit of the servo's status packets: `ALERT_BIT` if the servo has a hardware error, else 0."""
        return table.ALERT_BIT if self.bytes[table.HARDWARE_ERROR_STATUS.address] else 0

    @property
    def reversed(self) -> bool:
        """Whether the drive mode reverses the sign of the registers relative to the shaft."""
        return bool(self.bytes[_DRIVE_MODE_AT] & REVERSED)

    @property
    def controls_itself(self) -> bool:
        """Whether torque is on outside current mode, so that the servo's internal loop computes its current."""
        return bool(self.bytes[_TORQUE_AT]) and self.bytes[_MODE_AT] != table.CURRENT_MODE

    @property
    def drive_current_count(self) -> int:
        """Goal current of the motor in current mode [counts], in the sign of the shaft.

        The value is 0 if torque is off, in other modes, and after the watchdog has tripped.
        """
        found = self.bytes
        if not found[_TORQUE_AT] or found[_MODE_AT] != table.CURRENT_MODE or found[_WATCHDOG_AT] == _TRIPPED_BYTE:
            return 0
        count = int(_INT16.unpack_from(found, _GOAL_CURRENT_AT)[0])
        return -count if found[_DRIVE_MODE_AT] & REVERSED else count

    @property
    def moving(self) -> bool:
        """Whether the shaft turns faster than the value of the moving threshold register."""
        return abs(self.get(table.PRESENT_VELOCITY)) > self.get(table.MOVING_THRESHOLD)

    @property
    def watchdog_tripped(self) -> bool:
        """Whether the bus watchdog has tripped; goals are then read-only until 0 is written to its register."""
        return self.bytes[_WATCHDOG_AT] == _TRIPPED_BYTE

    @property
    def watchdog_s(self) -> float:
        """Bus watchdog time [s]; infinity if the watchdog is off or has tripped, or if torque is off."""
        count = self.bytes[_WATCHDOG_AT]
        armed = 0 < count != _TRIPPED_BYTE and self.bytes[_TORQUE_AT]
        return count * table.WATCHDOG_S_PER_COUNT if armed else float("inf")

    def trip_watchdog(self) -> None:
        """Trip the watchdog, as when the bus was silent for longer than the watchdog time."""
        self.set(table.BUS_WATCHDOG, table.WATCHDOG_TRIPPED)
        for register in (*_PROFILE, *(() if self.undocumented.goals_survive_trip else _GOALS[1:3])):
            self.set(register, 0)

    def raise_hardware_error(self, bits: int) -> None:
        """Set bits of the hardware error status; bits that are set in the shutdown register switch torque off."""
        self.bytes[table.HARDWARE_ERROR_STATUS.address] |= bits
        if bits & self.bytes[table.SHUTDOWN.address]:
            self.shut_down = True
            self.set(table.TORQUE_ENABLE, 0)

    def set_state(self, current_count: int, velocity_count: int, position_count: int, tick_ms: int) -> None:
        """Write the shaft's present readings into the registers, converted by drive mode, turn count and homing offset.

        Args:
            current_count: current [counts].
            velocity_count: velocity [counts].
            position_count: position [counts].
            tick_ms: value of the realtime tick register [ms].
        """
        if self._shifted:
            sign = -1 if self.bytes[_DRIVE_MODE_AT] & REVERSED else 1
            current_count, velocity_count = sign * current_count, sign * velocity_count
            shaft = sign * position_count
            if self._turns is None:
                self._turns = shaft - shaft % table.COUNTS_PER_TURN
            position_count = shaft - self._turns + self._offset
            self._shifted = bool(sign < 0 or self._turns or self._offset)
        _STATE.pack_into(self.bytes, table.STATE_ADDRESS, current_count, velocity_count, position_count)
        if self._take_goal:
            self._take_goal = False
            self.set(table.GOAL_POSITION, position_count)
        _INT16.pack_into(self.bytes, _TICK_AT, tick_ms)

    def forget_turns(self) -> None:
        """Reset the turn count: the next position is absolute within one turn, plus the homing offset."""
        self._turns, self._shifted = None, True

    # -- reading and writing -----------------------------------------------------------------------------------

    def read(self, address: int, size: int) -> tuple[int, bytes]:
        """Execute a read instruction; return the status error (0 for success) and the bytes that were read."""
        if (address, size) in self._plain:
            return 0, bytes(self.bytes[address : address + size])
        if size == 0:
            return RANGE_ERROR, b""
        block = range(address, address + size)
        listed = [at in self._listed for at in block]
        if not any(listed) or block.stop > table.TABLE_SIZE or not (all(listed) or self.undocumented.gaps_readable):
            return self.undocumented.unlisted_error, b""
        targets = self._targets(block)
        if targets == list(block) and all(listed) and table.MOVING.address not in block:
            self._plain.add((address, size))
        self.set(table.MOVING, self.moving)
        return 0, bytes(self.bytes[at] for at in targets)

    def refusal(self, address: int, data: bytes) -> int:
        """Return the status error with which a write of `data` at `address` would be refused now; 0 if accepted."""
        return self._checked(address, data)[1]

    def write(self, address: int, data: bytes) -> int:
        """Execute a write of `data` at `address`; return the status error, 0 for success.

        A refused write changes nothing.
        """
        writes, error = self._checked(address, data)
        if error:
            return error
        mode_before, torque_before = self.get(table.OPERATING_MODE), self.torque_enabled
        for register, value in writes:
            self.set(register, value)
            self._take_goal = self._take_goal and register is not table.GOAL_POSITION
        if self.get(table.OPERATING_MODE) != mode_before:
            self._change_mode()
        by_goal = self.bytes[_DRIVE_MODE_AT] & _TORQUE_BY_GOAL and not self.shut_down
        if by_goal and any(register in _GOALS for register, _ in writes):
            self.set(table.TORQUE_ENABLE, 1)
        if self.torque_enabled and not torque_before:
            if self.bytes[_MODE_AT] == table.POSITION_MODE:
                self.forget_turns()
            self._take_goal = self.undocumented.torque_on_holds
        self.torque_was_enabled |= self.torque_enabled
        return 0

    def write_goal_current(self, count: int) -> None:
        """Write a goal current [counts] under the rules of `write`, but faster and without returning a status."""
        if self.bytes[_DRIVE_MODE_AT] & _TORQUE_BY_GOAL:
            self.write(_GOAL_CURRENT_AT, _INT16.pack(count))
        elif abs(count) <= _INT16.unpack_from(self.bytes, _CURRENT_LIMIT_AT)[0] and not self.watchdog_tripped:
            _INT16.pack_into(self.bytes, _GOAL_CURRENT_AT, count)

    def _targets(self, block: range) -> list[int]:
        """Return the address to which each byte of a block of addresses refers.

        Bytes of indirect data registers refer to the addresses that the indirect address registers state.
        """
        targets = list(block)
        for one in self._indirect:
            for at in range(max(one.first, block.start), min(one.end, block.stop)):
                pointer = one.pointers + 2 * (at - one.first)
                targets[at - block.start] = int.from_bytes(self.bytes[pointer : pointer + 2], "little")
        return targets

    def _checked(self, address: int, data: bytes) -> tuple[list[tuple[Register, int]], int]:
        """Return the registers and values of a write, and the status error with which it is refused; 0 if accepted."""
        targets = self._targets(range(address, address + len(data)))
        writes: list[tuple[Register, int]] = []
        place = 0
        while place < len(targets):
            entry = self._entries.get(targets[place])
            if entry is None:
                return [], LENGTH_ERROR if targets[place] in self._listed else self.undocumented.unlisted_error
            register = entry.register
            after = place + register.size
            if targets[place:after] != list(range(register.address, register.end)):
                return [], LENGTH_ERROR
            writes.append((register, register.from_bytes(data[place:after])))
            place = after
        return writes, next(filter(None, (self._refusal(*one) for one in writes)), 0)

    def _refusal(self, register: Register, value: int) -> int:
        if not register.writable or (register.in_eeprom and self.torque_enabled):
            return ACCESS_ERROR
        rearms = register is table.BUS_WATCHDOG and value and not self.undocumented.rearms_while_tripped
        read_only = self.watchdog_tripped and (register in _GOALS or rearms)
        if value not in self._entries[register.address].allowed or read_only:
            return RANGE_ERROR
        if register.limit and abs(value) > self.get(_BY_NAME[register.limit]):
            return LIMIT_ERROR
        if register is table.GOAL_POSITION and self.bytes[_MODE_AT] == table.POSITION_MODE:
            within = self.get(table.MIN_POSITION_LIMIT) <= value <= self.get(table.MAX_POSITION_LIMIT)
            return 0 if within else LIMIT_ERROR
        return RESULT_FAIL if register is table.TORQUE_ENABLE and value and self.shut_down else 0

    def _change_mode(self) -> None:
        """Reset gains, profile, goal PWM and goal current after a change of operating mode.

        A change to position mode also resets the turn count.
        """
        for address in _GAINS:
            if address in self._entries:
                self.set(self._entries[address].register, self._entries[address].default)
        for register in _PROFILE:
            self.set(register, 0)
        self._reset_goals()
        if self.bytes[_MODE_AT] == table.POSITION_MODE:
            self.forget_turns()

    def _reset_goals(self) -> None:
        self.set(table.GOAL_PWM, self.get(table.PWM_LIMIT))
        self.set(table.GOAL_CURRENT, self.get(table.CURRENT_LIMIT))
