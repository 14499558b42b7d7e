"""Counts to SI and back for all servos in one compiled pass each; figures as `ServoUnits` gives them, to the bit."""

import numba
import numpy as np
from numpy.typing import NDArray

from dynid.hardware.bus.control_table import IntArray
from dynid.robot import FloatArray

# Rows of the constants of the conversions, (6, n).
CENTRE, POSITION, VELOCITY, CURRENT, ZERO, CONSTANT = range(6)


@numba.njit(cache=True)
def states_in_si(position: IntArray, velocity: IntArray, current: IntArray, units: FloatArray) -> FloatArray:
    """Return q [rad], dq [rad/s], current [A] and torque [N m] of counts (n,), as rows (4, n); motor by motor.

    Args:
        position: counts of position, (n,).
        velocity: counts of velocity, (n,).
        current: counts of current, (n,).
        units: constants of the servos by row, (6, n), see the names above.
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
    wanted: FloatArray, unseen: NDArray[np.bool_], caps: IntArray, units: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return goal currents (n,) as counts, and the currents that they are [A]; wanted ones are finite.

    Args:
        wanted: currents at the joints, which each motor alone moves, (n,) [A].
        unseen: servos that hold their joints themselves get none, (n,).
        caps: the most counts, (n,).
        units: constants of the servos by row, (6, n).
    """
    counts, applied = np.empty(len(wanted), dtype=np.int64), np.empty(len(wanted))
    for j in range(len(wanted)):
        amperes = 0.0 if unseen[j] else wanted[j]
        counts[j] = np.int64(min(max(np.rint(amperes / units[CURRENT, j]), -float(caps[j])), float(caps[j])))
        applied[j] = counts[j] * units[CURRENT, j]
    return counts, applied


@numba.njit(cache=True)
def take_states(
    blocks: NDArray[np.uint8], valid: NDArray[np.bool_], position: IntArray, velocity: IntArray, current: IntArray
) -> bool:
    """Read counts of current, velocity and position from blocks of registers (n, 10); return whether a valid one moves.

    Args:
        blocks: bytes of each servo as it sends them, little endian.
        valid: servos whose counts are taken, (n,).
        position: gets the positions, (n,).
        velocity: gets the velocities, (n,).
        current: gets the currents, (n,).
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
