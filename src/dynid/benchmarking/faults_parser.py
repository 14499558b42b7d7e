"""Fuzzing of the packet parser: random, mutated and split packets, guided by coverage, against an independent oracle.

The oracle knows nothing of dynid's parser: it looks at every place of the stream where a header stands, takes the CRC
of the DYNAMIXEL SDK, and takes stuffing away byte by byte.
"""

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Any, Protocol

from dynamixel_sdk import Protocol2PacketHandler

from dynid.hardware import protocol
from dynid.hardware.protocol import Packet, PacketParser

HEADER = b"\xff\xff\xfd\x00"
SPECIAL = (0x00, 0x01, 0x03, 0x04, 0x07, 0x55, 0x82, 0xFC, 0xFD, 0xFE, 0xFF)
MOST_PARTS = 4
GUIDED_SHARE = 0.05
LARGEST_CORPUS = 400
BATCH = 500
HANG_S = 5.0  # for a batch, which takes a hundredth of it
LONGEST_STREAM = 1500  # more than the parser holds back
LONGEST_KEPT = 100
MOST_EXAMPLES = 5
_SDK = Protocol2PacketHandler()


class Parser(Protocol):
    """What is fuzzed."""

    max_length: int

    @property
    def pending(self) -> int:
        """Bytes held back."""
        ...

    def feed(self, data: bytes) -> list[Packet]:
        """The packets that `data` completes."""
        ...


@dataclass
class ParserFigures:
    """What the fuzzing found.

    Attributes:
        packets: how many packets, whole or damaged, were fed.
        streams: in how many streams of bytes.
        accepted: how many packets the parser handed out.
        crashes: streams at which it raised.
        hangs: batches of streams at which it did not come back in time.
        wrongly_accepted: streams from which it handed out what is no correct packet of the stream.
        wrongly_dropped: streams of good packets of which it lost one.
        split_differs: streams that gave other packets in pieces than whole.
        overfull: streams of which it held back more than a packet's length.
        edges: steps from line to line of the parser's code that were taken while guided by coverage.
        seconds: how long it took [s].
        examples: some of the streams, in hexadecimal, with what was wrong.
    """

    packets: int = 0
    streams: int = 0
    accepted: int = 0
    crashes: int = 0
    hangs: int = 0
    wrongly_accepted: int = 0
    wrongly_dropped: int = 0
    split_differs: int = 0
    overfull: int = 0
    edges: int = 0
    seconds: float = 0.0
    examples: list[str] = field(default_factory=list)

    @property
    def bad(self) -> int:
        """How many streams or batches showed a defect."""
        found = asdict(self)
        return sum(found[name] for name in DEFECTS)


DEFECTS = ("crashes", "hangs", "wrongly_accepted", "wrongly_dropped", "split_differs", "overfull")


# -- the oracle ------------------------------------------------------------------------------------------------


def correct_packets(stream: bytes) -> list[tuple[int, int, Packet]]:
    """(begin, end, packet) of everything in a stream that is a packet by its header, length, id and the SDK's CRC."""
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
    """A body without the FD that stuffing put after every FF FF FD, byte by byte."""
    kept: list[int] = []
    index = 0
    while index < len(body):
        kept.append(body[index])
        stuffed = list(body[index - 2 : index + 2]) == [0xFF, 0xFF, 0xFD, 0xFD] if index >= 2 else False
        index += 2 if stuffed else 1
    return bytes(kept)


# -- what is fed -----------------------------------------------------------------------------------------------


def good_frame(chance: random.Random) -> bytes:
    """A correct frame of any kind, often with bytes that look like headers and stuffing."""
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
    """A frame that one to four things happened to."""
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
            case _ if len(data) > 9:  # a right CRC again, so that what is wrong lies deeper
                data[-2:] = _SDK.updateCRC(0, data, len(data) - 2).to_bytes(2, "little")
    return bytes(data[:LONGEST_STREAM])


@dataclass(frozen=True)
class Stream:
    """What is fed: bytes made of so many packets, and the packets that must come out, None if that is open."""

    data: bytes
    packets: int
    wanted: tuple[bytes, ...] | None = None


def random_stream(chance: random.Random, corpus: Sequence[bytes]) -> Stream:
    """Good, damaged and random packets in a row; every fourth stream has only good ones, with quiet between them."""
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
    """A stream cut anywhere."""
    largest, begin = chance.choice((1, 3, 8, 64)), 0
    while begin < len(data):
        end = begin + chance.randrange(1, largest + 1)
        yield data[begin:end]
        begin = end


# -- the fuzzer ------------------------------------------------------------------------------------------------


