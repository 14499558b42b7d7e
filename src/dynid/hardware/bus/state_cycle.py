"""The 1 kHz exchange with all servos: one (fast) sync read of their state, one sync write of their goal currents."""

from collections.abc import Callable, Sequence
from itertools import cycle as endless

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus import protocol
from dynid.hardware.bus.control_table import IntArray
from dynid.hardware.bus.dialogue import STATUS_OVERHEAD
from dynid.hardware.bus.port import WaitingPortHandler
from dynid.hardware.bus.servo_bus import ATTEMPTS, ServoBus
from dynid.hardware.bus.state_exchange import (
    CRC_SIZE,
    FAST_BLOCK_OVERHEAD,
    TAGGED_SIZES,
    CycleCounters,
    StateReading,
    StateRequest,
    StateRequests,
)
from dynid.hardware.bus.state_kernels import take_states
from dynid.robot.servo_fields import WiredServo

EARLY_FRACTION = 0.97
TIMING_PROBES = 16
MOST_FAST_PROBES = 10  # while the host is busy
EARLY_REPLIES_BELIEVED = 3
PLAIN_READS_AFTER_FAST_FAILURE = 20
LONGEST_QUARANTINE_S = 0.016
USUAL_LATENCY_S = 0.001
OLDEST_REPLY_S = 0.020  # what this process, stalled, finds later than that is of another moment
LEFT_OUT_AFTER = 2  # reads in which a servo was silent: one reply may be lost
FIRST_LEFT_OUT_READS, LONGEST_LEFT_OUT_READS = 2, 256
ASKED_AGAIN_MARGIN_S = 0.003  # at first: the others are not seen meanwhile, and may have to be braked
LONGEST_WAIT_S = 0.004  # a read that may not ask before then brings nothing: the motors must not be left alone
ASKED_AGAIN_EVERY = 8  # reads: the longest that is spent on the silent, however many they are
BESIDE_MARGIN_S = 0.00005  # between the reply of a servo that was asked beside and the next request
_GOAL = np.dtype([("id", "u1"), ("current", "<i2")])


