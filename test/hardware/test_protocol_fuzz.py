"""The packet parser with arbitrary input against an independent one; the control cycle with damaged replies."""

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks.cli import app
from benchmarks.faults.parser import Coverage, ParserFuzzer
from benchmarks.faults.servo_lockstep import SimulatedClock, SimulatedLine
from benchmarks.faults.stream import Stream, correct_packets, good_frame, without_stuffing
from dynamixel_sdk import Protocol2PacketHandler
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_bus import IndependentAxesPlant
from typer.testing import CliRunner

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus import protocol
from dynid.hardware.bus.protocol import HEADER, Packet, PacketParser, build_packet, build_status
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.bus.state_cycle import StateCycle
from dynid.robot import Robot
from dynid.simulation.faults.script import FaultInjector, FaultScript, RandomFaults
from dynid.simulation.servo.chain import ServoChain

SDK = Protocol2PacketHandler()
NASTY = st.lists(st.sampled_from([0xFF, 0xFF, 0xFD, 0xFD, 0x00, 0xFE, 0x55]), max_size=40).map(bytes)
ANYTHING = st.lists(st.one_of(NASTY, st.binary(max_size=60), st.integers().map(lambda s: frame(s))), max_size=6)


def frame(seed: int) -> bytes:
    return good_frame(random.Random(seed))


# -- the oracle ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.integers(0, 252), NASTY)
def test_oracle_removes_the_stuffing_of_the_sdk(servo_id: int, data: bytes) -> None:
    plain = build_packet(servo_id, 3, data, stuffed=False)
    stuffed = SDK.addStuffing(list(plain))
    assert without_stuffing(stuffed[7:-2]) == plain[7:-2]


@pytest.mark.slow
@given(st.integers())
def test_the_oracle_accepts_intact_frames_only(seed: int) -> None:
    good = frame(seed)
    (found,) = [one for one in correct_packets(b"\x01\x02" + good + b"\xff") if one[0] == 2]
    assert found[1] == 2 + len(good)
    assert not [one for one in correct_packets(good[:-1] + bytes([good[-1] ^ 1])) if one[:2] == (0, len(good))]


@given(ANYTHING)
def test_accepted_packets_are_contained_in_the_stream(parts: list[bytes]) -> None:
    fuzzer = ParserFuzzer()
    fuzzer.check(Stream(b"".join(parts), len(parts)))
    assert fuzzer.figures.bad == 0, fuzzer.figures.examples


# -- the fuzzer ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_random_mutated_and_split_packets_are_parsed_correctly() -> None:
    figures = ParserFuzzer(seed=3).run(8000)
    assert figures.bad == 0, figures.examples
    assert figures.packets >= 8000 and figures.accepted > 1000 and figures.edges > 50


class Gullible(PacketParser):
    """Defective parser that ignores one bit of the CRC."""

    def feed(self, data: bytes) -> list[Packet]:
        return super().feed(data)

    def _take(self, total: int, packets: list[Packet]) -> None:
        crc = protocol.crc16(self._buffer[: total - 2])
        if self._buffer[total - 2] == crc & 0xFF and (self._buffer[total - 1] ^ crc >> 8) & 0xFE == 0:
            self._buffer[total - 2 : total] = crc.to_bytes(2, "little")
        super()._take(total, packets)


class Fragile(PacketParser):
    """Defective parser that trusts the stated length."""

    def feed(self, data: bytes) -> list[Packet]:
        packets = super().feed(data)
        if self._buffer.startswith(HEADER) and len(self._buffer) > 6 and self._buffer[5] == 0:
            raise IndexError("empty packet")
        return packets


class Stubborn(PacketParser):
    """Defective parser that waits for more bytes although a packet is complete."""

    def feed(self, data: bytes) -> list[Packet]:
        while b"\xfd\xfd\xfd" in data:
            pass
        return super().feed(data)


