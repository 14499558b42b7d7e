"""Compiled functions for all servos at once: replies to fast sync reads, and conversions between counts and SI.

Counts are raw register values. The results of the conversions equal those of `ServoUnits` bit for bit.
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
# Rows of the conversion constants `units` (6, n): centre count, units of position, velocity and current per count, zero
# offset of the joint, and torque constant.
CENTRE, POSITION, VELOCITY, CURRENT, ZERO, CONSTANT = range(6)


@numba.njit(cache=True)
def states_in_si(position: IntArray, velocity: IntArray, current: IntArray, units: FloatArray) -> FloatArray:
    """Return joint angles [rad], velocities [rad/s], currents [A] and torques [N m] as the rows of an array (4, n).

    Each motor must move one joint only.

    Args:
        position: raw register values of position, (n,).
        velocity: raw register values of velocity, (n,).
        current: raw register values of current, (n,).
        units: constants of the servos, (6, n), see `ServoUnits.rows`.
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
    """Return goal currents as raw register values (n,), and the currents that these values represent, (n,) [A].

    Each motor must move one joint only.

    Args:
        wanted: wanted joint currents, all finite, (n,) [A].
        self_held: mask of servos that hold their joints in position mode and get no current, (n,).
        caps: largest register values, (n,).
        units: constants of the servos, (6, n), see `ServoUnits.rows`.
    """
    counts, applied = np.empty(len(wanted), dtype=np.int64), np.empty(len(wanted))
    for j in range(len(wanted)):
        amperes = 0.0 if self_held[j] else wanted[j]
        counts[j] = np.int64(min(max(np.rint(amperes / units[CURRENT, j]), -float(caps[j])), float(caps[j])))
        applied[j] = counts[j] * units[CURRENT, j]
    return counts, applied


@numba.njit(cache=True)
def take_whole_reply(data: NDArray[np.uint8], servo_ids: NDArray[np.uint8], blocks: NDArray[np.uint8]) -> bool:
    """Copy the register blocks (n, size) from the reply to a fast sync read; return whether that was possible.

    The data must be one complete packet with a correct CRC, which contains every servo once, in order and without an
    error. This is the usual case. For other data nothing is copied; the caller then uses the packet parser.

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
    """Decode the servos' register blocks (n, 10) into arrays of raw values; return whether a valid servo moves.

    A servo moves if its velocity is more than one count.

    Args:
        blocks: received bytes of each servo, little-endian: current (2), velocity (4), position (4).
        valid: mask of the servos whose values are decoded, (n,); the outputs of other servos are unchanged.
        position: output, raw positions, (n,).
        velocity: output, raw velocities, (n,).
        current: output, raw currents, (n,).
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
