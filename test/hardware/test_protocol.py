"""Packets against the packet handler of the real SDK, and the parser with arbitrary input."""

from collections.abc import Callable

import numpy as np
import pytest
from dynamixel_sdk import COMM_SUCCESS, Protocol2PacketHandler
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dynid.hardware.bus import protocol
from dynid.hardware.bus.protocol import Instruction, PacketParser, build_packet, build_status, crc16

SDK = Protocol2PacketHandler()
# Bytes that make headers, stuffing and false headers likely.
NASTY = st.lists(st.sampled_from([0xFF, 0xFF, 0xFD, 0x00, 0xFE, 0x55, 0x01, 0x07]), max_size=40).map(bytes)
PAYLOADS = st.one_of(NASTY, st.binary(max_size=60))
PACKETS = st.builds(build_status, st.integers(0, 252), st.integers(0, 255), PAYLOADS)


class RecordingPort:
    """Takes the place of the SDK's port: keeps what is written, returns what is to be read."""

    is_using = False

    def __init__(self, to_read: bytes = b"") -> None:
        self.written, self.to_read, self.waits = b"", to_read, 0

    def clearPort(self) -> None:
        pass

    def writePort(self, packet: list[int]) -> int:
        self.written = bytes(packet)
        return len(packet)

    def readPort(self, length: int) -> bytes:
        data, self.to_read = self.to_read[:length], self.to_read[length:]
        return data

    def setPacketTimeout(self, packet_length: int) -> None:
        pass

    def isPacketTimeout(self) -> bool:
        self.waits += 1
        return self.waits > 3


def sdk_frame(call: Callable[[RecordingPort], object]) -> bytes:
    port = RecordingPort()
    call(port)
    return port.written


@pytest.mark.slow
@given(st.binary(max_size=200))
def test_crc_equals_that_of_the_sdk(data: bytes) -> None:
    assert crc16(data) == SDK.updateCRC(0, list(data), len(data))


def test_crc_has_the_published_check_value() -> None:
    assert crc16(b"123456789") == 0xFEE8  # the catalogue's check value of CRC-16/UMTS


def test_instruction_frames_equal_those_of_the_sdk() -> None:
    assert protocol.build_ping(3) == sdk_frame(lambda p: SDK.ping(p, 3))
    assert protocol.build_read(3, 132, 4) == sdk_frame(lambda p: SDK.readTx(p, 3, 132, 4))
    assert protocol.build_reboot(3) == sdk_frame(lambda p: SDK.reboot(p, 3))
    for fast in (False, True):
        assert protocol.build_sync_read([2, 3, 9], 126, 10, fast=fast) == sdk_frame(
            lambda p, fast=fast: SDK.syncReadTx(p, 126, 10, [2, 3, 9], 3, fast)
        )
    assert protocol.build_sync_write([2, 3], 102, [b"\x10\x00", b"\xff\xff"]) == sdk_frame(
        lambda p: SDK.syncWriteTxOnly(p, 102, 2, [2, 0x10, 0, 3, 0xFF, 0xFF], 6)
    )


@given(st.integers(0, 252), st.integers(0, 65535), PAYLOADS.filter(len))
def test_stuffing_equals_that_of_the_sdk(servo_id: int, address: int, data: bytes) -> None:
    parameters = address.to_bytes(2, "little") + data
    plain = build_packet(servo_id, Instruction.WRITE, parameters, stuffed=False)
    # Asked directly: the SDK's own txPacket drops the stuffed copy that this returns, and sends the plain one.
    expected = SDK.addStuffing(list(plain))
    expected[-2:] = list(SDK.updateCRC(0, expected, len(expected) - 2).to_bytes(2, "little"))
    assert protocol.build_write(servo_id, address, data) == bytes(expected)


@given(st.integers(0, 252), st.integers(0, 127), PAYLOADS)
def test_the_sdk_reads_our_status_packets(servo_id: int, error: int, data: bytes) -> None:
    frame = build_status(servo_id, error, data)
    # After one stuffed pattern the SDK's unstuffing looks at bytes that it has already moved.
    assume(frame.count(b"\xff\xfd\xfd") < 2)
    packet, result = SDK.rxPacket(RecordingPort(frame), False)
    assert result == COMM_SUCCESS
    assert (packet[4], packet[8], bytes(packet[9 : 9 + len(data)])) == (servo_id, error, data)


def test_byte_stuffing_of_a_state_is_undone_by_the_parser() -> None:
    state = b"\xff\xff\xfd\xff\xff\xff\x00\x08\x00\x00"
    frame = build_status(2, 0, state)
    assert len(frame) == 11 + len(state) + 1
    (packet,) = PacketParser().feed(frame)
    assert packet.parameters == state


@given(PAYLOADS)
def test_unstuffing_inverts_stuffing(data: bytes) -> None:
    assert protocol.unstuff(protocol.stuff(data)) == data
    assert protocol.HEADER not in protocol.stuff(data)


@given(st.lists(st.binary(min_size=10, max_size=10), min_size=1, max_size=8))
def test_fast_reply_is_read_by_the_sdk_and_by_us(blocks: list[bytes]) -> None:
    ids = list(range(2, 2 + len(blocks)))
    errors = [0x80 if servo_id == 3 else 0 for servo_id in ids]
    frame = protocol.build_fast_reply(ids, errors, blocks)
    packet, result = SDK.rxPacket(RecordingPort(frame), True)
    assert result == COMM_SUCCESS and bytes(packet) == frame
    (own,) = PacketParser().feed(frame)
    assert protocol.split_fast_reply(own, 10) == list(zip(ids, errors, blocks, strict=True))
    assert protocol.split_fast_reply(own, 9) == [] or len(blocks) * 14 % 13 == 0