class _Hang(Exception):
    """A batch did not come back in time."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise _Hang in this block after so long [s]; in the main thread."""

    def give_up(_: int, __: FrameType | None) -> None:
        raise _Hang

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


class Coverage:
    """Which steps from line to line the protocol's code takes, by how often in orders of two."""

    def __init__(self) -> None:
        self.known: set[tuple[str, int, int, int]] = set()
        self._counts: dict[tuple[str, int, int], int] = {}
        self._line: dict[int, int] = {}

    def run(self, work: Callable[[], object]) -> bool:
        """Do something; whether it went where nothing has gone before."""
        self._counts.clear()
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            work()
        finally:
            sys.settrace(before)
        seen = {(*edge, min(count, 255).bit_length()) for edge, count in self._counts.items()}
        new = bool(seen - self.known)
        self.known |= seen
        return new

    def _enter(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename != protocol.__file__ or event != "call":
            return None
        self._line[id(frame)] = 0
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if event == "line":
            edge = (frame.f_code.co_name, self._line.get(id(frame), 0), frame.f_lineno)
            self._counts[edge] = self._counts.get(edge, 0) + 1
            self._line[id(frame)] = frame.f_lineno
        return self._step


class ParserFuzzer:
    """Feeds a parser until so many packets have been fed.

    Args:
        seed: of everything random.
        make_parser: makes the parser, so that a test can plant a bad one.
        hang_s: time for a batch after which the parser hangs [s].
    """

    def __init__(self, seed: int = 0, make_parser: Callable[[], Parser] = PacketParser, hang_s: float = HANG_S) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - not for secrets
        self._make, self._hang_s = make_parser, hang_s
        self._corpus: list[bytes] = []
        self.figures = ParserFigures()

    def run(self, packets: int, progress: Callable[[int], None] = lambda _: None) -> ParserFigures:
        """Fuzz; the first part guided by coverage, whose finds are mutated further in the rest.

        Args:
            packets: how many.
            progress: called with how many have been fed since the last call.
        """
        began, figures = time.monotonic(), self.figures
        coverage = Coverage()
        while figures.packets < packets:
            before = figures.packets
            guided = before < GUIDED_SHARE * packets
            try:
                with _limited(self._hang_s):
                    for _ in range(BATCH):
                        self._one(coverage if guided else None)
            except _Hang:
                figures.hangs += 1
                figures.packets += 1
            progress(figures.packets - before)
        figures.edges = len({edge[:3] for edge in coverage.known})
        figures.seconds = time.monotonic() - began
        return figures

    def _one(self, coverage: Coverage | None) -> None:
        stream = random_stream(self._chance, self._corpus)
        self.figures.streams += 1
        self.figures.packets += stream.packets
        if coverage is None:
            self.check(stream)
        elif coverage.run(lambda: self.check(stream)):
            begin = self._chance.randrange(max(1, len(stream.data) - LONGEST_KEPT))
            self._corpus.append(stream.data[begin : begin + LONGEST_KEPT])
            if len(self._corpus) > LARGEST_CORPUS:
                self._corpus.pop(self._chance.randrange(LARGEST_CORPUS))

    def check(self, stream: Stream) -> None:
        """Feed one stream, in pieces and whole, and count what is wrong."""
        parser = self._make()
        found: list[Packet] = []
        try:
            for piece in pieces(stream.data, self._chance):
                found += parser.feed(piece)
                if parser.pending > parser.max_length + 8:
                    self._count("overfull", stream)
                    break
            whole = self._make().feed(stream.data)
        except _Hang:
            raise
        except Exception as error:
            return self._count("crashes", stream, repr(error))
        self.figures.accepted += len(found)
        if found != whole:
            self._count("split_differs", stream)
        if not _all_correct(found, stream.data):
            self._count("wrongly_accepted", stream)
        if stream.wanted is not None and not _all_wanted(found, stream.wanted):
            self._count("wrongly_dropped", stream)

    def _count(self, defect: str, stream: Stream, detail: str = "") -> None:
        setattr(self.figures, defect, getattr(self.figures, defect) + 1)
        if len(self.figures.examples) < MOST_EXAMPLES:
            self.figures.examples.append(f"{defect} {detail}: {stream.data.hex()}")


def _all_correct(found: Sequence[Packet], data: bytes) -> bool:
    """Whether every packet stands in the stream, each after the one before."""
    if not found:
        return True
    correct, at = correct_packets(data), 0
    for packet in found:
        end = next((end for begin, end, one in correct if begin >= at and one == packet), None)
        if end is None:
            return False
        at = end
    return True


def _all_wanted(found: Sequence[Packet], wanted: Sequence[bytes]) -> bool:
    return [packet for frame in wanted for _, _, packet in correct_packets(frame)[:1]] == list(found)
