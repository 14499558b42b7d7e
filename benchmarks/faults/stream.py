"""Streams of packets for the parser's fuzzing, and the oracle that lists the packets of a stream.

The oracle does not use dynid's parser: it examines every header in the stream, uses the CRC
of the DYNAMIXEL SDK, and removes stuffing byte by byte.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dynamixel_sdk import Protocol2PacketHandler

from dynid.hardware.bus import protocol
from dynid.hardware.bus.protocol import Packet

HEADER = b"\xff\xff\xfd\x00"
SPECIAL = (0x00, 0x01, 0x03, 0x04, 0x07, 0x55, 0x82, 0xFC, 0xFD, 0xFE, 0xFF)
MOST_PARTS = 4
LONGEST_STREAM = 1500  # longer than the parser's buffer
_SDK = Protocol2PacketHandler()


# -- the oracle ------------------------------------------------------------------------------------------------


def correct_packets(stream: bytes) -> list[tuple[int, int, Packet]]:
    """Return (begin, end, packet) of every packet in a stream with correct header, length, ID and CRC of the SDK."""
    found = []
    begin = stream.find(HEADER)
    while begin >= 0:
        packet, end = _packet_at(stream, begin)
        if packet is not None:
            found.append((begin, end, packet))
        begin = stream.find(HEADER, begin + 1)
    return found


def _packet_at(stream: bytes, begin: int) -> tuple[Packet | None, int]:
    if len(stream) < begin + 10:
        return None, 0
    servo_id, length = stream[begin + 4], stream[begin + 5] + 256 * stream[begin + 6]
    end = begin + 7 + length
    if length < 3 or end > len(stream) or servo_id in (253, 255):
        return None, 0
    frame = list(stream[begin:end])
    if _SDK.updateCRC(0, frame, len(frame) - 2) != frame[-2] + 256 * frame[-1]:
        return None, 0
    instruction = frame[7]
    if servo_id == 254 and instruction == 0x55:  # the reply to a fast sync read is not stuffed
        return Packet(servo_id, instruction, bytes(frame[8:-2])), end
    body = without_stuffing(frame[7:-2])
    return Packet(servo_id, body[0], body[1:]), end


def without_stuffing(body: Sequence[int]) -> bytes:
    """Return a body without the FD that stuffing inserted after every FF FF FD."""
    kept: list[int] = []
    index = 0
    while index < len(body):
        kept.append(body[index])
        stuffed = list(body[index - 2 : index + 2]) == [0xFF, 0xFF, 0xFD, 0xFD] if index >= 2 else False
        index += 2 if stuffed else 1
    return bytes(kept)


# -- input streams ---------------------------------------------------------------------------------------------


def good_frame(chance: random.Random) -> bytes:
    """Return a random correct frame, often with bytes that look like headers and stuffing."""
    nasty = chance.random() < 0.5
    size = chance.randrange(24)
    data = bytes(chance.choice(SPECIAL) for _ in range(size)) if nasty else chance.randbytes(size)
    servo_id, kind = chance.randrange(253), chance.randrange(5)
    if kind == 0:
        return protocol.build_ping(servo_id)
    if kind == 1:
        return protocol.build_write(servo_id, chance.randrange(147), data)
    if kind == 2:
        return protocol.build_sync_read(range(2, 2 + chance.randrange(1, 9)), 126, 10, fast=bool(chance.randrange(2)))
    if kind == 3:
        count = chance.randrange(1, 9)
        blocks = [chance.randbytes(10) for _ in range(count)]
        return protocol.build_fast_reply(range(2, 2 + count), [0] * count, blocks)
    return protocol.build_status(servo_id, chance.choice(SPECIAL), data)


def mutated(frame: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    """Return a frame with one to four random changes."""
    data = bytearray(frame)
    for _ in range(chance.randrange(1, 5)):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(9):
            case 0 if data:
                data[place % len(data)] ^= 1 << chance.randrange(8)
            case 1 if data:
                data[place % len(data)] = chance.choice(SPECIAL)
            case 2:
                data[place:place] = chance.randbytes(chance.randrange(1, 6))
            case 3:
                del data[place : place + chance.randrange(1, 6)]
            case 4:
                data[place:place] = data[place : place + chance.randrange(1, 12)]
            case 5:
                data[place:place] = HEADER[: chance.randrange(1, 5)]
            case 6 if len(data) > 7:
                data[5:7] = chance.choice((len(data) - 7, chance.randrange(1100))).to_bytes(2, "little")
            case 7 if others:
                data[place:] = chance.choice(others)[chance.randrange(12) :]
            case _ if len(data) > 9:  # correct the CRC, so that only the content is wrong
                data[-2:] = _SDK.updateCRC(0, data, len(data) - 2).to_bytes(2, "little")
    return bytes(data[:LONGEST_STREAM])


@dataclass(frozen=True)
class Stream:
    """Input of a parser: bytes, number of packets, and expected packets (None if undefined)."""

    data: bytes
    packets: int
    wanted: tuple[bytes, ...] | None = None


def random_stream(chance: random.Random, corpus: Sequence[bytes]) -> Stream:
    """Return good, damaged and random packets; every fourth stream has only good ones with pauses between them."""
    count = chance.randrange(1, MOST_PARTS + 1)
    if chance.random() < 0.25:
        frames = tuple(good_frame(chance) for _ in range(count))
        quiet = [bytes(chance.randrange(255) for _ in range(chance.randrange(6))) for _ in frames]
        data = b"".join(part for pair in zip(quiet, frames, strict=True) for part in pair)
        return Stream(data, count, frames)
    parts = []
    for _ in range(count):
        kind = chance.random()
        source = chance.choice(corpus) if corpus and kind < 0.4 else good_frame(chance)
        parts.append(chance.randbytes(chance.randrange(40)) if kind > 0.9 else mutated(source, chance, corpus))
    return Stream(b"".join(parts)[:LONGEST_STREAM], count)


def pieces(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Yield a stream in pieces, split at random places."""
    largest, begin = chance.choice((1, 3, 8, 64)), 0
    while begin < len(data):
        end = begin + chance.randrange(1, largest + 1)
        yield data[begin:end]
        begin = end
