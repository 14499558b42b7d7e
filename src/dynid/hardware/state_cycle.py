"""The 1 kHz exchange with all servos: one (fast) sync read of their state, one sync write of their goal currents."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.hardware import control_table as table
from dynid.hardware.bus import ATTEMPTS, STATUS_OVERHEAD, ServoBus
from dynid.hardware.control_table import IntArray
from dynid.hardware.port import WaitingPortHandler
from dynid.hardware.protocol import (
    BROADCAST_ID,
    Instruction,
    Packet,
    build_sync_read,
    build_sync_write,
    finish_frame,
    split_fast_reply,
)

FAST_REPLY_OVERHEAD = 8
FAST_BLOCK_OVERHEAD = 4
EARLY_FRACTION = 0.9
TIMING_PROBES = 5
EARLY_REPLIES_BELIEVED = 3
FAST_FAILURES_BEFORE_PLAIN = 3
PLAIN_READS_BEFORE_FAST = 1000
LONGEST_QUARANTINE_S = 0.016
_GOAL = np.dtype([("id", "u1"), ("current", "<i2")])
_STATE = np.dtype([("current", "<i2"), ("velocity", "<i4"), ("position", "<i4")])


@dataclass
class CycleCounters:
    """What went wrong in the reads so far; `missing_by_servo` is (n,).

    A read that was not fully answered in time is a timeout, one that was answered sooner than the wire allows is
    stale.
    """

    missing_by_servo: NDArray[np.int64]
    timeouts: int = 0
    stale: int = 0
    duplicates: int = 0
    wrong_ids: int = 0
    status_errors: int = 0


@dataclass
class StateReading:
    """The result of one read, overwritten by the next; each (n,) in the order of the bus' ids.

    Attributes:
        current_count: present currents; where `valid` is False those of the last valid read, as for all counts.
        velocity_count: present velocities.
        position_count: present positions.
        errors: the status error bytes, alert bit included; 0 where there was no reply.
        valid: whether this read brought the servo's values.
        complete: whether all are valid.
        stamp_ns: when the last reply arrived: monotonic clock plus `ServoBus.realtime_offset_ns`.
    """

    current_count: IntArray
    velocity_count: IntArray
    position_count: IntArray
    errors: NDArray[np.uint8]
    valid: NDArray[np.bool_]
    complete: bool = False
    stamp_ns: int = 0


class StateCycle:
    """Reads and writes all servos of a bus at once, by prebuilt frames.

    Args:
        bus: an open bus.
        quarantine_s: after a read that was not answered in time, how long no new one is sent, so that a late reply
            cannot pass as the answer to the next; at least the adapter's worst latency. It doubles, up to
            `LONGEST_QUARANTINE_S`, with every further read that nobody answers.

    Attributes:
        fast_read: whether the fast sync read is used; False until `probe` found that all servos know it.
        wire_timed: whether the line is as slow as its baud rate says; a simulated one need not be. On one that is, a
            reply that is quicker than the wire allows belongs to an earlier request. Found out by `probe`, and taken
            back when replies are too quick again right after a quarantine, in which a late one would have arrived.
        counters: faults so far.
    """

    def __init__(self, bus: ServoBus, *, quarantine_s: float = 0.002) -> None:
        self.bus = bus
        self.quarantine_s = quarantine_s
        self.fast_read = False
        self.wire_timed = False
        size = len(bus.servo_ids)
        self._new_counters()
        state = (table.STATE_ADDRESS, table.STATE_SIZE)
        self._requests = {fast: build_sync_read(bus.servo_ids, *state, fast=fast) for fast in (False, True)}
        self._reply_sizes = {
            False: size * (STATUS_OVERHEAD + table.STATE_SIZE),
            True: FAST_REPLY_OVERHEAD + size * (table.STATE_SIZE + FAST_BLOCK_OVERHEAD),
        }
        blank = build_sync_write(bus.servo_ids, table.GOAL_CURRENT.address, [bytes(table.GOAL_CURRENT.size)] * size)
        self._write_frame = bytearray(blank)
        goals = memoryview(self._write_frame)[-2 - size * _GOAL.itemsize : -2]
        self._goals = np.frombuffer(goals, dtype=_GOAL)
        self._bytes = bytearray(size * table.STATE_SIZE)
        self._state = np.frombuffer(self._bytes, dtype=_STATE)
        self._reading = StateReading(
            current_count=np.zeros(size, dtype=np.int64),
            velocity_count=np.zeros(size, dtype=np.int64),
            position_count=np.zeros(size, dtype=np.int64),
            errors=np.zeros(size, dtype=np.uint8),
            valid=np.zeros(size, dtype=np.bool_),
        )
        self._quarantine_until_ns = 0
        self._fast_failures = self._plain_reads_left = self._silent_reads = self._early_replies = 0

    def probe(self) -> bool:
        """Find out whether all servos know the fast sync read, and whether the line keeps the wire's timing.

        Returns:
            Whether the fast read is used from now on.

        Raises:
            BusError: the port is lost.
        """
        clock = self.bus.clock
        with self.bus.line() as port:
            self.fast_read = any(self._exchange(port, True) for _ in range(ATTEMPTS))
            shortest_s = float("inf")
            for _ in range(TIMING_PROBES):
                started_ns = clock.monotonic_ns()
                if self._exchange(port, self.fast_read):
                    shortest_s = min(shortest_s, (clock.monotonic_ns() - started_ns) * 1e-9)
            self.wire_timed = EARLY_FRACTION * self._wire_s(self.fast_read) <= shortest_s < float("inf")
        self._new_counters()
        self._quarantine_until_ns = 0
        return self.fast_read

    def read(self, meanwhile: Callable[[], None] | None = None) -> StateReading:
        """Current, velocity and position of all servos; `meanwhile` is called while the bytes are on the wire.

        Waits out the quarantine first, if the read before was not answered in time. Never raises for what a servo
        did or did not answer: see `StateReading.valid`. The returned object is overwritten by the next call.

        Raises:
            BusError: the port is lost.
        """
        with self.bus.line() as port:
            quarantine_s = (self._quarantine_until_ns - self.bus.clock.monotonic_ns()) * 1e-9
            if quarantine_s > 0:
                self.bus.clock.sleep(quarantine_s)
            fast = self.fast_read and self._plain_reads_left == 0
            self._plain_reads_left = max(0, self._plain_reads_left - 1)
            complete = self._exchange(port, fast, meanwhile)
            self._fast_failures = self._fast_failures + 1 if fast and not complete else 0
            if self._fast_failures >= FAST_FAILURES_BEFORE_PLAIN:
                # One servo that is missing makes the fast read fail for all; the plain one still hears the others.
                self._fast_failures, self._plain_reads_left = 0, PLAIN_READS_BEFORE_FAST
            return self._reading

    def write(self, goal_current_count: IntArray) -> None:
        """Set the goal currents of all servos, (n,) counts; the servos do not confirm it.

        Raises:
            BusError: the port is lost.
        """
        self._goals["current"] = goal_current_count
        frame = finish_frame(self._write_frame)
        with self.bus.line() as port:
            port.send(frame)

    def _new_counters(self) -> None:
        self.counters = CycleCounters(missing_by_servo=np.zeros(len(self.bus.servo_ids), dtype=np.int64))

    def _wire_s(self, fast: bool) -> float:
        return self.bus.wire_s(len(self._requests[fast]), self._reply_sizes[fast])

    def _exchange(self, port: WaitingPortHandler, fast: bool, meanwhile: Callable[[], None] | None = None) -> bool:
        """One request and its replies into `_reading`; whether every servo's reply was good."""
        reading = self._reading
        reading.valid[:] = False
        reading.errors[:] = 0
        seen: set[int] = set()
        started_ns = self.bus.clock.monotonic_ns()
        for packet in self.bus.ask(port, self._requests[fast], self._reply_sizes[fast], meanwhile):
            self._accept(packet, fast, seen)
            if len(seen) == len(self.bus.servo_ids):
                break
        ended_ns = self.bus.clock.monotonic_ns()
        reading.stamp_ns = ended_ns + self.bus.realtime_offset_ns
        too_early = (ended_ns - started_ns) * 1e-9 < EARLY_FRACTION * self._wire_s(fast)
        if len(seen) < len(self.bus.servo_ids):
            self.counters.timeouts += 1
            self._silent_reads = 0 if seen else min(self._silent_reads + 1, 8)
            self._quarantine(ended_ns)
        elif self.wire_timed and too_early:
            self.counters.stale += 1
            self._early_replies += 1
            self.wire_timed = self._early_replies < EARLY_REPLIES_BELIEVED
            self._quarantine(ended_ns)
            reading.valid[:] = False
        else:
            self._silent_reads = self._early_replies = 0
        reading.complete = bool(reading.valid.all())
        if not reading.complete:
            self.counters.missing_by_servo += ~reading.valid
        np.copyto(reading.current_count, self._state["current"], where=reading.valid)
        np.copyto(reading.velocity_count, self._state["velocity"], where=reading.valid)
        np.copyto(reading.position_count, self._state["position"], where=reading.valid)
        return reading.complete

    def _quarantine(self, now_ns: int) -> None:
        doubled_s = self.quarantine_s * 2 ** max(0, self._silent_reads - 1)
        duration_s = max(self.quarantine_s, min(doubled_s, LONGEST_QUARANTINE_S))
        self._quarantine_until_ns = now_ns + int(duration_s * 1e9)

    def _accept(self, packet: Packet, fast: bool, seen: set[int]) -> None:
        if packet.instruction != Instruction.STATUS:
            return  # an echo of our own request, as some adapters return it
        if packet.packet_id != BROADCAST_ID:
            self._accept_servo(packet.packet_id, packet.error, packet.parameters, seen)
        elif fast:
            for servo_id, error, data in split_fast_reply(packet, table.STATE_SIZE):
                self._accept_servo(servo_id, error, data, seen)

    def _accept_servo(self, servo_id: int, error: int, data: bytes, seen: set[int]) -> None:
        index = self.bus.index.get(servo_id)
        if index is None:
            self.counters.wrong_ids += 1
            return
        self._reading.errors[index] |= error
        if len(data) != table.STATE_SIZE and not error & ~table.ALERT_BIT:
            self.counters.status_errors += 1  # the late answer to another read
            return
        if index in seen:
            self.counters.duplicates += 1
            self._reading.valid[index] = False  # there is no telling which of the two belongs to this request
            return
        seen.add(index)
        if error & ~table.ALERT_BIT:
            self.counters.status_errors += 1
            return
        self._bytes[index * table.STATE_SIZE : (index + 1) * table.STATE_SIZE] = data
        self._reading.valid[index] = True
