"""Exchange with all servos in a cycle: a sync read (or fast sync read) of states, a sync write of goal currents."""

from collections.abc import Callable, Sequence
from itertools import cycle as endless

import numpy as np
from numpy.typing import NDArray

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus import protocol
from dynid.hardware.bus.control_table import IntArray
from dynid.hardware.bus.dialogue import STATUS_OVERHEAD
from dynid.hardware.bus.masks import all_set, any_set
from dynid.hardware.bus.port import WaitingPortHandler
from dynid.hardware.bus.servo_bus import ATTEMPTS, ServoBus
from dynid.hardware.bus.state_exchange import TAGGED_SIZES, CycleCounters, StateReading, StateRequest, StateRequests
from dynid.hardware.bus.state_kernels import take_states, take_whole_reply
from dynid.robot.servo_fields import WiredServo

EARLY_FRACTION = 0.97  # a reply in less than this fraction of its time on the wire is too early
TIMING_PROBES = 16  # reads from which `probe` judges the line's timing
MOST_FAST_PROBES = 10  # largest number of fast reads in `probe` on a busy host
EARLY_REPLIES_ACCEPTED = 3  # consecutive early replies after which the line counts as not wire-timed
PLAIN_READS_AFTER_FAST_FAILURE = 20  # number of plain reads before the fast read is tried again
LONGEST_QUARANTINE_S = 0.016
USUAL_LATENCY_S = 0.001  # a reply that takes longer than this beyond its time on the wire is late
OLDEST_REPLY_S = 0.020  # a stalled process may find replies later than this; they are too old to use
LEFT_OUT_AFTER = 2  # silent reads before a servo is left out: a single reply may be lost
FIRST_LEFT_OUT_READS, LONGEST_LEFT_OUT_READS = 2, 256  # first and longest interval between single requests, in reads
RETRY_MARGIN_S = 0.003  # short wait in the first requests to a silent servo: other joints are unread meanwhile
LONGEST_WAIT_S = 0.004  # longest wait for a quarantine in a read; a longer one would leave the motors without control
READS_BETWEEN_RETRIES = 8  # fewest reads between two single requests without answer, for any number of silent servos
EXTRA_READ_MARGIN_S = 0.00005  # pause between the reply to an extra request and the next request
_GOAL = np.dtype([("id", "u1"), ("current", "<i2")])


