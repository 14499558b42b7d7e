"""DYNAMIXEL Protocol 2.0 framing: CRC, byte stuffing, instruction packets and a strict incremental parser.

The source is the ROBOTIS e-manual, "DYNAMIXEL Protocol 2.0". This module does no input or output. The driver parses
status packets with it, and the emulated bus parses instruction packets.

A packet on the wire: FF FF FD 00 | ID | length (2 bytes) | instruction | payload | CRC (2 bytes); the length
counts everything after itself. FF FF FD inside instruction and payload is stuffed to FF FF FD FD. The reply
to a fast sync read (ID 0xFE) is the exception: it is not stuffed.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from fastcrc.crc16 import umts

HEADER = b"\xff\xff\xfd\x00"
BROADCAST_ID = 0xFE
MAX_SERVO_ID = 252
MAX_LENGTH = 1024

_PREFIX = 7  # bytes of header, ID and length, which the length field does not count
_PATTERN = HEADER[:3]
_STUFFED = _PATTERN + b"\xfd"


class Instruction(IntEnum):
    """Instructions of Protocol 2.0 that the X series supports, and the instruction byte of a status packet."""

    PING = 0x01
    READ = 0x02
    WRITE = 0x03
    REG_WRITE = 0x04
    ACTION = 0x05
    FACTORY_RESET = 0x06
    REBOOT = 0x08
    CLEAR = 0x10
    BACKUP = 0x20
    STATUS = 0x55
    SYNC_READ = 0x82
    SYNC_WRITE = 0x83
    FAST_SYNC_READ = 0x8A
    BULK_READ = 0x92
    BULK_WRITE = 0x93
    FAST_BULK_READ = 0x9A


class Packet(NamedTuple):
    """One packet with a correct CRC; `payload` follows the instruction, with the stuffing removed.

    In a status packet the payload begins with the error byte. The common reply of all servos to a fast sync read is an
    exception: its payload contains one error byte for each servo (see `split_fast_reply`).
    """

    packet_id: int
    instruction: int
    payload: bytes

    @property
    def error(self) -> int:
        """Error byte of a status packet."""
        return self.payload[0]

    @property
    def parameters(self) -> bytes:
        """Bytes after the error byte of a status packet."""
        return self.payload[1:]


def crc16(data: bytes | bytearray | memoryview, crc: int = 0) -> int:
    """Return the CRC-16/UMTS (polynomial 0x8005, start 0, not reflected) of `data`.

    `crc` is the CRC of preceding data; 0 if there is none.
    """
    return umts(data, crc)


def stuff(body: bytes) -> bytes:
    """Return the bytes of instruction and payload as sent on the wire, with FD inserted after every FF FF FD."""
    return body.replace(_PATTERN, _STUFFED)


def unstuff(body: bytes) -> bytes:
    """Return the bytes of instruction and payload without the FD that the sender inserted after every FF FF FD."""
    return body.replace(_STUFFED, _PATTERN)


def build_packet(packet_id: int, instruction: int, payload: bytes = b"", *, stuffed: bool = True) -> bytes:
    """Return the wire bytes of a packet.

    Args:
        packet_id: 0..252, or 254 for all servos.
        instruction: an `Instruction`.
        payload: bytes after the instruction, not stuffed.
        stuffed: whether to stuff the packet; False only for a fast sync read's reply.
    """
    body = bytes((instruction,)) + payload
    if stuffed:
        body = stuff(body)
    frame = HEADER + bytes((packet_id,)) + (len(body) + 2).to_bytes(2, "little") + body
    return frame + crc16(frame).to_bytes(2, "little")


def finish_frame(frame: bytearray) -> bytes:
    """Return the wire bytes of a prebuilt frame after a change of its payload, with a new CRC and, if needed, stuffing.

    Args:
        frame: wire bytes of an instruction packet that was built without any stuffing. Its payload has been changed in
            place; its CRC is updated in place unless stuffing is needed.
    """
    if frame.find(_PATTERN, _PREFIX, -2) >= 0:
        return build_packet(frame[4], frame[_PREFIX], bytes(frame[_PREFIX + 1 : -2]))
    crc = crc16(memoryview(frame)[:-2])
    frame[-2], frame[-1] = crc & 0xFF, crc >> 8
    return bytes(frame)


def _word(value: int) -> bytes:
    return value.to_bytes(2, "little")


def build_ping(servo_id: int) -> bytes:
    """Return the frame of a ping to one servo, or to all servos with `BROADCAST_ID`."""
    return build_packet(servo_id, Instruction.PING)


def build_read(servo_id: int, address: int, size: int) -> bytes:
    """Return the frame that reads `size` bytes from `address` of one servo."""
    return build_packet(servo_id, Instruction.READ, _word(address) + _word(size))


def build_write(servo_id: int, address: int, data: bytes) -> bytes:
    """Return the frame that writes `data` to `address` of one servo."""
    return build_packet(servo_id, Instruction.WRITE, _word(address) + data)


def build_reboot(servo_id: int) -> bytes:
    """Return the frame that restarts one servo."""
    return build_packet(servo_id, Instruction.REBOOT)


def build_sync_read(servo_ids: Iterable[int], address: int, size: int, *, fast: bool = False) -> bytes:
    """Return the frame of a sync read, or a fast sync read, of `size` bytes from the same address of several servos."""
    instruction = Instruction.FAST_SYNC_READ if fast else Instruction.SYNC_READ
    return build_packet(BROADCAST_ID, instruction, _word(address) + _word(size) + bytes(servo_ids))


def build_sync_write(servo_ids: Sequence[int], address: int, data: Sequence[bytes]) -> bytes:
    """Return the frame of a sync write of `data[i]` to `address` of the servo with ID `servo_ids[i]`.

    All items of `data` must have the same size.
    """
    size = len(data[0])
    blocks = b"".join(bytes((servo_id,)) + block for servo_id, block in zip(servo_ids, data, strict=True))
    return build_packet(BROADCAST_ID, Instruction.SYNC_WRITE, _word(address) + _word(size) + blocks)


def build_status(servo_id: int, error: int, parameters: bytes = b"") -> bytes:
    """Return the frame of a servo's status packet with an error byte and parameters."""
    return build_packet(servo_id, Instruction.STATUS, bytes((error,)) + parameters)


