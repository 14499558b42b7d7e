"""Compiled kernels that find and copy the messages of an MCAP file in bulk.

One minute of recording has some 200,000 messages, too many for a loop in Python.
"""

import numba
import numpy as np
from numpy.typing import NDArray

MESSAGE = 0x05  # opcode of a message record
FOOTER, SCHEMA, CHANNEL, CHUNK = 0x02, 0x03, 0x04, 0x06  # opcodes of the records that Python decodes
HEADER, MESSAGE_HEADER = 9, 22  # [bytes]: opcode and length; channel, sequence, log time and publish time


@numba.njit(cache=True)
def _number(data: NDArray[np.uint8], position: int, size: int) -> np.int64:
    """Return the unsigned little-endian integer of `size` bytes at a position.

    Values beyond 63 bits become negative.
    """
    value = np.int64(0)
    for k in range(size):
        value |= np.int64(data[position + k]) << np.int64(8 * k)
    return value


@numba.njit(cache=True)
def _end(data: NDArray[np.uint8], position: int) -> int:
    """Return the position after the end of the record that starts at `position`.

    The result is -1 if the record is incomplete, or of a kind that Python code decodes.
    """
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
    """Return the successive message records after a position, (N, 4), and the position at which this run ends.

    The columns are channel ID, log time [ns], and start and end of the message's data. Index, statistics and similar
    records are skipped. The run ends before a record that is incomplete, or of a kind that Python code decodes.
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
    """Copy the slices data[start:end] one after another into `out`, whose size must be exactly their total.

    Args:
        data: bytes, (B,).
        starts: start of each slice, (N,).
        ends: end of each slice, (N,).
        out: array that receives the slices.
    """
    at = 0
    for k in range(len(starts)):
        for place in range(starts[k], ends[k]):  # a slice assignment would take numba two seconds to compile
            out[at] = data[place]
            at += 1