class StateCycle:
    """Reads and writes all servos of a bus at once, by prebuilt frames.

    One servo that is missing makes the fast read fail for all, so a failed one is followed by plain reads. Of a plain
    read it silences all servos behind it, since each waits for the reply of the one before: so only the first that is
    silent is to blame, and the others are asked again without it at once, once: while a read lasts, the motors carry
    their last currents. Where nobody behind it answers then, the cable may be cut there, and all behind it are silent.
    They are left out of further reads, or every one would wait for their replies; each is asked again on its own, ever
    more seldom. Of those behind a cut that is only assumed, the last is asked first: if it answers, there is none.
    A reply with a wrong CRC is as good as none, but it has arrived: nobody waits for another one, or is left out.

    Args:
        bus: an open bus.
        quarantine_s: after a read that was not answered in time, how long no new one is sent, so that a late reply
            collides with the answer to the next. It doubles, up to `LONGEST_QUARANTINE_S`, with every further read that
            nobody answers. What comes even later is recognised by its size, see `TAGGED_SIZES`.

        paired: further servos that get the goal current of their axis.

    Attributes:
        fast_read: whether the fast sync read is used; False until `probe` found that all servos know it.
        wire_timed: whether the line is as slow as its baud rate says; a simulated one need not be. On one that is, a
            reply that is quicker than the wire allows belongs to an earlier request. Found out by `probe`, and taken
            back when replies are too quick again right after a quarantine, in which a late one would have arrived.
        counters: faults so far.
        ticking: whether replies arrive on the ticks of an adapter, so that two requests may share one.
    """

    def __init__(self, bus: ServoBus, *, quarantine_s: float = 0.002, paired: Sequence[WiredServo] = ()) -> None:
        self.bus = bus
        self.quarantine_s = quarantine_s
        self.fast_read = False
        self.wire_timed = self.ticking = False
        self._beside: tuple[int, int] | None = None  # who was asked beside the states, and for how many bytes
        self._beside_reply: bytes | None = None
        self._beside_frame = b""
        size = len(bus.servo_ids)
        self._new_counters()
        self._misses, self._asked_again_at = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        self._ask(np.ones(size, dtype=np.bool_))
        ids = [*bus.servo_ids, *(one.servo_id for one in paired)]
        blank = protocol.build_sync_write(ids, table.GOAL_CURRENT.address, [bytes(table.GOAL_CURRENT.size)] * len(ids))
        self._write_frame = bytearray(blank)
        goals = memoryview(self._write_frame)[-2 - len(ids) * _GOAL.itemsize : -2]
        self._goals, self._paired_goals = np.split(np.frombuffer(goals, dtype=_GOAL)["current"], [size])
        self._paired_axes = np.array([one.axis for one in paired], dtype=np.intp)
        self._paired_signs = np.array([one.direction for one in paired], dtype=np.int64)
        self._bytes = bytearray(size * table.STATE_SIZE)
        self._last_complete = bytes(self._bytes)
        self._blocks = np.frombuffer(self._bytes, dtype=np.uint8).reshape(size, table.STATE_SIZE)
        self._all_ids, self._all_indices = bytes(bus.servo_ids), range(size)
        zero = np.zeros(size, dtype=np.int64)
        errors, valid = np.zeros(size, dtype=np.uint8), np.zeros(size, dtype=np.bool_)
        self._reading = StateReading(zero, zero.copy(), zero.copy(), errors, valid)
        self._quarantine_until_ns = self._tagged_until_ns = 0
        self._tags, self._size = endless(TAGGED_SIZES), table.STATE_SIZE
        self._took_s = 0.0
        self._plain_reads_left = self._silent_reads = self._early_replies = self._reads = self._empty_reads = 0
        self._nobody_asked_again_before = 0
        self._assumed = np.zeros(len(bus.servo_ids), dtype=bool)  # left out since the cable may be cut before them
        self._seen: set[int] = set()
        self._fast_failed = False

    def _ask(self, asked: NDArray[np.bool_]) -> None:
        """From now on read these servos, a mask (n,)."""
        self._asked, self._asked_count = asked, int(np.count_nonzero(asked))
        ids = [servo_id for servo_id, one in zip(self.bus.servo_ids, asked, strict=True) if one]
        self._last_id = ids[-1]
        self._requests = StateRequests(ids, self.bus.wire_s)

    def probe(self) -> bool:
        """Find out whether all servos know the fast sync read, and whether the line keeps the wire's timing.

        Returns:
            Whether the fast read is used from now on.

        Raises:
            SilentLineError: no servo answers within a second.
            BusError: the port is lost.
        """
        with self.bus.line() as port:
            self.fast_read = self._knows_fast_read(port)
            shares = []
            for _ in range(TIMING_PROBES):
                self._wait_out_quarantine()
                if not self._exchange(port, self.fast_read):
                    self.bus.dialogue.settle()
                else:
                    shares.append(self._took_s / self._requests.get(self.fast_read, self._size).wire_s)
            # Not the shortest: a late reply to a read before it may look quick. A busy host delays most replies, and
            # only a few show then how quick the line is.
            self.wire_timed = len(shares) > 1 and sorted(shares)[1] >= EARLY_FRACTION
        self._new_counters()
        self._misses[:] = 0
        self._quarantine_until_ns = 0
        return self.fast_read

    def _knows_fast_read(self, port: WaitingPortHandler) -> bool:
        """Whether a fast read is answered; one that the host kept waiting says nothing of the servos."""
        refused = 0
        for _ in range(MOST_FAST_PROBES):
            if self._exchange(port, True):
                return True
            refused += not self.bus.dialogue.settle()
            if refused == ATTEMPTS:
                break
        return False

    def read(self, meanwhile: Callable[[], None] | None = None) -> StateReading:
        """Current, velocity and position of all servos; `meanwhile` is called while the bytes are on the wire.

        Waits out the quarantine first, if the read before was not answered in time; for a long one not to its end, and
        nothing is asked or valid then. Never raises for what a servo did or did not answer: see `StateReading.valid`.
        The returned object is overwritten by the next call.

        Raises:
            BusError: the port is lost.
            Exception: what `meanwhile` raised, when the replies are in: it must not pass for a loss of the port.
        """
        failed: list[Exception] = []

        def unfailing() -> None:
            try:
                if meanwhile is not None:
                    meanwhile()
            except Exception as error:
                failed.append(error)

        with self.bus.line() as port:
            if self._wait_out_quarantine(max(self.quarantine_s, LONGEST_WAIT_S)):
                self._read_all(port, unfailing)
            else:
                self._read_nothing()
                unfailing()
        if failed:
            raise failed[0]
        return self._reading

    def _read_all(self, port: WaitingPortHandler, meanwhile: Callable[[], None]) -> None:
        """Ask, and once more where servos were silent."""
        fast = self.fast_read and self._plain_reads_left == 0
        before = self._unwanted()
        self._plain_reads_left = max(0, self._plain_reads_left - 1)
        complete = self._exchange(port, fast, meanwhile)
        if fast and not complete:
            self._plain_reads_left, self._fast_failed = PLAIN_READS_AFTER_FAST_FAILURE, True
        elif complete:  # nobody is missing: whatever it was, it is over
            self._plain_reads_left = self._empty_reads = 0
        elif len(self._seen) < self._asked_count:
            self._read_without_silent(port, before)
        if not fast:
            self._fast_failed = False
        if not complete:
            self.counters.missing_by_servo += ~self._reading.valid
        self._reads += 1
        if self._asked_count < len(self._asked):
            self._ask_again(port)

    def _read_nothing(self) -> None:
        """A read that could not ask yet."""
        reading = self._reading
        reading.valid[:] = reading.complete = reading.repeated = False
        reading.errors[:] = 0
        reading.stamp_ns = self.bus.clock.monotonic_ns() + self.bus.realtime_offset_ns
        self.counters.missing_by_servo += 1

    def ask_beside(self, servo_id: int, address: int, size: int) -> bool:
        """Have the next read ask one servo for less than a state first; False if not possible.

        On a ticking line a request that is waited for costs a whole tick; these replies come together. It is not
        possible on another line, or while a reply to an earlier request may still come.
        """
        if not self.ticking or size >= table.STATE_SIZE or self.bus.clock.monotonic_ns() < self._tagged_until_ns:
            return False
        self._beside_frame = protocol.build_read(servo_id, address, size)
        self._beside, self._beside_reply = (servo_id, size), None
        return True

    def _send_beside(self, port: WaitingPortHandler) -> None:
        """Send what `ask_beside` wants, and let its reply leave the wire before anything else is sent."""
        assert self._beside is not None
        port.discard_input()
        self.bus.parser.reset()
        port.send(self._beside_frame)
        bytes_s = self.bus.wire_s(len(self._write_frame), len(self._beside_frame), STATUS_OVERHEAD + self._beside[1])
        self.bus.clock.sleep(bytes_s + BESIDE_MARGIN_S)

    def beside_reply(self) -> bytes | None:
        """What came for the last `ask_beside`, once; None if nothing did."""
        reply, self._beside_reply = self._beside_reply, None
        return reply

    def _is_beside(self, packet: protocol.Packet) -> bool:
        """Whether a packet answers `ask_beside`; its bytes are kept unless it refuses."""
        refused = bool(packet.error & ~table.ALERT_BIT)
        if self._beside is None or packet.packet_id != self._beside[0]:
            return False
        if not refused and len(packet.parameters) != self._beside[1]:
            return False
        self._beside, self._beside_reply = None, None if refused else packet.parameters
        return True

    def _wait_out_quarantine(self, longest_s: float = LONGEST_QUARANTINE_S) -> bool:
        """Wait until a late reply should have come, or so long; whether it is over."""
        quarantine_s = (self._quarantine_until_ns - self.bus.clock.monotonic_ns()) * 1e-9
        if quarantine_s > 0:
            self.bus.clock.sleep(min(quarantine_s, longest_s))
        return quarantine_s <= longest_s

    def _unwanted(self) -> tuple[int, ...]:
        """Counts of what arrived and was no answer: they change where replies are late rather than missing."""
        return (self.bus.parser.skipped_bytes, self.counters.stale, self.counters.duplicates)

    def _read_without_silent(self, port: WaitingPortHandler, before: tuple[int, ...]) -> None:
        """After a plain read in which servos were silent: read the others once more, without the first that was.

        Where nobody answers, there may be more than one to blame: the next such read leaves out one more. Where replies
        came late, since a count has changed from `before`, nobody was silent, and nobody is left out.
        """
        asked, empty = self._asked, not self._seen
        silent = np.flatnonzero(asked & ~self._answered())
        first = silent[: 1 + (self._empty_reads if empty else 0)]
        blamed = np.zeros_like(asked)
        blamed[first] = True
        if first.size < silent.size:
            self._ask(asked & ~blamed)
            self._wait_out_quarantine(self.quarantine_s)
            self._exchange(port, False, margin_s=ASKED_AGAIN_MARGIN_S)
            empty, answered = not self._seen, self._answered()
            others = np.flatnonzero(asked & ~blamed & ~answered)
            blamed[others[:1]] = True
            if not answered[first[-1] :].any():
                blamed[others] = True
                self._assumed[others[1:]] = True
            self._ask(asked)
        self._empty_reads = (self._empty_reads + 1) % len(asked) if empty else 0
        if not empty and self._unwanted() == before:
            self._leave_out(blamed)

    def _answered(self) -> NDArray[np.bool_]:
        """Which servos answered the last request, (n,)."""
        answered = np.zeros_like(self._asked)
        answered[list(self._seen)] = True
        return answered

    def _leave_out(self, silent: NDArray[np.bool_]) -> None:
        """These (n,) were silent while others answered: who is twice is not asked for a while.

        A fast read that failed just before was the first time.
        """
        misses = self._misses + 1 + self._fast_failed
        self._misses = np.where(silent, misses, np.where(self._asked, 0, self._misses))
        left_out = silent & (self._misses >= LEFT_OUT_AFTER)
        self._put_off(left_out)
        if np.count_nonzero(left_out) and np.count_nonzero(self._asked & ~left_out):
            self._ask(self._asked & ~left_out)

    def _put_off(self, silent: NDArray[np.bool_]) -> None:
        """Ask these (n,) again after some reads, four times as many each time."""
        waits = FIRST_LEFT_OUT_READS * 4 ** np.clip(self._misses[silent] - LEFT_OUT_AFTER, 0, 8)
        self._asked_again_at[silent] = self._reads + np.minimum(waits, LONGEST_LEFT_OUT_READS)

    def _ask_again(self, port: WaitingPortHandler) -> None:
        """Ask one of those who were left out, if it was for long enough; who answers is in the next read."""
        due = np.flatnonzero(~self._asked & (self._asked_again_at <= self._reads))
        if not due.size or self._reads < self._nobody_asked_again_before:
            return
        reading, asked, one = self._reading, self._asked, np.zeros_like(self._asked)
        assumed = due[self._assumed[due]]
        chosen = assumed[-1] if assumed.size else due[self._asked_again_at[due].argmin()]
        one[chosen] = True
        before = reading.valid.copy(), reading.errors.copy(), reading.stamp_ns
        self._ask(one)
        self._wait_out_quarantine(self.quarantine_s)
        soon = self._misses[chosen] <= LEFT_OUT_AFTER + 1
        self._exchange(port, False, margin_s=ASKED_AGAIN_MARGIN_S if soon else None)
        self._silent_reads = 0
        back = self._answered()
        if not self._seen:
            self._wait_out_quarantine()
            back = one & bool(port.receive(0.0))  # it is there, and late
        if back.any():
            if self._assumed[chosen]:
                back = back | self._assumed
                self._assumed[:] = False
            self._misses[back] = 0
        else:
            self._misses[one] += 1
            self._assumed[one] = False
            self._put_off(one)
            self._nobody_asked_again_before = self._reads + ASKED_AGAIN_EVERY
        self._ask(asked | back)
        reading.valid[:], reading.errors[:], reading.stamp_ns = before
        reading.complete = reading.repeated = False

    def write(self, goal_current_count: IntArray) -> None:
        """Set the goal currents of all servos, (n,) counts; the servos do not confirm it.

        Raises:
            BusError: the port is lost.
        """
        self._goals[:] = goal_current_count
        if self._paired_axes.size:
            self._paired_goals[:] = self._paired_signs * goal_current_count[self._paired_axes]
        frame = protocol.finish_frame(self._write_frame)
        with self.bus.line() as port:
            port.send(frame)

    @property
    def position_count(self) -> IntArray:
        """Positions as they were read last, (n,)."""
        return self._reading.position_count

    def _new_counters(self) -> None:
        self.counters = CycleCounters.of(len(self.bus.servo_ids))

    def _exchange(
        self,
        port: WaitingPortHandler,
        fast: bool,
        meanwhile: Callable[[], None] | None = None,
        margin_s: float | None = None,
    ) -> bool:
        """One request and its replies into `_reading`; whether every servo's reply was good."""
        reading = self._reading
        reading.valid[:] = False
        reading.errors[:] = 0
        seen: set[int] = set()
        self._seen = seen
        duplicates = self.counters.duplicates
        if self._beside is not None:
            self._send_beside(port)
        started_ns, sent_ns = self.bus.clock.monotonic_ns(), self.bus.clock.line_ns()
        self._size = next(self._tags) if started_ns < self._tagged_until_ns else table.STATE_SIZE
        request = self._requests.get(fast, self._size)
        last, keep = False, self._beside is not None
        damaged_before = dict(self.bus.parser.crc_errors_by_id)
        for packets in self.bus.ask(port, request.frame, request.reply_bytes, meanwhile, margin_s, keep):
            for packet in packets:
                if self._is_beside(packet):
                    continue
                own = self._accept(packet, fast, seen)
                last = last or (own and not fast and packet.packet_id == self._last_id)
            if len(seen) == self._asked_count or last or self._ends_damaged(fast, damaged_before):
                break  # servos answer in order: after the last one nothing comes
        self._beside = None  # it was before these, or does not come
        self._took_s = (self.bus.clock.line_ns() - sent_ns) * 1e-9
        self._judge(request, fast, seen, started_ns, self.bus.clock.monotonic_ns())
        if len(seen) < self._asked_count and self._all_arrived(fast, seen, damaged_before):
            self._quarantine_until_ns = 0
        if self.counters.duplicates > duplicates:  # the line may be a reply behind
            self._doubt(self.bus.clock.monotonic_ns())
        reading.complete = np.count_nonzero(reading.valid) == len(reading.valid)
        moving = take_states(
            self._blocks, reading.valid, reading.position_count, reading.velocity_count, reading.current_count
        )
        reading.repeated = self._is_repeated(moving) if reading.complete else False
        return reading.complete

    def _ends_damaged(self, fast: bool, before: dict[int, int]) -> bool:
        """Whether the last reply has come with a wrong CRC: to wait for a good one would leave the motors alone."""
        last = protocol.BROADCAST_ID if fast else self._last_id
        return self.bus.parser.crc_errors_by_id[last] > before.get(last, 0)

    def _all_arrived(self, fast: bool, seen: set[int], before: dict[int, int]) -> bool:
        """Whether each servo has replied, if only with a wrong CRC: then nothing of this read can still come."""
        if fast:
            return self._ends_damaged(fast, before)
        damaged, ids = self.bus.parser.crc_errors_by_id, self.bus.servo_ids
        missing = (ids[axis] for axis in np.flatnonzero(self._asked) if axis not in seen)
        return all(damaged[one] > before.get(one, 0) for one in missing)

    def _judge(self, request: StateRequest, fast: bool, seen: set[int], started_ns: int, ended_ns: int) -> None:
        """Stamp a read, and refuse what its timing says is of another moment."""
        reading, answered = self._reading, len(seen) == self._asked_count
        wire_s = request.wire_s
        if not answered and not fast:
            wire_s -= self.bus.wire_s((self._asked_count - len(seen)) * (STATUS_OVERHEAD + request.size))
        # Servos read their sensors when they are asked: a reply that the host delivers late is no younger for it.
        late_s = (ended_ns - started_ns) * 1e-9 - request.wire_s - USUAL_LATENCY_S
        reading.stamp_ns = ended_ns + self.bus.realtime_offset_ns - max(0, round(late_s * 1e9))
        early = bool(seen) and self.wire_timed and self._took_s < EARLY_FRACTION * wire_s
        if early or (seen and late_s > OLDEST_REPLY_S):
            self.counters.stale += 1
            reading.valid[:] = False
            if early:
                self._early_replies += 1
                self.wire_timed = self._early_replies < EARLY_REPLIES_BELIEVED
                self._doubt(ended_ns)
        if not answered:
            self.counters.timeouts += 1
            self._early_replies = self._early_replies if early else 0
            self._silent_reads = 0 if seen else min(self._silent_reads + 1, 8)
            self._doubt(ended_ns)
        elif np.count_nonzero(reading.valid):
            self._silent_reads = self._early_replies = 0
            self._misses[self._asked] = 0
            self.counters.late += late_s > 0.0
            self.counters.timeouts += self._asked_count < len(self._asked)

    def _is_repeated(self, moving: bool) -> bool:
        """Whether a complete read is the one before it again, of an arm that moves."""
        if self._bytes == self._last_complete:
            self.counters.repeated += moving
            return moving
        self._last_complete = bytes(self._bytes)
        return False

    def _doubt(self, now_ns: int) -> None:
        """What answers the request of a moment may still come: leave it time for that, and know it by its size."""
        doubled_s = self.quarantine_s * 2 ** max(0, self._silent_reads - 1)
        duration_s = max(self.quarantine_s, min(doubled_s, LONGEST_QUARANTINE_S))
        self._quarantine_until_ns = now_ns + int(duration_s * 1e9)
        self._tagged_until_ns = now_ns + int(OLDEST_REPLY_S * 1e9)

    def _accept(self, packet: protocol.Packet, fast: bool, seen: set[int]) -> bool:
        """Take a packet's values if it answers this read; whether it does."""
        if packet.instruction != protocol.Instruction.STATUS:
            return False  # an echo of our own request, as some adapters return it
        if packet.packet_id != protocol.BROADCAST_ID:
            return self._accept_servo(packet.packet_id, packet.error, packet.parameters, seen, alone=fast)
        if fast and not seen and self._take_fast_reply(packet.payload, seen):
            return True
        blocks = protocol.split_fast_reply(packet, self._size) if fast else []
        if len(blocks) != self._asked_count:
            self.counters.stale += 1  # the late answer to another read of states
            return False
        for servo_id, error, data in blocks:
            self._accept_servo(servo_id, error, data, seen, alone=False)
        return True

    def _take_fast_reply(self, payload: bytes, seen: set[int]) -> bool:
        """Take the reply to a fast read if every servo that was asked is in it once, in order and without an error."""
        block = self._size + FAST_BLOCK_OVERHEAD
        if len(payload) + CRC_SIZE != self._asked_count * block or self._asked_count != len(self._asked):
            return False
        if payload[1::block] != self._all_ids or any(payload[::block]):
            return False
        parts = np.frombuffer(payload + bytes(CRC_SIZE), dtype=np.uint8).reshape(-1, block)
        self._blocks[:] = parts[:, 2 : 2 + table.STATE_SIZE]
        self._reading.valid[:] = True
        seen.update(self._all_indices)
        return True

    def _accept_servo(self, servo_id: int, error: int, data: bytes, seen: set[int], *, alone: bool) -> bool:
        """The same for one servo's part; a servo that answers a fast read alone can only refuse it."""
        index = self.bus.index.get(servo_id)
        if index is None:
            self.counters.wrong_ids += 1
            return False
        self._reading.errors[index] |= error
        if error & table.ALERT_BIT:
            self.counters.alerts_by_servo[index] += 1
        refused = bool(error & ~table.ALERT_BIT)
        if not self._asked[index] or (not refused and (alone or len(data) != self._size)):
            self._count_late(index, len(data))
            return False
        if index in seen:
            self.counters.duplicates += 1
            self.counters.duplicates_by_servo[index] += 1
            self._reading.valid[index] = False  # there is no telling which of the two belongs to this request
            return True
        seen.add(index)
        if refused:
            self.counters.status_errors += 1
            self.counters.status_errors_by_servo[index] += 1
            return True
        data = data[: table.STATE_SIZE]
        self._bytes[index * table.STATE_SIZE : (index + 1) * table.STATE_SIZE] = data
        self._reading.valid[index] = True
        return True

    def _count_late(self, index: int, size: int) -> None:
        """The late answer to another read: of states, or of something else."""
        if size == table.STATE_SIZE or size in TAGGED_SIZES:
            self.counters.stale += 1
        else:
            self.counters.status_errors += 1
            self.counters.status_errors_by_servo[index] += 1
