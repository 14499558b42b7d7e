"""Compiled functions for all servos at once: reply to a fast read, and conversions between counts and SI.

The conversions are identical to `ServoUnits` to the bit.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from dynid.hardware.bus.control_table import IntArray
from dynid.hardware.bus.dialogue import INSTRUCTION_AT
from dynid.hardware.bus.protocol import BROADCAST_ID, HEADER, Instruction, crc16
from dynid.hardware.bus.state_exchange import FAST_BLOCK_OVERHEAD
from dynid.robot import FloatArray

FIXED = (*HEADER, BROADCAST_ID)  # first bytes of a reply to a fast read
STATUS, BLOCKS_AT, CRC_SIZE = int(Instruction.STATUS), INSTRUCTION_AT + 1, 2
_CRC_TABLE = np.array([crc16(bytes([byte])) for byte in range(256)], dtype=np.uint16)
# Rows of the conversion constants `units`, (6, n).
CENTRE, POSITION, VELOCITY, CURRENT, ZERO, CONSTANT = range(6)


@numba.njit(cache=True)
def states_in_si(position: IntArray, velocity: IntArray, current: IntArray, units: FloatArray) -> FloatArray:
    """Return q [rad], dq [rad/s], current [A] and torque [N m] as rows (4, n) from counts (n,).

    Each motor must move one joint only.

    Args:
        position: counts of position, (n,).
        velocity: counts of velocity, (n,).
        current: counts of current, (n,).
        units: constants of the servos by row, (6, n), see `CENTRE` and following.
    """
    found = np.empty((4, len(position)))
    for j in range(len(position)):
        found[0, j] = (position[j] - units[CENTRE, j]) * units[POSITION, j] + units[ZERO, j]
        found[1, j] = velocity[j] * units[VELOCITY, j]
        found[2, j] = current[j] * units[CURRENT, j]
        found[3, j] = found[2, j] * units[CONSTANT, j]
    return found


@numba.njit(cache=True)
def goal_counts(
    wanted: FloatArray, self_held: NDArray[np.bool_], caps: IntArray, units: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return goal currents as counts (n,), and the currents that these counts represent, (n,) [A].

    Args:
        wanted: finite currents at the joints, each moved by one motor alone, (n,) [A].
        self_held: mask of servos that hold their joints themselves and get no current, (n,).
        caps: largest counts, (n,).
        units: constants of the servos by row, (6, n), see `CENTRE` and following.
    """
    counts, applied = np.empty(len(wanted), dtype=np.int64), np.empty(len(wanted))
    for j in range(len(wanted)):
        amperes = 0.0 if self_held[j] else wanted[j]
        counts[j] = np.int64(min(max(np.rint(amperes / units[CURRENT, j]), -float(caps[j])), float(caps[j])))
        applied[j] = counts[j] * units[CURRENT, j]
    return counts, applied


@numba.njit(cache=True)
def take_whole_reply(data: NDArray[np.uint8], servo_ids: NDArray[np.uint8], blocks: NDArray[np.uint8]) -> bool:
    """Take the register blocks (n, size) from a reply to a fast read; return False if it is anything else.

    Only one complete packet with a correct CRC is taken, in which every servo is once, in order and without an error.
    That is the usual case. Any other input is left to the parser.

    Args:
        data: bytes as received.
        servo_ids: IDs of the requested servos, (n,).
        blocks: output, registers of each servo, (n, size); unchanged if the result is False.
    """
    count, size = blocks.shape
    block = size + FAST_BLOCK_OVERHEAD
    total = BLOCKS_AT + count * block
    if len(data) != total or data[INSTRUCTION_AT] != STATUS:
        return False
    for k in range(len(FIXED)):
        if data[k] != FIXED[k]:
            return False
    if np.int64(data[5]) | np.int64(data[6]) << 8 != total - INSTRUCTION_AT:
        return False
    for j in range(count):
        if data[BLOCKS_AT + j * block] != 0 or data[BLOCKS_AT + j * block + 1] != servo_ids[j]:
            return False
    crc = np.int64(0)
    for k in range(total - CRC_SIZE):
        crc = (crc << 8 & 0xFFFF) ^ np.int64(_CRC_TABLE[(crc >> 8) ^ np.int64(data[k])])
    if crc != np.int64(data[total - 2]) | np.int64(data[total - 1]) << 8:
        return False
    for j in range(count):
        for k in range(size):
            blocks[j, k] = data[BLOCKS_AT + j * block + 2 + k]
    return True


@numba.njit(cache=True)
def take_states(
    blocks: NDArray[np.uint8], valid: NDArray[np.bool_], position: IntArray, velocity: IntArray, current: IntArray
) -> bool:
    """Read counts from the servos' register blocks (n, 10) into arrays; return whether a valid servo moves.

    Args:
        blocks: bytes of each servo as received, little-endian: current, velocity, position.
        valid: mask of the servos whose counts are taken, (n,).
        position: output, positions, (n,).
        velocity: output, velocities, (n,).
        current: output, currents, (n,).
    """
    moves = False
    for j in range(len(blocks)):
        if not valid[j]:
            continue
        block = blocks[j]
        current[j] = np.int16(np.uint16(block[0]) | np.uint16(block[1]) << np.uint16(8))
        velocity[j] = np.int32(_word(block, 2))
        position[j] = np.int32(_word(block, 6))
        moves |= abs(velocity[j]) > 1
    return moves


@numba.njit(cache=True)
def _word(block: NDArray[np.uint8], at: int) -> np.uint32:
    word = np.uint32(0)
    for k in range(4):
        word |= np.uint32(np.uint32(block[at + k]) << np.uint32(8 * k))
    return np.uint32(word)
