"""The USB adapter between simulated servos and client: exact instants, and the bus behind it."""

import time
from pathlib import Path

import pytest
from plain_bus import IndependentAxesPlant, running_bus

from dynid.hardware.bus.port import open_port
from dynid.hardware.bus.protocol import PacketParser, build_ping, build_sync_read
from dynid.hardware.loop.paused_clock import ClockPage, PausedClock
from dynid.robot import Robot
from dynid.simulation.bus.adapter import UsbAdapter, adapter_of
from dynid.simulation.bus.servo_bus import EmulatedServoBus

MS = 1_000_000


def arrivals(adapter: UsbAdapter) -> list[tuple[int, int]]:
    """Return the times [ns] and sizes [bytes] at which the host receives the kept bytes."""
    found = []
    while (due := adapter.due_ns) is not None:
        found.append((due, len(adapter.hand_over(due))))
    return found


def test_a_reply_comes_with_the_first_frame_after_its_end() -> None:
    adapter = UsbAdapter()
    assert adapter.receive(bytes(120), 5 * MS + 100_000, 3333.3333) == 5 * MS + 500_000
    assert adapter.due_ns == 6 * MS and adapter.hand_over(6 * MS - 1) == b""
    assert arrivals(adapter) == [(6 * MS, 120)]


def test_a_byte_that_ends_with_the_frame_goes_with_it_and_the_next_waits() -> None:
    adapter = UsbAdapter()
    adapter.receive(b"ab", 7 * MS - 10_000, 10_000)
    assert arrivals(adapter) == [(7 * MS, 1), (8 * MS, 1)]


def test_a_reply_across_a_frame_comes_in_two_parts_in_order() -> None:
    adapter, sent = UsbAdapter(), bytes(range(120))
    adapter.receive(sent, 2 * MS + 800_000, 3333.3333)
    first = adapter.hand_over(3 * MS)
    assert first == sent[:60] and adapter.hand_over(3 * MS) == b""
    assert adapter.due_ns == 4 * MS and adapter.hand_over(4 * MS) == sent[60:]


def test_factory_latency_delays_partial_packets() -> None:
    adapter = UsbAdapter(16)
    adapter.receive(bytes(120), 16 * MS + 100_000, 3333.3333)
    # one packet of 62 bytes is full 306.7 us after the begin; the timer starts anew with it
    assert arrivals(adapter) == [(17 * MS, 62), (33 * MS, 58)]


def test_the_factory_latency_counts_from_the_last_packet() -> None:
    adapter = UsbAdapter(16)
    adapter.receive(bytes(14), 3 * MS, 3333.3333)
    assert arrivals(adapter) == [(16 * MS, 14)]
    adapter.receive(bytes(14), 31 * MS + 990_000, 3333.3333)
    assert arrivals(adapter) == [(32 * MS, 3), (48 * MS, 11)]


def test_a_packet_that_is_read_late_was_handed_over_in_time() -> None:
    adapter = UsbAdapter()
    adapter.receive(b"a", 1 * MS + 1, 0)
    adapter.receive(b"b", 2 * MS + 1, 0)
    assert adapter.hand_over(90 * MS) == b"ab" and adapter.due_ns is None
    adapter.receive(b"c", 95 * MS, 0)
    adapter.clear()
    assert adapter.due_ns is None


def test_only_an_adapter_has_a_latency_of_at_least_1_ms() -> None:
    assert adapter_of("uart") is None and adapter_of("u2d2") is not None
    with pytest.raises(ValueError, match="latency timer 0 ms: expected 1 to 255"):
        UsbAdapter(0)


def exchanges(bus: EmulatedServoBus, ids: tuple[int, ...], count: int) -> list[int]:
    """Arrivals of the replies to that many reads [ns]; all replies must be whole."""
    handler, times = open_port(bus.port, 3_000_000), []
    handler.send(build_ping(ids[0]))
    assert handler.receive(1000.0)
    for _ in range(count):
        handler.send(build_sync_read(ids, 126, 10, fast=True))
        parser, packets = PacketParser(), []
        while not packets:  # a reply that crosses a frame comes in two parts
            packets = parser.feed(handler.receive(1000.0))
        times.append(time.monotonic_ns())
        assert len(packets[0].parameters) > 100 and not parser.skipped_bytes
    handler.closePort()
    return times


@pytest.mark.real_time
def test_the_bus_answers_on_the_tick(robot: Robot) -> None:
    with running_bus(EmulatedServoBus(robot, IndependentAxesPlant(robot), adapter=UsbAdapter())) as bus:
        times = exchanges(bus, robot.servo_ids, 20)
    assert sorted(t % MS for t in times)[10] < 0.5 * MS


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_time_that_is_held_goes_on_to_the_tick(robot: Robot, tmp_path: Path, share: float) -> None:
    """A driver that is as late as it may be on its host still gets the reply with the next tick of the held time."""
    page = ClockPage(tmp_path / "clock", create=True)
    bus = EmulatedServoBus(robot, IndependentAxesPlant(robot), clock=page, adapter=UsbAdapter())
    clock = PausedClock(ClockPage(page.path), 0.001)
    handler = open_port(bus.port, 3_000_000)
    with running_bus(bus):
        clock.wait_until(clock.monotonic_ns(), lambda: False)  # from now on time is held
        begin = clock.monotonic_ns() // MS * MS + 2 * MS
        for k in range(20):
            clock.wait_until(begin + k * MS, lambda: False)
            time.sleep(share * 0.01)  # the host is late by several cycles
            assert clock.monotonic_ns() <= begin + k * MS + 150_000
            handler.send(build_sync_read(robot.servo_ids, 126, 10, fast=True))
            (packet,) = PacketParser().feed(handler.receive(1000.0))
            assert len(packet.parameters) > 100
            assert clock.monotonic_ns() == begin + (k + 1) * MS
    clock.close()
    page.close()
    handler.closePort()