class StateCycle:
    """Exchange of states and goal currents with all servos of a bus at once, by prebuilt frames.

    The states of all servos are read by one request. If all servos support it, this is a fast sync read, which they
    answer in one common packet; otherwise it is a sync read, which each servo answers by its own packet. A missing
    servo makes a fast sync read fail for all servos, so sync reads follow a failed fast sync read. In a sync read, each
    servo waits for the reply of the servo before it, so a missing servo silences all servos after it. Therefore only
    the first silent servo counts as missing, and the others are read again without it. This is done at once, but only
    once, because the motors keep their last currents while a read lasts. If no servo after the missing one answers the
    second read either, the cable may be cut there, and all of them count as missing.

    Servos that count as missing are left out of further reads, because every read would wait for their replies. At
    growing intervals, a separate request goes to each of them. Of the servos after an assumed cut, the last is asked
    first: if it answers, there is no cut. A reply with a wrong CRC gives no values, but shows that its servo is there.
    The read then does not wait for another reply, and later reads do not leave this servo out.

    Args:
        bus: an open bus.
        quarantine_s: wait time [s] before the next read, after a read that was not answered in time, so that a late
            reply cannot collide with the next answer. The wait time doubles, up to `LONGEST_QUARANTINE_S`, with every
            further read without any answer. For some time afterwards, each read requests a different number of bytes
            (`TAGGED_SIZES`), so a reply that comes even later is recognised by its size.
        paired: further servos of joints with several servos. A further servo gets the goal current of its joint's first
            servo, with the sign that its mounting requires.

    Attributes:
        bus: the bus in use.
        quarantine_s: wait time before the next read, after a read that was not answered in time [s].
        fast_read: whether the fast sync read is used; False until `probe` found that all servos support it.
        wire_timed: whether the line is as slow as its baud rate implies, which a simulated line need not be. If so, a
            reply that is quicker than the wire allows counts as the reply to an earlier request. `probe` sets this
            flag; several consecutive replies that are too quick clear it.
        counters: error counters of the reads.
        ticking: whether the adapter delivers replies only at regular ticks, so that the replies to two requests can
            arrive at the same tick.
    """

    def __init__(self, bus: ServoBus, *, quarantine_s: float = 0.002, paired: Sequence[WiredServo] = ()) -> None:
        self.bus = bus
        self.quarantine_s = quarantine_s
        self.fast_read = False
        self.wire_timed = self.ticking = False
        self._extra_request: tuple[int, int] | None = None  # servo ID and number of bytes of the extra request
        self._extra_reply: bytes | None = None
        self._extra_frame = b""
        size = len(bus.servo_ids)
        self._new_counters()
        self._missed = False  # whether the count of missed reads of any servo is not zero
        self._misses, self._retry_reads = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        self._ask(np.ones(size, dtype=np.bool_))
        ids = [*bus.servo_ids, *(one.servo_id for one in paired)]
        zeros = [bytes(table.GOAL_CURRENT.size)] * len(ids)
        zero_frame = protocol.build_sync_write(ids, table.GOAL_CURRENT.address, zeros)
        self._write_frame = bytearray(zero_frame)
        goals = memoryview(self._write_frame)[-2 - len(ids) * _GOAL.itemsize : -2]
        self._goals, self._paired_goals = np.split(np.frombuffer(goals, dtype=_GOAL)["current"], [size])
        self._paired_axes = np.array([one.axis for one in paired], dtype=np.intp)
        self._paired_signs = np.array([one.direction for one in paired], dtype=np.int64)
        self._bytes = bytearray(size * table.STATE_SIZE)
        self._last_complete = bytes(self._bytes)
        self._blocks = np.frombuffer(self._bytes, dtype=np.uint8).reshape(size, table.STATE_SIZE)
        self._all_ids = np.array(bus.servo_ids, dtype=np.uint8)
        self._all_indices = set(range(size))  # indices of all servos, never changed
        zero = np.zeros(size, dtype=np.int64)
        errors, valid = np.zeros(size, dtype=np.uint8), np.zeros(size, dtype=np.bool_)
        self._reading = StateReading(zero, zero.copy(), zero.copy(), errors, valid)
        self._quarantine_until_ns = self._tagged_until_ns = 0
        self._tags, self._size = endless(TAGGED_SIZES), table.STATE_SIZE
        self._took_s = 0.0
        self._plain_reads_left = self._silent_reads = self._early_replies = self._reads = self._empty_reads = 0
        self._next_retry_read = 0
        self._assumed = np.zeros(len(bus.servo_ids), dtype=bool)  # servos left out for an assumed cut of the cable
        self._seen: set[int] = set()
        self._fast_failed = False

    def _ask(self, asked: NDArray[np.bool_]) -> None:
        """Select the servos that all following reads request, by a mask (n,)."""
        self._asked, self._asked_count = asked, int(np.count_nonzero(asked))
        ids = [servo_id for servo_id, one in zip(self.bus.servo_ids, asked, strict=True) if one]
        self._last_id = ids[-1]
        self._requests = StateRequests(ids, self.bus.wire_s)

    def probe(self) -> bool:
        """Check for support of the fast sync read by all servos, and for replies as slow as the baud rate implies.

        The results are stored in `fast_read` and `wire_timed`. Replies over a simulated line may be quicker.

        Returns:
            Whether the fast sync read is used from now on.

        Raises:
            SilentLineError: no servo answers within a second.
            BusError: the port is lost.
        """
        with self.bus.line() as port:
            self.fast_read = self._supports_fast_read(port)
            shares = []
            for _ in range(TIMING_PROBES):
                self._wait_out_quarantine()
                if not self._exchange(port, self.fast_read):
                    self.bus.dialogue.settle()
                else:
                    shares.append(self._took_s / self._requests.get(self.fast_read, self._size).wire_s)
            # The second shortest, because a late reply to the previous read may look quick. A busy host delays most
            # replies, so that only a few show how quick the line is.
            self.wire_timed = len(shares) > 1 and sorted(shares)[1] >= EARLY_FRACTION
        self._new_counters()
        self._misses[:], self._missed = 0, False
        self._quarantine_until_ns = 0
        return self.fast_read

    def _supports_fast_read(self, port: WaitingPortHandler) -> bool:
        """Return whether all servos answer a fast sync read; an attempt that a busy host delayed does not count."""
        refused = 0
        for _ in range(MOST_FAST_PROBES):
            if self._exchange(port, True):
                return True
            refused += not self.bus.dialogue.settle()
            if refused == ATTEMPTS:
                break
        return False

    def read(self, meanwhile: Callable[[], None] | None = None) -> StateReading:
        """Return the state of all servos: raw values (counts) of current, velocity and position, (n,) each.

        If the previous read was not answered in time, this read first waits (quarantine), so that a late reply cannot
        collide with the new ones. If this wait would take too long, nothing is requested, and no value is valid.
        Missing or wrong replies never raise an error, see `StateReading.valid`. The returned object is overwritten by
        the next call.

        Args:
            meanwhile: called once while the bytes are on the wire.

        Raises:
            BusError: the port is lost.
            Exception: an error of `meanwhile`. It is raised after the replies were received, so that it does not count
                as a lost port.
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
        """Read the states of all selected servos; if some were silent, read again without the first silent one.

        `meanwhile` is called once while the bytes are on the wire.
        """
        fast = self.fast_read and self._plain_reads_left == 0
        before = self._unmatched_counts()
        self._plain_reads_left = max(0, self._plain_reads_left - 1)
        complete = self._exchange(port, fast, meanwhile)
        if fast and not complete:
            self._plain_reads_left, self._fast_failed = PLAIN_READS_AFTER_FAST_FAILURE, True
        elif complete:  # all servos answer again
            self._plain_reads_left = self._empty_reads = 0
        elif len(self._seen) < self._asked_count:
            self._read_without_silent(port, before)
        if not fast:
            self._fast_failed = False
        if not complete:
            self.counters.missing_by_servo += ~self._reading.valid
        self._reads += 1
        if self._asked_count < len(self._asked):
            self._retry_one(port)

    def _read_nothing(self) -> None:
        """Mark all values as not valid, for a read that sends no request because a late reply may still come."""
        reading = self._reading
        reading.valid[:] = reading.complete = reading.repeated = False
        reading.errors[:] = 0
        reading.stamp_ns = self.bus.clock.monotonic_ns() + self.bus.realtime_offset_ns
        self.counters.missing_by_servo += 1

    def schedule_extra_read(self, servo_id: int, address: int, size: int) -> bool:
        """Schedule an extra read of one servo's registers right before the next read of states.

        If the adapter delivers replies at regular ticks, a separate request would cost a whole tick. The reply to the
        extra read arrives at the same tick as the states.

        Args:
            servo_id: ID of the servo.
            address: first address.
            size: number of bytes, less than the size of a state.

        Returns:
            Whether the read was scheduled. It is not scheduled if the adapter has no ticks, if `size` is too large, or
                while a late reply may still come.
        """
        if not self.ticking or size >= table.STATE_SIZE or self.bus.clock.monotonic_ns() < self._tagged_until_ns:
            return False
        self._extra_frame = protocol.build_read(servo_id, address, size)
        self._extra_request, self._extra_reply = (servo_id, size), None
        return True

    def _send_extra(self, port: WaitingPortHandler) -> None:
        """Send the request of the scheduled extra read, and wait until its reply has passed the wire."""
        assert self._extra_request is not None
        port.discard_input()
        self.bus.parser.reset()
        port.send(self._extra_frame)
        bytes_s = self.bus.wire_s(
            len(self._write_frame), len(self._extra_frame), STATUS_OVERHEAD + self._extra_request[1]
        )
        self.bus.clock.sleep(bytes_s + EXTRA_READ_MARGIN_S)

    def take_extra_reply(self) -> bytes | None:
        """Return the bytes that the last scheduled extra read has read, and clear them; None if there was no reply."""
        reply, self._extra_reply = self._extra_reply, None
        return reply

    def _is_extra_reply(self, packet: protocol.Packet) -> bool:
        """Return whether a packet answers the scheduled extra read; if so, store its bytes unless the servo refuses."""
        refused = bool(packet.error & ~table.ALERT_BIT)
        if self._extra_request is None or packet.packet_id != self._extra_request[0]:
            return False
        if not refused and len(packet.parameters) != self._extra_request[1]:
            return False
        self._extra_request, self._extra_reply = None, None if refused else packet.parameters
        return True

    def _wait_out_quarantine(self, longest_s: float = LONGEST_QUARANTINE_S) -> bool:
        """Wait until late replies to earlier reads cannot come any more, but at most `longest_s` [s].

        Returns:
            Whether this wait time (quarantine) has ended.
        """
        quarantine_s = (self._quarantine_until_ns - self.bus.clock.monotonic_ns()) * 1e-9
        if quarantine_s > 0:
            self.bus.clock.sleep(min(quarantine_s, longest_s))
        return quarantine_s <= longest_s

    def _unmatched_counts(self) -> tuple[int, ...]:
        """Return the numbers of skipped bytes, stale replies and duplicate replies so far.

        These numbers rise if replies are late, but not if replies are missing.
        """
        return (self.bus.parser.skipped_bytes, self.counters.stale, self.counters.duplicates)

    def _read_without_silent(self, port: WaitingPortHandler, before: tuple[int, ...]) -> None:
        """Read the servos again without the first silent servo, after a sync read in which servos were silent.

        If no servo answered the sync read, several of the first servos may be missing. In this case the call leaves out
        the first servo; if still no servo answers, the next such call leaves out the first two servos, and so on. At
        the end `_leave_out` counts the servos that are assumed to be missing, unless no servo answered at all, or a
        late reply has arrived since `before`.

        Args:
            port: the open port.
            before: result of `_unmatched_counts` before the sync read. If the present result differs, a reply was late.
        """
        asked, empty = self._asked, not self._seen
        silent = np.flatnonzero(asked & ~self._answered())
        first = silent[: 1 + (self._empty_reads if empty else 0)]
        suspects = np.zeros_like(asked)
        suspects[first] = True
        if first.size < silent.size:
            self._ask(asked & ~suspects)
            self._wait_out_quarantine(self.quarantine_s)
            self._exchange(port, False, margin_s=RETRY_MARGIN_S)
            empty, answered = not self._seen, self._answered()
            others = np.flatnonzero(asked & ~suspects & ~answered)
            suspects[others[:1]] = True
            if not answered[first[-1] :].any():
                suspects[others] = True
                self._assumed[others[1:]] = True
            self._ask(asked)
        self._empty_reads = (self._empty_reads + 1) % len(asked) if empty else 0
        if not empty and self._unmatched_counts() == before:
            self._leave_out(suspects)

    def _answered(self) -> NDArray[np.bool_]:
        """Return a mask (n,) of the servos that answered the last request."""
        answered = np.zeros_like(self._asked)
        answered[list(self._seen)] = True
        return answered

    def _leave_out(self, silent: NDArray[np.bool_]) -> None:
        """Count a miss for each servo that was silent while others answered; omit servos with two consecutive misses.

        Further reads do not request omitted servos. A fast sync read that failed just before counts as another miss.

        Args:
            silent: mask of the silent servos, (n,).
        """
        self._missed = True
        misses = self._misses + 1 + self._fast_failed
        self._misses = np.where(silent, misses, np.where(self._asked, 0, self._misses))
        left_out = silent & (self._misses >= LEFT_OUT_AFTER)
        self._schedule_retry(left_out)
        if np.count_nonzero(left_out) and np.count_nonzero(self._asked & ~left_out):
            self._ask(self._asked & ~left_out)

    def _schedule_retry(self, silent: NDArray[np.bool_]) -> None:
        """Schedule the next separate request to each servo in the mask `silent` (n,); regular reads omit these servos.

        The interval grows fourfold each time.
        """
        waits = FIRST_LEFT_OUT_READS * 4 ** np.clip(self._misses[silent] - LEFT_OUT_AFTER, 0, 8)
        self._retry_reads[silent] = self._reads + np.minimum(waits, LONGEST_LEFT_OUT_READS)

    def _retry_one(self, port: WaitingPortHandler) -> None:
        """Request the state of one servo that the reads omit because it was silent, if its retry is due.

        If the servo answers, the following reads include it again.
        """
        due = np.flatnonzero(~self._asked & (self._retry_reads <= self._reads))
        if not due.size or self._reads < self._next_retry_read:
            return
        reading, asked, chosen_mask = self._reading, self._asked, np.zeros_like(self._asked)
        assumed = due[self._assumed[due]]
        chosen = assumed[-1] if assumed.size else due[self._retry_reads[due].argmin()]
        chosen_mask[chosen] = True
        before = reading.valid.copy(), reading.errors.copy(), reading.stamp_ns
        self._ask(chosen_mask)
        self._wait_out_quarantine(self.quarantine_s)
        recent = self._misses[chosen] <= LEFT_OUT_AFTER + 1
        self._exchange(port, False, margin_s=RETRY_MARGIN_S if recent else None)
        self._silent_reads = 0
        answered_again = self._answered()
        if not self._seen:
            self._wait_out_quarantine()
            answered_again = chosen_mask & bool(port.receive(0.0))  # the servo is there, but late
        if answered_again.any():
            if self._assumed[chosen]:
                answered_again = answered_again | self._assumed
                self._assumed[:] = False
            self._misses[answered_again] = 0
        else:
            self._misses[chosen_mask] += 1
            self._missed = True
            self._assumed[chosen_mask] = False
            self._schedule_retry(chosen_mask)
            self._next_retry_read = self._reads + READS_BETWEEN_RETRIES
        self._ask(asked | answered_again)
        reading.valid[:], reading.errors[:], reading.stamp_ns = before
        reading.complete = reading.repeated = False

    def write(self, goal_current_count: IntArray) -> None:
        """Write the goal currents of all servos by raw values (n,); the servos do not confirm it.

        If a joint has several servos, all of them get the value of its first servo, with the sign that their mounting
        requires.

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
        """Raw position values (counts) of all servos in the last read, (n,)."""
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
        """Send one request of states, and store the replies; return whether the states of all n servos are valid.

        Args:
            port: the open port.
            fast: whether to use the fast sync read.
            meanwhile: called once while the bytes are on the wire.
            margin_s: wait time beyond the time on the wire [s]; None for `ServoBus.reply_margin_s`.
        """
        reading = self._reading
        reading.valid[:] = False
        reading.errors[:] = 0
        seen: set[int] = set()
        self._seen = seen
        duplicates = self.counters.duplicates
        if self._extra_request is not None:
            self._send_extra(port)
        started_ns, sent_ns = self.bus.clock.monotonic_ns(), self.bus.clock.line_ns()
        self._size = next(self._tags) if started_ns < self._tagged_until_ns else table.STATE_SIZE
        request = self._requests.get(fast, self._size)
        last, keep_input = False, self._extra_request is not None
        damaged_before = dict(self.bus.parser.crc_errors_by_id)
        may_be_whole = (
            fast and not keep_input and self._size == table.STATE_SIZE and self._asked_count == len(self._asked)
        )
        for data in self.bus.arrivals(port, request.frame, request.wire_s, meanwhile, margin_s, keep_input):
            if may_be_whole and take_whole_reply(np.frombuffer(data, dtype=np.uint8), self._all_ids, self._blocks):
                reading.valid[:] = True
                seen = self._seen = self._all_indices
                break
            may_be_whole = False  # this arrival is a piece of the reply, or another packet
            for packet in self.bus.parser.feed(data):
                if self._is_extra_reply(packet):
                    continue
                accepted = self._accept(packet, fast, seen)
                last = last or (accepted and not fast and packet.packet_id == self._last_id)
            if len(seen) == self._asked_count or last or self._ends_damaged(fast, damaged_before):
                break  # servos answer in order, so nothing follows the last reply
        self._extra_request = None  # its reply comes before the states, or not at all
        self._took_s = (self.bus.clock.line_ns() - sent_ns) * 1e-9
        self._judge(request, fast, seen, started_ns, self.bus.clock.monotonic_ns())
        if len(seen) < self._asked_count and self._all_arrived(fast, seen, damaged_before):
            self._quarantine_until_ns = 0
        if self.counters.duplicates > duplicates:  # the replies may belong to the previous request
            self._doubt(self.bus.clock.monotonic_ns())
        reading.complete = all_set(reading.valid)
        moving = take_states(
            self._blocks, reading.valid, reading.position_count, reading.velocity_count, reading.current_count
        )
        reading.repeated = self._is_repeated(moving) if reading.complete else False
        return reading.complete

    def _ends_damaged(self, fast: bool, before: dict[int, int]) -> bool:
        """Return whether the last expected reply came with a wrong CRC, so that no other reply can follow.

        Args:
            fast: whether the read is a fast sync read.
            before: numbers of CRC errors by ID at the start of the read.
        """
        last = protocol.BROADCAST_ID if fast else self._last_id
        return self.bus.parser.crc_errors_by_id[last] > before.get(last, 0)

    def _all_arrived(self, fast: bool, seen: set[int], before: dict[int, int]) -> bool:
        """Return whether each requested servo has replied, with a correct or a wrong CRC, so that no reply is pending.

        Args:
            fast: whether the read is a fast sync read.
            seen: indices of the servos that replied with a correct CRC.
            before: numbers of CRC errors by ID at the start of the read.
        """
        if fast:
            return self._ends_damaged(fast, before)
        damaged, ids = self.bus.parser.crc_errors_by_id, self.bus.servo_ids
        missing = (ids[axis] for axis in np.flatnonzero(self._asked) if axis not in seen)
        return all(damaged[one] > before.get(one, 0) for one in missing)

    def _judge(self, request: StateRequest, fast: bool, seen: set[int], started_ns: int, ended_ns: int) -> None:
        """Timestamp a read, count its errors, and mark its values as not valid if they came too early or too late.

        Args:
            request: the request of this read.
            fast: whether it was a fast sync read.
            seen: indices of the servos that replied.
            started_ns: start of the read on the monotonic clock [ns].
            ended_ns: end of the read on the monotonic clock [ns].
        """
        reading, answered = self._reading, len(seen) == self._asked_count
        wire_s = request.wire_s
        if not answered and not fast:
            wire_s -= self.bus.wire_s((self._asked_count - len(seen)) * (STATUS_OVERHEAD + request.size))
        # Servos sample when the request arrives, so the stamp must not include a delay of the host.
        late_s = (ended_ns - started_ns) * 1e-9 - request.wire_s - USUAL_LATENCY_S
        reading.stamp_ns = ended_ns + self.bus.realtime_offset_ns - max(0, round(late_s * 1e9))
        early = bool(seen) and self.wire_timed and self._took_s < EARLY_FRACTION * wire_s
        if early or (seen and late_s > OLDEST_REPLY_S):
            self.counters.stale += 1
            reading.valid[:] = False
            if early:
                self._early_replies += 1
                self.wire_timed = self._early_replies < EARLY_REPLIES_ACCEPTED
                self._doubt(ended_ns)
        if not answered:
            self.counters.timeouts += 1
            self._early_replies = self._early_replies if early else 0
            self._silent_reads = 0 if seen else min(self._silent_reads + 1, 8)
            self._doubt(ended_ns)
        elif any_set(reading.valid):
            self._silent_reads = self._early_replies = 0
            if self._missed:
                self._misses[self._asked] = 0
                self._missed = bool(self._misses.any())
            self.counters.late += late_s > 0.0
            self.counters.timeouts += self._asked_count < len(self._asked)

    def _is_repeated(self, moving: bool) -> bool:
        """Return whether a complete read equals the previous complete read bit for bit although the arm moves.

        `moving` is whether the read contains a velocity of more than one count.
        """
        if self._bytes == self._last_complete:
            self.counters.repeated += moving
            return moving
        self._last_complete = bytes(self._bytes)
        return False

    def _doubt(self, now_ns: int) -> None:
        """Prevent a late reply to this read from being mistaken for the reply to a later read.

        From `now_ns` [ns] on, no read begins for some time (quarantine). After that, each read requests a different
        number of bytes for some time, so that a late reply is recognised by its size.
        """
        doubled_s = self.quarantine_s * 2 ** max(0, self._silent_reads - 1)
        duration_s = max(self.quarantine_s, min(doubled_s, LONGEST_QUARANTINE_S))
        self._quarantine_until_ns = now_ns + int(duration_s * 1e9)
        self._tagged_until_ns = now_ns + int(OLDEST_REPLY_S * 1e9)

    def _accept(self, packet: protocol.Packet, fast: bool, seen: set[int]) -> bool:
        """Store the states in a packet if it answers this read; return whether it does.

        Args:
            packet: a received packet.
            fast: whether the read is a fast sync read.
            seen: indices of the servos that replied; those in the packet are added.
        """
        if packet.instruction != protocol.Instruction.STATUS:
            return False  # an echo of the request, which some adapters return
        if packet.packet_id != protocol.BROADCAST_ID:
            return self._accept_servo(packet.packet_id, packet.error, packet.parameters, seen, alone=fast)
        blocks = protocol.split_fast_reply(packet, self._size) if fast else []
        if len(blocks) != self._asked_count:
            self.counters.stale += 1  # a late answer to another read of states
            return False
        for servo_id, error, data in blocks:
            self._accept_servo(servo_id, error, data, seen, alone=False)
        return True

    def _accept_servo(self, servo_id: int, error: int, data: bytes, seen: set[int], *, alone: bool) -> bool:
        """Store one servo's state if the reply answers this read; return whether it does.

        Args:
            servo_id: ID in the reply.
            error: error byte of the reply.
            data: bytes of the servo's registers.
            seen: indices of the servos that replied; this one is added.
            alone: whether the reply is a packet of a single servo during a fast sync read, which all servos answer in
                one common packet. Then only an error is accepted: the servo refuses the read.
        """
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
            self._reading.valid[index] = False  # it is unknown which of the two answers this request
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
        """Count a reply that answers another request than this read, as stale or as a status error.

        A reply with the size of a state is a late answer to an earlier read of states, and counts as stale. Any other
        reply counts as a status error.

        Args:
            index: index of the servo.
            size: number of bytes in the answer.
        """
        if size == table.STATE_SIZE or size in TAGGED_SIZES:
            self.counters.stale += 1
        else:
            self.counters.status_errors += 1
            self.counters.status_errors_by_servo[index] += 1
