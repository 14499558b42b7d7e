"""Data of the 1 kHz read of all servos: request frames, result and error counters."""

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
    """Request of the same number of bytes from each servo, by a sync read or a fast sync read.

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
    """Cache of the requests that read the states of a fixed set of servos; a request is built when it is first needed.

    Args:
        servo_ids: IDs of the requested servos, in the order of their replies.
        wire_s: function that returns the time of a number of bytes on the wire [s].
    """

    def __init__(self, servo_ids: Sequence[int], wire_s: Callable[[int], float]) -> None:
        self._servo_ids, self._wire_s = tuple(servo_ids), wire_s
        self._made: dict[tuple[bool, int], StateRequest] = {}

    def get(self, fast: bool, size: int) -> StateRequest:
        """Return the request of `size` bytes from each servo, as a fast sync read if `fast`, else as a sync read."""
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
    """Error counters of the reads of all servos; arrays are (n,), one value per servo.

    Attributes:
        missing_by_servo: number of incomplete reads without a valid state of the servo, (n,).
        duplicates_by_servo: number of second replies of the servo to the same read, (n,).
        status_errors_by_servo: number of replies of the servo that report an error, or that answer a read of other
            registers, (n,).
        alerts_by_servo: number of replies of the servo that report a hardware error, (n,).
        timeouts: number of reads of states or slow values that were not fully answered in time.
        stale: number of replies that came sooner than the wire allows, were read much too late, or answer another read.
        duplicates: sum of `duplicates_by_servo`.
        wrong_ids: number of replies with an ID that no servo of the arm has.
        status_errors: sum of `status_errors_by_servo`.
        late: number of reads that took more than a millisecond beyond their time on the wire.
        repeated: number of reads that equal the previous complete read bit for bit although the arm moves.
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
        """Return error counters of `size` servos, all 0."""
        zero = np.zeros(size, dtype=np.int64)
        return cls(zero, zero.copy(), zero.copy(), zero.copy())


@dataclass
class StateReading:
    """Result of one read of all servos' states, overwritten by the next read.

    Arrays are (n,) in the order of the bus' IDs. The counts of a servo are raw register values; if this read does not
    contain them, they are those of the servo's last valid read.

    Attributes:
        current_count: present currents.
        velocity_count: present velocities.
        position_count: present positions.
        errors: status error bytes with their alert bits; 0 without a reply.
        valid: whether this read contains the servo's values.
        complete: whether this read contains the values of all servos.
        repeated: whether this read equals the previous complete read bit for bit although the arm moves.
        stamp_ns: time at which the last reply arrived, or, if it was late, should have arrived [ns]. It is the
            monotonic clock plus `ServoBus.realtime_offset_ns`.
    """

    current_count: IntArray
    velocity_count: IntArray
    position_count: IntArray
    errors: NDArray[np.uint8]
    valid: NDArray[np.bool_]
    complete: bool = False
    repeated: bool = False
    stamp_ns: int = 0
