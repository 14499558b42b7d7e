"""Assignment of late replies to their requests: the cycle with a simulated clock and line."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from benchmarks.faults.servo_lockstep import SimulatedClock

from dynid.errors import BusTimeoutError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.protocol import Instruction, build_fast_reply, build_status
from dynid.hardware.bus.servo_bus import ServoBus
from dynid.hardware.bus.state_cycle import StateCycle
from dynid.hardware.bus.state_exchange import TAGGED_SIZES

IDS = tuple(range(2, 10))
OLD, NEW = 1111, 2222


class Line:
    """A port whose replies arrive at planned times."""

    ser, is_open, is_using = None, True, False

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self.arriving: list[tuple[int, bytes]] = []
        self.requests: list[bytes] = []
        self.answer: Callable[[bytes], tuple[float, bytes] | None] = lambda _: None

    def send(self, frame: bytes) -> None:
        self.requests.append(frame)
        if (reply := self.answer(frame)) is not None:
            self.plan(reply[0], reply[1])

    def plan(self, delay_s: float, content: bytes) -> None:
        self.arriving.append((self.clock.now_ns + int(delay_s * 1e9), content))
        self.arriving.sort()

    def receive(self, timeout_ms: float) -> bytes:
        until_ns = self.clock.now_ns + int(timeout_ms * 1e6)
        if not self.arriving or self.arriving[0][0] > until_ns:
            self.clock.now_ns = until_ns
            return b""
        self.clock.now_ns = max(self.clock.now_ns, self.arriving[0][0])
        there = [content for at, content in self.arriving if at <= self.clock.now_ns]
        self.arriving = self.arriving[len(there) :]
        return b"".join(there)

    def discard_input(self) -> None:
        self.arriving = [one for one in self.arriving if one[0] > self.clock.now_ns]


def answer_to(request: bytes, position: int, ids: tuple[int, ...] = IDS) -> bytes:
    """What servos at a position send back; b"" if the fast read misses one."""
    if request[7] == Instruction.PING:
        return build_status(request[4], 0, bytes(3))
    asked = tuple(servo for servo in request[12:-2] if servo in ids)
    size = int.from_bytes(request[10:12], "little")
    data = (bytes(6) + position.to_bytes(4, "little")).ljust(size, b"\x07")
    if request[7] == Instruction.FAST_SYNC_READ:
        complete = len(asked) == len(request[12:-2])
        return build_fast_reply(asked, [0] * len(asked), [data] * len(asked)) if complete else b""
    return b"".join(build_status(servo, 0, data) for servo in asked)


def wire_s(request: bytes, reply: bytes) -> float:
    return (len(request) + len(reply)) * 10 / 3e6


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def line(clock: SimulatedClock) -> Line:
    return Line(clock)


@pytest.fixture(params=[True, False], ids=["fast", "plain"])
def cycle(clock: SimulatedClock, line: Line, request: pytest.FixtureRequest) -> Iterator[StateCycle]:
    bus = ServoBus("simulated", 3_000_000, IDS, clock=clock, opener=lambda *_: line)  # type: ignore[arg-type, return-value]
    bus.open()
    opened = StateCycle(bus)
    opened.fast_read, opened.wire_timed = request.param, True
    yield opened


def answering(line: Line, position: int, latency_s: float = 0.0003, ids: tuple[int, ...] = IDS) -> None:
    def answer(request: bytes) -> tuple[float, bytes]:
        reply = answer_to(request, position, ids)
        return wire_s(request, reply) + latency_s, reply

    line.answer = answer


def silent(line: Line) -> None:
    line.answer = lambda _: None


@pytest.mark.slow
def test_prompt_replies_are_read_without_counting_faults(cycle: StateCycle, line: Line) -> None:
    answering(line, OLD)
    for _ in range(3):
        reading = cycle.read()
        assert reading.complete and (reading.position_count == OLD).all()
    assert cycle.counters.timeouts == cycle.counters.stale == 0
    assert {int.from_bytes(one[10:12], "little") for one in line.requests} == {table.STATE_SIZE}


@pytest.mark.slow
@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("latency_s", [0.0001, 0.0007, 0.0015])
@pytest.mark.parametrize("missing", [None, 5])
def test_late_reply_is_rejected(
    cycle: StateCycle, line: Line, timed: bool, latency_s: float, missing: int | None
) -> None:
    """It comes at any moment of the reads behind the one that it answers, whole or without a servo."""
    cycle.wire_timed = timed
    for late_us in range(0, 12_000, 110):
        answering(line, OLD)
        for _ in range(30):  # a whole new start
            reading = cycle.read()
        assert reading.complete
        silent(line)
        assert not cycle.read().valid.any()
        old = answer_to(line.requests[-1], OLD, tuple(one for one in IDS if one != missing))
        line.plan(late_us * 1e-6, old or b"\xff")  # nobody answers a fast read that misses a servo
        answering(line, NEW, latency_s)
        for number in range(14):
            reading = cycle.read()
            assert (reading.position_count[reading.valid] == NEW).all(), f"{late_us} us late, read {number}"
            if number > 1:
                assert reading.complete, f"{late_us} us late: no answer in read {number}"


def test_two_late_replies_are_rejected(cycle: StateCycle, line: Line) -> None:
    for late_us in range(0, 3_000, 50):
        answering(line, OLD)
        for _ in range(30):
            assert cycle.read() is not None
        silent(line)
        for _ in range(2):
            cycle.read()
            line.plan(late_us * 1e-6, answer_to(line.requests[-1], OLD))
        answering(line, NEW, 0.0008)
        for _ in range(6):
            reading = cycle.read()
            assert (reading.position_count[reading.valid] == NEW).all(), f"{late_us} us late"
        assert reading.complete


def test_a_servo_that_was_not_asked_does_not_count(cycle: StateCycle, line: Line) -> None:
    answering(line, OLD)
    assert cycle.read().complete
    answering(line, NEW, ids=tuple(one for one in IDS if one != 5))
    for _ in range(30):
        reading = cycle.read()
    request = line.requests[-1]
    assert 5 not in request[12:-2], "it is left out by now"
    size, before = int.from_bytes(request[10:12], "little"), cycle.counters.stale
    line.plan(0.0002, build_status(5, 0, (bytes(6) + OLD.to_bytes(4, "little")).ljust(size, b"\0")))
    reading = cycle.read()
    assert reading.valid.tolist() == [one != 5 for one in IDS] and not reading.complete
    assert cycle.counters.stale == before + 1


def test_a_reply_of_another_size_does_not_end_a_slow_read(cycle: StateCycle, line: Line) -> None:
    cycle.fast_read = False
    answering(line, NEW)
    line.plan(0.0001, build_status(IDS[-1], 0, bytes(3)))
    assert cycle.read().complete and cycle.counters.status_errors == 1


def test_an_incomplete_answer_that_is_too_quick_is_stale(cycle: StateCycle, line: Line) -> None:
    cycle.fast_read = False
    answering(line, OLD)
    assert cycle.read().complete
    silent(line)
    line.plan(0.0001, answer_to(line.requests[-1], NEW, tuple(one for one in IDS if one != 5)))
    reading = cycle.read()
    assert not reading.valid.any() and cycle.counters.stale == 1 and (reading.position_count == OLD).all()


def test_reads_after_a_silence_request_different_sizes(cycle: StateCycle, line: Line) -> None:
    silent(line)
    cycle.read()
    answering(line, NEW)
    for _ in range(40):
        assert cycle.read().complete
    sizes = [int.from_bytes(one[10:12], "little") for one in line.requests]
    doubted = [size for size in sizes if size != table.STATE_SIZE]
    assert doubted[:10] == list(TAGGED_SIZES) and sizes[-1] == sizes[0] == table.STATE_SIZE


def test_one_late_reply_does_not_hide_the_wires_timing(cycle: StateCycle, line: Line) -> None:
    for late_s in np.arange(0.0062, 0.0090, 0.0001):
        fresh, answers = StateCycle(cycle.bus), 0

        def answer(request: bytes, late_s: float = late_s) -> tuple[float, bytes]:
            nonlocal answers
            answers += 1
            reply = answer_to(request, NEW)
            return (late_s if answers == 1 else wire_s(request, reply) + 0.0003), reply

        line.answer = answer
        assert fresh.probe() and fresh.wire_timed, f"{late_s:.4f} s"


def test_line_without_wire_timing_is_reported(cycle: StateCycle, line: Line) -> None:
    line.answer = lambda request: (0.0001, answer_to(request, NEW))
    fresh = StateCycle(cycle.bus)
    assert fresh.probe() and not fresh.wire_timed


def test_a_busy_host_does_not_make_a_quick_line_look_slow(cycle: StateCycle, line: Line) -> None:
    answers = 0

    def answer(request: bytes) -> tuple[float, bytes]:
        nonlocal answers
        answers += 1
        reply = answer_to(request, NEW)
        return (0.0001 if answers % 5 == 0 else wire_s(request, reply) + 0.002), reply

    line.answer = answer
    fresh = StateCycle(cycle.bus)
    assert fresh.probe() and not fresh.wire_timed


def test_a_callback_that_fails_does_not_close_the_port(cycle: StateCycle, line: Line) -> None:
    answering(line, NEW)

    def fail() -> None:
        raise FileNotFoundError("no such bag")

    with pytest.raises(FileNotFoundError, match="no such bag"):
        cycle.read(fail)
    assert cycle.bus.is_open and cycle.read().complete


@pytest.mark.parametrize(("comes_s", "taken"), [(0.001, True), (1.0, False)])
def test_a_reply_that_came_while_the_host_stood_still_is_read(
    clock: SimulatedClock, line: Line, comes_s: float, taken: bool
) -> None:
    """Setting up a servo: the host sends, and runs again only when the time for the reply is over."""
    bus = ServoBus("simulated", 3_000_000, IDS, clock=clock, opener=lambda *_: line)  # type: ignore[arg-type, return-value]
    bus.open()
    send, stalls_ns = line.send, int(0.05e9)

    def stalled(frame: bytes) -> None:
        send(frame)
        clock.now_ns += stalls_ns

    line.send = stalled  # type: ignore[method-assign]
    line.answer = lambda frame: (comes_s, build_status(frame[4], 0, b""))
    if taken:
        bus.write(IDS[0], table.GOAL_CURRENT, 0)
        assert bus.retries == 0
    else:
        with pytest.raises(BusTimeoutError, match="no answer"):
            bus.write(IDS[0], table.GOAL_CURRENT, 0)
