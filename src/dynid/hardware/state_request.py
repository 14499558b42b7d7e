"""The requests of the 1 kHz read: frames that ask servos for their state, and how long the exchange is on the wire."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dynid.hardware import control_table as table
from dynid.hardware.bus import STATUS_OVERHEAD
from dynid.hardware.protocol import build_sync_read

FAST_REPLY_OVERHEAD = 8
FAST_BLOCK_OVERHEAD = 4
# While a reply to an earlier request may still come, every read asks for another number of bytes (the registers behind
# the state are harmless), so that its replies cannot be taken for those of another. A number comes back after ten.
TAGGED_SIZES = range(table.STATE_SIZE + 1, table.STATE_SIZE + 11)


@dataclass(frozen=True)
class StateRequest:
    """A (fast) sync read of some bytes of each servo.

    Attributes:
        frame: the instruction packet.
        size: bytes asked of each servo.
        reply_bytes: bytes of all replies.
        wire_s: request and replies on the wire [s].
    """

    frame: bytes
    size: int
    reply_bytes: int
    wire_s: float


class StateRequests:
    """Requests to the same servos, made when they are first needed.

    Args:
        servo_ids: who is asked, in the order of their replies.
        wire_s: how long so many bytes take on the wire [s].
    """

    def __init__(self, servo_ids: Sequence[int], wire_s: Callable[[int], float]) -> None:
        self._servo_ids, self._wire_s = tuple(servo_ids), wire_s
        self._made: dict[tuple[bool, int], StateRequest] = {}

    def get(self, fast: bool, size: int) -> StateRequest:
        """The request for `size` bytes of each servo."""
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