@given(st.lists(st.one_of(PACKETS, NASTY), max_size=6), st.lists(st.integers(1, 30), max_size=40))
def test_splitting_the_stream_changes_nothing(pieces: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(pieces)
    whole, split = PacketParser(), PacketParser()
    expected = whole.feed(stream)
    found, start = [], 0
    for cut in [*cuts, len(stream) + 1]:
        found += split.feed(stream[start : start + cut])
        start += cut
    assert found == expected


@given(st.lists(PACKETS, max_size=5))
def test_every_good_packet_is_found_once_and_in_order(frames: list[bytes]) -> None:
    parser = PacketParser()
    packets = parser.feed(b"".join(frames))
    assert [build_packet(p.packet_id, p.instruction, p.payload) for p in packets] == frames
    assert (parser.skipped_bytes, parser.crc_errors, parser.pending) == (0, 0, 0)


@given(PACKETS, st.data())
def test_a_damaged_byte_is_never_accepted(frame: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(frame) - 1))
    flipped = bytearray(frame)
    flipped[position] ^= data.draw(st.integers(1, 255))
    for packet in PacketParser().feed(bytes(flipped)):
        found = build_packet(packet.packet_id, packet.instruction, packet.payload)
        assert found != frame and found in bytes(flipped)  # only a whole packet inside the payload may come out


@settings(max_examples=300)
@given(st.lists(st.one_of(NASTY, st.binary(max_size=80), PACKETS.map(lambda f: f[:-3])), max_size=12))
def test_garbage_neither_crashes_nor_piles_up_and_the_next_packets_get_through(pieces: list[bytes]) -> None:
    parser = PacketParser()
    for piece in pieces:
        for packet in parser.feed(piece):
            assert packet.packet_id <= 252 or packet.packet_id == protocol.BROADCAST_ID
        assert parser.pending <= parser.max_length + 8
    parser.reset()
    good = build_status(7, 0, b"\x01\x02")
    assert [p.packet_id for p in parser.feed(good + good)] == [7, 7]


@pytest.mark.parametrize("lost", range(1, 15))
def test_a_packet_cut_off_by_the_next_costs_only_itself(lost: int) -> None:
    good = build_status(7, 0, b"\x01\x02\x03\x04")
    parser = PacketParser()
    packets = parser.feed(good[:-lost] + good)
    assert [p.parameters for p in packets] == [b"\x01\x02\x03\x04"]
    assert parser.skipped_bytes == len(good) - lost and parser.pending == 0


def test_a_false_header_with_a_large_length_does_not_block() -> None:
    parser = PacketParser()
    false = protocol.HEADER + b"\x07\xf0\x03\x55"
    assert parser.feed(false + build_status(9, 0))[0].packet_id == 9


@pytest.mark.parametrize(
    "damage", [lambda f: f[:-1] + bytes([f[-1] ^ 1]), lambda f: f[:-1], lambda f: f[1:], lambda f: b""]
)
def test_damaged_packets_yield_nothing(damage: Callable[[bytes], bytes]) -> None:
    assert PacketParser().feed(damage(build_status(1, 0, b"\x05"))) == []


def test_ids_above_252_are_refused() -> None:
    parser = PacketParser()
    assert parser.feed(build_packet(253, Instruction.STATUS, b"\0")) == []
    assert parser.malformed == 1


@given(st.lists(st.integers(-2047, 2047), min_size=1, max_size=8), st.data())
def test_a_frame_changed_in_place_equals_a_newly_built_one(values: list[int], data: st.DataObject) -> None:
    values = [data.draw(st.sampled_from([value, -1, -3, -769])) for value in values]
    ids = list(range(2, 2 + len(values)))
    ids[-1] = data.draw(st.sampled_from([ids[-1], 252]))
    blocks = [value.to_bytes(2, "little", signed=True) for value in values]
    frame = bytearray(protocol.build_sync_write(ids, 102, [b"\0\0"] * len(ids)))
    for position, block in enumerate(blocks):
        frame[13 + 3 * position : 15 + 3 * position] = block
    assert protocol.finish_frame(frame) == protocol.build_sync_write(ids, 102, blocks)


def test_a_frame_changed_in_place_is_stuffed_where_needed() -> None:
    frame = bytearray(protocol.build_write(2, 102, bytes(4)))
    frame[10:14] = b"\xff\xff\xfd\x01"
    assert protocol.finish_frame(frame) == protocol.build_write(2, 102, b"\xff\xff\xfd\x01")


def test_packets_fed_whole_are_judged_as_those_fed_byte_by_byte() -> None:
    random = np.random.default_rng(0)
    kinds = [
        protocol.build_status(3, 0, bytes(10)),
        protocol.build_status(3, 0, b"\xff\xff\xfd\x00abc"),
        protocol.build_fast_reply([1, 2], [0, 0], [bytes(10), b"\xff\xff\xfd\x00" + bytes(6)]),
        protocol.build_ping(1),
    ]
    taken = 0
    for _ in range(4000):
        frame = bytearray(kinds[random.integers(len(kinds))])
        if random.random() < 0.7:
            frame[random.integers(len(frame))] ^= int(random.integers(1, 256))
        whole, pieces = protocol.PacketParser(), protocol.PacketParser()
        found = whole.feed(bytes(frame))
        assert found == [packet for byte in frame for packet in pieces.feed(bytes([byte]))]
        assert (whole.crc_errors, whole.malformed, whole.skipped_bytes, whole.pending) == (
            pieces.crc_errors, pieces.malformed, pieces.skipped_bytes, pieces.pending
        )  # fmt: skip
        taken += len(found)
    assert taken > 1000
