"""Data of the 1 kHz read of all servos: its request frames, its result, and its error counters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.control_table import IntArray
from dynid.hardware.bus.dialogue import STATUS_OVERHEAD
from dynid.hardware.bus.protocol import build_sync_read

FAST_REPLY_OVERHEAD = 8
FAST_BLOCK_OVERHEAD = 4
# While a reply to an earlier request may still come, every read requests a different number of bytes (reading the
# registers after the state is harmless), so that replies are not confused. Sizes repeat after ten reads.
TAGGED_SIZES = range(table.STATE_SIZE + 1, table.STATE_SIZE + 11)


@dataclass(frozen=True)
class StateRequest:
    """A (fast) sync read of the same number of bytes from each servo.

    Attributes:
        frame: the instruction packet.
        size: bytes requested from each servo.
        reply_bytes: bytes of all replies.
        wire_s: time of request and replies on the wire [s].
    """

    frame: bytes
    size: int
    reply_bytes: int
    wire_s: float


class StateRequests:
    """Cache of state requests to the same servos, each built when it is first needed.

    Args:
        servo_ids: IDs of the requested servos, in the order of their replies.
        wire_s: returns the time of a number of bytes on the wire [s].
    """

    def __init__(self, servo_ids: Sequence[int], wire_s: Callable[[int], float]) -> None:
        self._servo_ids, self._wire_s = tuple(servo_ids), wire_s
        self._made: dict[tuple[bool, int], StateRequest] = {}

    def get(self, fast: bool, size: int) -> StateRequest:
        """Return the request for `size` bytes of each servo."""
        made = self._made.get((fast, size))
        if made is None:
            made = self._made[fast, size] = self._make(fast, size)
        return made

    def _make(self, fast: bool, size: int) -> StateRequest:
        frame = build_sync_read(self._servo_ids, table.STATE_ADDRESS, size, fast=fast)
        if fast:
            reply_bytes = FAST_REPLY_OVERHEAD + len(self._servo_ids) * (size + FAST_BLOCK_OVERHEAD)
        else:
            reply_bytes = len(self._servo_ids) * (STATUS_OVERHEAD + size)
        return StateRequest(frame, size, reply_bytes, self._wire_s(len(frame) + reply_bytes))


@dataclass
class CycleCounters:
    """Error counters of the reads; the arrays are per servo, (n,).

    A read, of slow values too, that was not fully answered in time is a timeout. A reply is stale if it came sooner
    than the wire allows, was found much later, or answers another read. A late reply took more than a millisecond
    beyond its time on the wire. A read is repeated if it equals the previous read bit for bit although the arm moves.
    """

    missing_by_servo: NDArray[np.int64]
    duplicates_by_servo: NDArray[np.int64]
    status_errors_by_servo: NDArray[np.int64]
    alerts_by_servo: NDArray[np.int64]
    timeouts: int = 0
    stale: int = 0
    duplicates: int = 0
    wrong_ids: int = 0
    status_errors: int = 0
    late: int = 0
    repeated: int = 0

    @classmethod
    def of(cls, size: int) -> "CycleCounters":
        """Return counters of zero for `size` servos."""
        zero = np.zeros(size, dtype=np.int64)
        return cls(zero, zero.copy(), zero.copy(), zero.copy())


@dataclass
class StateReading:
    """Result of one read, overwritten by the next; arrays are (n,) in the order of the bus' IDs.

    Attributes:
        current_count: present currents; where `valid` is False, the value of the last valid read, as for all counts.
        velocity_count: present velocities.
        position_count: present positions.
        errors: status error bytes, alert bit included; 0 without a reply.
        valid: whether this read contains the servo's values.
        complete: whether all servos are valid.
        repeated: whether the read equals the last complete one bit for bit although the arm moves.
        stamp_ns: arrival of the last reply, or when it should have arrived if it was late [ns]: monotonic clock plus
            `ServoBus.realtime_offset_ns`.
    """

    current_count: IntArray
    velocity_count: IntArray
    position_count: IntArray
    errors: NDArray[np.uint8]
    valid: NDArray[np.bool_]
    complete: bool = False
    repeated: bool = False
    stamp_ns: int = 0
