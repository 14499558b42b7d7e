"""Fuzzing of the packet parser with random, mutated and split packets, against an independent oracle."""

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Any, Protocol

from benchmarks.faults.stream import Stream, correct_packets, pieces, random_stream
from dynid.hardware.bus import protocol
from dynid.hardware.bus.protocol import Packet, PacketParser

GUIDED_SHARE = 0.05
LARGEST_CORPUS = 400
BATCH = 500
HANG_S = 5.0  # limit of a batch, which usually takes a hundredth of it [s]
LONGEST_KEPT = 100
MOST_EXAMPLES = 5


class Parser(Protocol):
    """Interface of a parser to be fuzzed."""

    max_length: int

    @property
    def pending(self) -> int:
        """Number of bytes held back."""
        ...

    def feed(self, data: bytes) -> list[Packet]:
        """Return the packets that `data` completes."""
        ...


@dataclass
class ParserFigures:
    """Results of the fuzzing.

    Attributes:
        packets: number of packets fed, complete or damaged.
        streams: number of byte streams that contained them.
        accepted: number of packets that the parser returned.
        crashes: number of streams at which it raised an exception.
        hangs: number of batches of streams that it did not finish in time.
        wrongly_accepted: number of streams from which it returned an incorrect packet.
        wrongly_dropped: number of streams of good packets of which it lost one.
        split_differs: number of streams that gave different packets if fed in pieces.
        overfull: number of streams of which it held back more than a packet's length.
        edges: number of distinct line transitions of the parser's code reached while guided by coverage.
        seconds: duration [s].
        examples: some of the streams, in hexadecimal, with their defects.
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
        """Number of streams or batches with a defect."""
        found = asdict(self)
        return sum(found[name] for name in DEFECTS)


DEFECTS = ("crashes", "hangs", "wrongly_accepted", "wrongly_dropped", "split_differs", "overfull")


# -- the fuzzer ------------------------------------------------------------------------------------------------


class _Hang(Exception):
    """Error for a batch that did not finish in time."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise _Hang in this block after a processor time [s], which does not depend on other programs."""

    def give_up(_: int, __: FrameType | None) -> None:
        raise _Hang

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


class Coverage:
    """Line transitions of the protocol's code that were reached, with counts in powers of two."""

    def __init__(self) -> None:
        self.known: set[tuple[str, int, int, int]] = set()
        self._counts: dict[tuple[str, int, int], int] = {}
        self._line: dict[int, int] = {}

    def run(self, work: Callable[[], object]) -> bool:
        """Run a function; return whether it reached a new line transition."""
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
    """Fuzzer that feeds a parser until it has received a number of packets.

    Args:
        seed: seed of all random values.
        make_parser: creates the parser, so that a test can use a faulty one.
        hang_s: processor time of a batch beyond which the parser counts as hung [s].
    """

    def __init__(self, seed: int = 0, make_parser: Callable[[], Parser] = PacketParser, hang_s: float = HANG_S) -> None:
        self._chance = random.Random(seed)
        self._make, self._hang_s = make_parser, hang_s
        self._corpus: list[bytes] = []
        self.figures = ParserFigures()

    def run(self, packets: int, progress: Callable[[int], None] = lambda _: None) -> ParserFigures:
        """Fuzz the parser; the first part is guided by coverage, and its finds are mutated in the rest.

        Args:
            packets: number of packets.
            progress: called with the number of packets fed since the last call.
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
        """Feed one stream, in pieces and complete, and count the defects."""
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
    """Return whether every packet occurs in the stream, each after the previous one."""
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
