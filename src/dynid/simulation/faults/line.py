"""Line faults: functions that corrupt the frames of one reply.

A reply to a plain read is one frame per servo; the reply to a fast sync read is one frame with a block per servo.
If a servo does not answer a plain sync read, later servos do not answer either, see `ServoChain.replies_chained`.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np

from dynid.hardware.bus import protocol

LineFaultKind = Literal["missing_reply", "wrong_crc", "truncated", "garbage", "late_reply", "wrong_id", "duplicated"]
LINE_FAULTS: tuple[LineFaultKind, ...] = get_args(LineFaultKind)
Pieces = list[bytes | float]
"""Output instead of a reply: bytes to send, and pauses [s] as numbers."""

MOST_GARBAGE_BYTES = 24
FAST_BLOCK_OVERHEAD = 4
PREFIX = 7


def with_fault(
    kind: LineFaultKind,
    frames: Sequence[bytes],
    servo_id: int | None,
    random: np.random.Generator,
    delay_s: float,
    chained: bool = True,
) -> Pieces:
    """Return the bytes and pauses [s] that are sent instead of a reply under a line fault.

    Args:
        kind: the fault.
        frames: status frames of the reply, in order.
        servo_id: servo whose part of the reply is affected. None omits the whole reply if `kind` is "missing_reply",
            delays the whole reply if it is "late_reply", and otherwise corrupts a random frame.
        random: generator that selects frames, bits and bytes.
        delay_s: delay of a late reply [s].
        chained: whether all frames after a missing frame are also missing.
    """
    if not frames:
        return []
    if kind == "late_reply":
        return [delay_s, *frames]
    if kind == "missing_reply":
        if servo_id is None:
            return []
        concerned = [_concerns(frame, servo_id) for frame in frames]
        heard = itertools.accumulate(concerned, max) if chained else concerned
        return [frame for frame, missing in zip(frames, heard, strict=True) if not missing]
    chosen = [index for index, frame in enumerate(frames) if servo_id is None or _concerns(frame, servo_id)]
    if not chosen:
        return list(frames)
    place = int(random.choice(chosen))
    return [*frames[:place], *_FAULT_FUNCTIONS[kind](frames[place], servo_id, random), *frames[place + 1 :]]


def _concerns(frame: bytes, servo_id: int) -> bool:
    """Return whether a servo sends this frame or, if the frame is a fast reply, one of its blocks."""
    if frame[4] == protocol.BROADCAST_ID:
        return servo_id in [one for one, _, _ in _blocks(frame)]
    return frame[4] == servo_id


def _wrong_crc(frame: bytes, _: int | None, random: np.random.Generator) -> Pieces:
    """Return the frame with one random bit flipped after the header, so that its CRC is wrong."""
    damaged = bytearray(frame)
    damaged[int(random.integers(len(protocol.HEADER), len(frame)))] ^= 1 << int(random.integers(8))
    return [bytes(damaged)]


def _truncated(frame: bytes, _: int | None, random: np.random.Generator) -> Pieces:
    return [frame[: int(random.integers(1, len(frame)))]]


def _garbage(frame: bytes, _: int | None, random: np.random.Generator) -> Pieces:
    """Return random bytes, the frame, and random bytes again.

    With probability 1/2, the start of a false packet precedes the frame.
    """
    before, after = (random.bytes(int(random.integers(1, MOST_GARBAGE_BYTES))) for _ in range(2))
    if random.integers(2):
        before += protocol.HEADER + bytes((int(random.integers(protocol.MAX_SERVO_ID)), int(random.integers(4, 60)), 0))
    return [before, frame, after]


def _wrong_id(frame: bytes, servo_id: int | None, random: np.random.Generator) -> Pieces:
    """Return the frame with a correct CRC, but from an ID that the request did not address.

    In a fast reply only one block gets the false ID: the block of `servo_id`, or a random block if this servo has none.
    """
    (packet,) = protocol.PacketParser().feed(frame)
    stranger = int(random.integers(100, protocol.MAX_SERVO_ID))
    if packet.packet_id != protocol.BROADCAST_ID:
        return [protocol.build_status(stranger, packet.error, packet.parameters)]
    ids, errors, data = (list(part) for part in zip(*_blocks(frame), strict=True))
    ids[ids.index(servo_id) if servo_id in ids else int(random.integers(len(ids)))] = stranger
    return [protocol.build_fast_reply(ids, errors, data)]


def _duplicated(frame: bytes, _: int | None, __: np.random.Generator) -> Pieces:
    return [frame, frame]


def _blocks(frame: bytes) -> list[tuple[int, int, bytes]]:
    """Return (ID, error, data) of every servo in a fast reply.

    The frame does not state the size of its blocks, so all sizes are tried. With the right size, all IDs differ, and
    the blocks yield the same frame when they are encoded again.
    """
    (packet,) = protocol.PacketParser().feed(frame)
    content = len(packet.payload) + 2
    for size in range(1, content):
        found = protocol.split_fast_reply(packet, size) if content % (size + FAST_BLOCK_OVERHEAD) == 0 else []
        ids = [servo_id for servo_id, _, _ in found]
        if (
            found
            and len(set(ids)) == len(ids)
            and protocol.build_fast_reply(*map(list, zip(*found, strict=True))) == frame
        ):
            return found
    raise ValueError(f"{frame.hex()} is not the reply to a fast sync read")


_FAULT_FUNCTIONS: dict[str, Callable[[bytes, int | None, np.random.Generator], Pieces]] = {
    "wrong_crc": _wrong_crc,
    "truncated": _truncated,
    "garbage": _garbage,
    "wrong_id": _wrong_id,
    "duplicated": _duplicated,
}
