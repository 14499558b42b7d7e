"""Execution of an instruction by one emulated servo, and parsing of group instructions (sync and bulk).

Source: ROBOTIS e-manual, "DYNAMIXEL Protocol 2.0".
"""

import struct
from collections.abc import Callable

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.protocol import Instruction
from dynid.simulation.servo.servo import Servo
from dynid.simulation.servo.undocumented import ACCESS_ERROR, INSTRUCTION_ERROR, LENGTH_ERROR, RANGE_ERROR, RESULT_FAIL

RESET_ALL = b"\xff"
_KEPT_BY_RESET = {RESET_ALL: (), b"\x01": (table.ID,), b"\x02": (table.ID, table.BAUD_RATE)}
_CLEAR_TURNS = b"\x01\x44\x58\x4c\x22"
_STORE, _RESTORE = b"\x01\x43\x54\x52\x4c", b"\x02\x43\x54\x52\x4c"
Answer = tuple[int, bytes]


def carry_out(servo: Servo, instruction: int, payload: bytes) -> Answer:
    """Execute one instruction at one servo; return the status error (0 for none) and the reply's parameters."""
    known = _INSTRUCTIONS.get(instruction)
    return known(servo, payload) if known else (INSTRUCTION_ERROR, b"")


def _ping(servo: Servo, _: bytes) -> Answer:
    return 0, bytes(servo.bytes[0:2] + servo.bytes[6:7])


def _read(servo: Servo, payload: bytes) -> Answer:
    if len(payload) != 4:
        return LENGTH_ERROR, b""
    return servo.read(int.from_bytes(payload[:2], "little"), int.from_bytes(payload[2:], "little"))


def _write(servo: Servo, payload: bytes) -> Answer:
    if len(payload) < 3:
        return LENGTH_ERROR, b""
    return servo.write(int.from_bytes(payload[:2], "little"), payload[2:]), b""


def _reg_write(servo: Servo, payload: bytes) -> Answer:
    address, data = int.from_bytes(payload[:2], "little"), payload[2:]
    error = LENGTH_ERROR if not data else servo.refusal(address, data) if servo.undocumented.registered_at_once else 0
    if not error:
        servo.registered = address, data
        servo.set(table.REGISTERED_INSTRUCTION, 1)
    return error, b""


def _action(servo: Servo, _: bytes) -> Answer:
    if servo.registered is None:
        return INSTRUCTION_ERROR, b""
    registered, servo.registered = servo.registered, None
    servo.set(table.REGISTERED_INSTRUCTION, 0)
    return servo.write(*registered), b""


def _factory_reset(servo: Servo, payload: bytes) -> Answer:
    if len(payload) != 1 or payload not in _KEPT_BY_RESET:
        return RANGE_ERROR if payload else LENGTH_ERROR, b""
    if servo.torque_enabled and not servo.undocumented.reset_with_torque:
        return ACCESS_ERROR, b""
    servo.factory_reset(_KEPT_BY_RESET[payload])
    return 0, b""


def _reboot(servo: Servo, _: bytes) -> Answer:
    servo.reboot()
    return 0, b""


def _clear(servo: Servo, payload: bytes) -> Answer:
    if payload != _CLEAR_TURNS:
        return RANGE_ERROR if len(payload) == len(_CLEAR_TURNS) else LENGTH_ERROR, b""
    if servo.moving:
        return RESULT_FAIL, b""
    servo.forget_turns()
    return 0, b""


def _backup(servo: Servo, payload: bytes) -> Answer:
    if payload not in (_STORE, _RESTORE):
        return RANGE_ERROR if len(payload) == len(_STORE) else LENGTH_ERROR, b""
    if servo.torque_enabled:
        return RESULT_FAIL, b""
    if payload == _STORE:
        servo.store_backup()
        return 0, b""
    return 0 if servo.restore_backup() else RESULT_FAIL, b""


_INSTRUCTIONS: dict[int, Callable[[Servo, bytes], Answer]] = {
    Instruction.PING: _ping,
    Instruction.READ: _read,
    Instruction.WRITE: _write,
    Instruction.REG_WRITE: _reg_write,
    Instruction.ACTION: _action,
    Instruction.FACTORY_RESET: _factory_reset,
    Instruction.REBOOT: _reboot,
    Instruction.CLEAR: _clear,
    Instruction.BACKUP: _backup,
}


def _sync_reads(payload: bytes) -> list[tuple[int, int, int]]:
    """Return (ID, address, size) of every servo in the payload of a sync read; empty if it is malformed."""
    if len(payload) < 5:
        return []
    address, size = int.from_bytes(payload[:2], "little"), int.from_bytes(payload[2:4], "little")
    return [(servo_id, address, size) for servo_id in payload[4:]]


def _bulk_reads(payload: bytes) -> list[tuple[int, int, int]]:
    """Return (ID, address, size) of every servo in the payload of a bulk read; empty if it is malformed."""
    return [] if len(payload) % _BULK_HEAD.size else list(_BULK_HEAD.iter_unpack(payload))


def sync_writes(payload: bytes) -> list[tuple[int, int, bytes]]:
    """Return (ID, address, data) of every servo in the payload of a sync write; empty if it is malformed."""
    address, size = int.from_bytes(payload[:2], "little"), int.from_bytes(payload[2:4], "little")
    blocks = payload[4:]
    if size == 0 or len(blocks) % (size + 1):
        return []
    return [(blocks[at], address, blocks[at + 1 : at + 1 + size]) for at in range(0, len(blocks), size + 1)]


def bulk_writes(payload: bytes) -> list[tuple[int, int, bytes]]:
    """Return (ID, address, data) of every servo in the payload of a bulk write; empty if it is malformed."""
    found, place = [], 0
    while place + _BULK_HEAD.size <= len(payload):
        servo_id, address, size = _BULK_HEAD.unpack_from(payload, place)
        place += _BULK_HEAD.size + size
        found.append((servo_id, address, payload[place - size : place]))
    return found if place == len(payload) else []


_BULK_HEAD = struct.Struct("<BHH")
GROUP_READS: dict[int, Callable[[bytes], list[tuple[int, int, int]]]] = {
    Instruction.SYNC_READ: _sync_reads,
    Instruction.FAST_SYNC_READ: _sync_reads,
    Instruction.BULK_READ: _bulk_reads,
    Instruction.FAST_BULK_READ: _bulk_reads,
}