def build_fast_reply(servo_ids: Sequence[int], errors: Sequence[int], data: Sequence[bytes]) -> bytes:
    """Return the frame of the single status packet in which all servos answer a fast sync read.

    Each servo appends its error byte, its ID, its data and the CRC of the packet so far. The CRC of the last servo is
    that of the whole packet.

    Args:
        servo_ids: IDs of the servos, in the order of their blocks.
        errors: status error byte of each servo.
        data: requested register bytes of each servo, all of the same size.
    """
    length = 1 + sum(len(block) + 4 for block in data)
    frame = HEADER + bytes((BROADCAST_ID,)) + _word(length) + bytes((Instruction.STATUS,))
    crc = crc16(frame)
    for servo_id, error, block in zip(servo_ids, errors, data, strict=True):
        part = bytes((error, servo_id)) + block
        crc = crc16(part, crc)
        frame += part + _word(crc)
        crc = crc16(frame[-2:], crc)
    return frame


def split_fast_reply(packet: Packet, size: int) -> list[tuple[int, int, bytes]]:
    """Return (ID, error, data) of every servo in a fast sync read's reply; empty if the length does not fit.

    Args:
        packet: a status packet with the broadcast ID.
        size: bytes of data requested from each servo.
    """
    block = size + 4
    content = packet.payload + b"\0\0"  # restores the size of the last CRC, which the parser has removed
    if packet.packet_id != BROADCAST_ID or len(content) % block:
        return []
    return [
        (content[start + 1], content[start], content[start + 2 : start + 2 + size])
        for start in range(0, len(content), block)
    ]


