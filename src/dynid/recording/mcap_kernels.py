"""The messages of an MCAP file's records, found and copied in bulk: a bag of a minute holds some 200,000."""

import numba
import numpy as np
from numpy.typing import NDArray

MESSAGE = 0x05  # its opcode
FOOTER, SCHEMA, CHANNEL, CHUNK = 0x02, 0x03, 0x04, 0x06  # opcodes of records that Python reads
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
    """Return where the whole record at a position ends; -1 if there is none, or one that Python reads."""
    if position + HEADER > len(data):
        return -1
    kind = data[position]
    if kind == FOOTER or kind == SCHEMA or kind == CHANNEL or kind == CHUNK:
        return -1
    length = _number(data, position + 1, 8)
    start = position + HEADER
    least = MESSAGE_HEADER if kind == MESSAGE else 0
    return start + length if least <= length <= len(data) - start else -1


@numba.njit(cache=True)
def message_run(data: NDArray[np.uint8], position: int) -> tuple[NDArray[np.int64], int]:
    """Return the messages (N, 4) from a position on, and where the run ends.

    A message is channel, log time [ns], start and end of its payload. Records of indexes, statistics and the like are
    passed over. The run ends before a record that Python reads, or that is not whole.
    """
    count, last = 0, position
    while True:
        end = _end(data, last)
        if end < 0:
            break
        if data[last] == MESSAGE:
            count += 1
        last = end
    found, at, k = np.empty((count, 4), dtype=np.int64), position, 0
    while k < count:
        end = _end(data, at)
        if data[at] == MESSAGE:
            start = at + HEADER
            found[k, 0] = _number(data, start, 2)
            found[k, 1] = _number(data, start + 6, 8)
            found[k, 2] = start + MESSAGE_HEADER
            found[k, 3] = end
            k += 1
        at = end
    return found, last


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
