"""The messages of an MCAP file's records, found and copied in bulk: a bag of a minute holds some 200,000."""

import numba
import numpy as np
from numpy.typing import NDArray

MESSAGE = 0x05  # its opcode
HEADER, MESSAGE_HEADER = 9, 22  # bytes: opcode and length; channel, sequence, log and publish time


@numba.njit(cache=True)
def _number(data: NDArray[np.uint8], position: int, size: int) -> np.int64:
    """An unsigned little-endian number; beyond 63 bits it comes out negative."""
    value = np.int64(0)
    for k in range(size):
        value |= np.int64(data[position + k]) << np.int64(8 * k)
    return value


@numba.njit(cache=True)
def _end(data: NDArray[np.uint8], position: int) -> int:
    """Where the whole message that begins at a position ends; -1 where none begins."""
    if position + HEADER + MESSAGE_HEADER > len(data) or data[position] != MESSAGE:
        return -1
    length = _number(data, position + 1, 8)
    start = position + HEADER
    return start + length if MESSAGE_HEADER <= length <= len(data) - start else -1


@numba.njit(cache=True)
def message_run(data: NDArray[np.uint8], position: int) -> NDArray[np.int64]:
    """Messages (N, 4) that follow each other from a position on: channel, log time [ns], start and end of the payload.

    The run ends before whatever is no whole message.
    """
    count, at = 0, position
    while True:
        end = _end(data, at)
        if end < 0:
            break
        count, at = count + 1, end
    found, at = np.empty((count, 4), dtype=np.int64), position
    for k in range(count):
        start = at + HEADER
        found[k, 0] = _number(data, start, 2)
        found[k, 1] = _number(data, start + 6, 8)
        found[k, 2] = start + MESSAGE_HEADER
        found[k, 3] = at = _end(data, at)
    return found


@numba.njit(cache=True)
def copy_slices(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], out: NDArray[np.uint8]
) -> None:
    """Copy data[start:end] of all pairs (N,) one behind the other into `out`, which has just their size."""
    at = 0
    for k in range(len(starts)):
        for place in range(starts[k], ends[k]):  # numba compiles the assignment of a slice for two seconds
            out[at] = data[place]
            at += 1