class PacketParser:
    """Parser that finds complete, correct packets in an arbitrary stream of bytes.

    Input may arrive in pieces of any size. Garbage, false headers, truncated and damaged packets are skipped and
    counted; parsing resumes at the next header. No input raises an error, and the buffer never exceeds the length of
    one packet.

    Attributes:
        max_length: largest accepted value of a packet's length field.
        skipped_bytes: number of bytes that belonged to no packet.
        crc_errors_by_id: number of packets dropped for a wrong CRC, by the ID in the packet, which may itself be
            damaged. The common reply of all servos to a fast read counts under the broadcast ID.
        malformed: number of packets dropped for an impossible ID or length, or because another header follows before
            their end.
    """

    def __init__(self, max_length: int = MAX_LENGTH) -> None:
        self.max_length = max_length
        self.skipped_bytes = 0
        self.crc_errors_by_id = Counter[int]()
        self.malformed = 0
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Number of buffered bytes of an incomplete packet."""
        return len(self._buffer)

    @property
    def crc_errors(self) -> int:
        """Number of packets dropped for a wrong CRC."""
        return self.crc_errors_by_id.total()

    def reset(self) -> None:
        """Discard the buffered bytes of an incomplete packet."""
        self._buffer.clear()

    def feed(self, data: bytes) -> list[Packet]:
        """Return the packets that `data` completes, in order of arrival."""
        self._buffer += data
        packets: list[Packet] = []
        while self._align():
            total = self._total_length()
            if total is None:
                self._drop(1, malformed=True)
                continue
            cut_off = self._inner_header(total)
            if cut_off:
                self._drop(cut_off, malformed=True)
                continue
            if len(self._buffer) < total:
                break
            self._take(total, packets)
        return packets

    def _align(self) -> bool:
        """Drop the bytes before the next header; return whether the buffer contains the packet's length field."""
        start = self._buffer.find(HEADER)
        if start < 0:
            keep = next((n for n in (3, 2, 1) if self._buffer.endswith(HEADER[:n])), 0)
            start = len(self._buffer) - keep
        if start:
            self._drop(start)
        return len(self._buffer) >= _PREFIX + 1

    def _total_length(self) -> int | None:
        """Return the length in bytes of the whole packet at the start of the buffer; None if its header is invalid."""
        packet_id, instruction = self._buffer[4], self._buffer[7]
        length = self._buffer[5] | self._buffer[6] << 8
        shortest = 4 if instruction == Instruction.STATUS else 3
        if not shortest <= length <= self.max_length or MAX_SERVO_ID < packet_id != BROADCAST_ID:
            return None
        return _PREFIX + length

    def _inner_header(self, total: int) -> int:
        """Return the position of a header inside the first packet of the buffer; 0 if there is none.

        Such a header proves that the packet, of `total` bytes, was cut off. A reply to a fast sync read is not stuffed
        and may contain the bytes of a header, so the result for such a reply is 0.
        """
        if self._buffer[4] == BROADCAST_ID and self._buffer[7] == Instruction.STATUS:
            return 0
        return max(0, self._buffer.find(HEADER, _PREFIX, total - 2))

    def _take(self, total: int, packets: list[Packet]) -> None:
        frame = bytes(self._buffer[:total])
        if crc16(frame[:-2]) != frame[-2] | frame[-1] << 8:
            self.crc_errors_by_id[frame[4]] += 1
            self._drop(1)
            return
        del self._buffer[:total]
        body = frame[_PREFIX + 1 : -2]
        if not (frame[4] == BROADCAST_ID and frame[7] == Instruction.STATUS):
            body = unstuff(frame[_PREFIX:-2])[1:]
        packets.append(Packet(frame[4], frame[7], body))

    def _drop(self, count: int, *, malformed: bool = False) -> None:
        del self._buffer[:count]
        self.skipped_bytes += count
        self.malformed += malformed