class Forgetful(PacketParser):
    """Defective parser that loses bytes of an earlier piece, unless they are a header."""

    def feed(self, data: bytes) -> list[Packet]:
        if len(data) == 1 and self.pending == 11:
            self.reset()
        return super().feed(data)


class Doubling(PacketParser):
    """Defective parser that returns a packet twice."""

    def feed(self, data: bytes) -> list[Packet]:
        packets = super().feed(data)
        return packets + packets[-1:] if len(packets) == 2 else packets


class Hoarder(PacketParser):
    """Defective parser that discards no bytes."""

    @property
    def pending(self) -> int:
        return 10_000 if self.skipped_bytes > 100 else super().pending


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parser", "defect"),
    [
        (Gullible, "wrongly_accepted"),
        (Fragile, "crashes"),
        (Stubborn, "hangs"),
        (Forgetful, "split_differs"),
        (Forgetful, "wrongly_dropped"),
        (Doubling, "wrongly_accepted"),
        (Hoarder, "overfull"),
    ],
)
def test_a_defective_parser_is_detected(parser: Callable[[], PacketParser], defect: str) -> None:
    figures = ParserFuzzer(seed=1, make_parser=parser, hang_s=1.0).run(1 if parser is Stubborn else 3000)
    assert getattr(figures, defect) > 0
    assert bool(figures.examples) == (defect != "hangs")


def test_coverage_keeps_inputs_that_reach_new_code() -> None:
    coverage = Coverage()
    good = build_status(3, 0, b"\1\2")
    assert coverage.run(lambda: PacketParser().feed(good))
    assert not coverage.run(lambda: PacketParser().feed(good))
    assert coverage.run(lambda: PacketParser().feed(good[:-1] + b"\0"))
    assert coverage.run(lambda: PacketParser().feed(good * 9))


@pytest.mark.slow
def test_the_command_counts_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    call = ["benchmark", "parser", "--packets", "2000", "--json"]
    good = CliRunner().invoke(app, call)
    assert good.exit_code == 0 and json.loads(good.stdout)["packets"] >= 2000
    monkeypatch.setattr(ParserFuzzer.__init__, "__defaults__", (0, Doubling, 5.0))
    bad = CliRunner().invoke(app, call)
    assert bad.exit_code == 1 and json.loads(bad.stdout)["wrongly_accepted"] > 0


# -- the cycle above it ----------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1_000_000), st.booleans(), st.floats(0.0005, 0.006))
def test_corrupted_replies_never_give_a_state(robot: Robot, seed: int, fast: bool, late_s: float) -> None:
    """A fifth of all replies is spoiled by any fault; every state that is taken for valid is the arm's.

    A reply that comes later than the time-out and the quarantine together may pass for that to another read which
    itself stays without a reply; how rarely, the benchmark of the bus measures.
    """
    plant: Any = IndependentAxesPlant(robot)
    chain = ServoChain(robot, plant)
    chain.knows_fast_read = fast
    for servo in chain.servos.values():
        servo.set(table.RETURN_DELAY_TIME, 0)
    clock = SimulatedClock(seed)
    line = SimulatedLine(chain, clock, seed=seed)
    bus = ServoBus("simulated", 3_000_000, robot.servo_ids, clock=clock, opener=line.open)
    bus.open()
    cycle = StateCycle(bus)
    cycle.probe()
    line.faults = FaultInjector(FaultScript(seed=seed, random=RandomFaults(probability=0.2, delay_s=late_s)), chain)
    for count in range(60):
        plant.q[:] = np.linspace(-1.0, 1.0, robot.size) + 0.01 * count
        reading = cycle.read()
        expected = np.rint(plant.q * 4096 / (2 * np.pi)).astype(int) + 2048
        assert (reading.position_count[reading.valid] == expected[reading.valid]).all()
        clock.sleep(0.0002)
    assert sum(line.faults.injected.values()) > 2
