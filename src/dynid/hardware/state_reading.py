"""What one read of all servos brought, and what went wrong in the reads so far."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.control_table import IntArray


@dataclass
class CycleCounters:
    """What went wrong in the reads so far; the arrays are by servo, (n,).

    A read, of slow values too, that was not fully answered in time is a timeout; one that was answered sooner than the
    wire allows, or was found much later, is stale, as is every reply that answers another read; a late one took more
    than a millisecond beyond its time on the wire.
    A read is repeated if it brought what the one before it did, to the bit, from an arm that moves.
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
        """All zero, for so many servos."""
        zero = np.zeros(size, dtype=np.int64)
        return cls(zero, zero.copy(), zero.copy(), zero.copy())


@dataclass
class StateReading:
    """The result of one read, overwritten by the next; each (n,) in the order of the bus' ids.

    Attributes:
        current_count: present currents; where `valid` is False those of the last valid read, as for all counts.
        velocity_count: present velocities.
        position_count: present positions.
        errors: the status error bytes, alert bit included; 0 where there was no reply.
        valid: whether this read brought the servo's values.
        complete: whether all are valid.
        repeated: whether it is the same as the last complete one, to the bit, though the arm moves.
        stamp_ns: when the last reply arrived, or should have, if it came late: monotonic clock plus
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
