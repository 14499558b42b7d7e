"""Servo bus of the driver: requests to single servos, and reads and writes of several servos at once.

The DYNAMIXEL SDK only opens the port; all frames are built and parsed here. The reason is that the SDK's group reads
return stale values after a late reply, return zeros after a failed read, and hide the servos' error bytes. In addition,
only some versions of the SDK apply the byte stuffing that the protocol requires. The 1 kHz cycle is in `state_cycle`.
"""

import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

import serial

from dynid.errors import BusError, BusTimeoutError, MuteServoError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus import protocol
from dynid.hardware.bus.clock import SYSTEM_CLOCK, Clock
from dynid.hardware.bus.control_table import Register
from dynid.hardware.bus.dialogue import PING_PARAMETERS, QUICK_S, STATUS_OVERHEAD, Dialogue
from dynid.hardware.bus.port import WaitingPortHandler, close_port, open_port

BITS_PER_BYTE = 10
ATTEMPTS = 3
EMPTY_READS = 3  # consecutive reads without any answer after which no servo is expected


class _RefusedError(BusError):
    """Error for a servo that refused an instruction."""


class _OpenLine:
    """Reusable context manager of a bus' open port, which closes the port if the connection breaks.

    A control cycle enters the context twice, so one object per bus is reused to save time.
    """

    def __init__(self, bus: "ServoBus") -> None:
        self._bus = bus

    def __enter__(self) -> WaitingPortHandler:
        return self._bus._handler or self._bus.open_handler()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, OSError | termios.error | serial.SerialException) and not isinstance(error, BusError):
            self._bus.close()
            raise BusError(f"port {self._bus.port} was lost ({error}): is the cable still plugged in?") from error


class ServoBus:
    """All servos of one arm on one serial line.

    Args:
        port: path of the serial device.
        baudrate: baud rate [bit/s].
        servo_ids: IDs in joint order, n of them.
        reply_margin_s: wait time of a read of several servos for replies beyond their time on the wire [s].
        clock: clock of deadlines and timestamps.
        opener: function that opens the port, from its path and baud rate; `open_port` for a serial device, another
            function for servos that are emulated in this process.

    Attributes:
        port: path of the serial device.
        baudrate: present baud rate [bit/s].
        servo_ids: IDs in joint order.
        reply_margin_s: wait time of a read of several servos for replies beyond their time on the wire [s].
        clock: clock of deadlines and timestamps.
        index: position of each ID in `servo_ids`.
        parser: parser of the replies, which also counts damaged packets.
        dialogue: dialogue with one servo at a time, which recognises late answers.
        retries: number of requests repeated because the answer was lost or damaged.
        models: model numbers by ID, of the servos that answered a ping.
        surplus: number of packets that came in addition to the requested ones; the reads of `StateCycle` do not count.
        realtime_offset_ns: wall clock minus monotonic clock when the port was opened [ns]. Timestamps are the monotonic
            clock plus this offset, so that a step of the wall clock (NTP, by hand) does not affect them until the port
            is reopened.
    """

    def __init__(
        self,
        port: str,
        baudrate: int,
        servo_ids: Sequence[int],
        *,
        reply_margin_s: float = 0.006,
        clock: Clock = SYSTEM_CLOCK,
        opener: Callable[[str, int], WaitingPortHandler] = open_port,
    ) -> None:
        self.port, self.baudrate, self.servo_ids = port, baudrate, tuple(servo_ids)
        self.reply_margin_s, self.clock, self._opener = reply_margin_s, clock, opener
        self.index = {servo_id: index for index, servo_id in enumerate(self.servo_ids)}
        self.parser = protocol.PacketParser()
        self.dialogue = Dialogue(self)
        self.realtime_offset_ns = self.retries = self.surplus = 0
        self.models: dict[int, int] = {}
        self._gaps_refused = False
        self._handler: WaitingPortHandler | None = None
        self._line = _OpenLine(self)

    # -- the port ----------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the port is open."""
        return self._handler is not None

    @property
    def simulated(self) -> bool:
        """Whether the port is open and carries the mark of a simulated arm, see `simulated_line`."""
        return self._handler is not None and self._handler.simulated

    def open(self) -> None:
        """Open the port for this process alone.

        Raises:
            BusError: the port cannot be opened; the message gives the reason.
        """
        if self._handler is None:
            self._handler = self._opener(self.port, self.baudrate)
            self.realtime_offset_ns = self.clock.realtime_ns() - self.clock.monotonic_ns()
            self.parser.reset()
            self.dialogue.reset()

    def monotonic_s(self, stamp_ns: int) -> float:
        """Convert a sample's timestamp `stamp_ns` [ns] to the monotonic clock [s]."""
        return (stamp_ns - self.realtime_offset_ns) * 1e-9

    def close(self) -> None:
        """Close the port, if it is open; nothing is sent to the servos."""
        if self._handler is not None:
            handler, self._handler = self._handler, None
            close_port(handler)

    def line(self) -> AbstractContextManager[WaitingPortHandler]:
        """Return the open port as a context manager, which closes the port if the connection breaks.

        Raises:
            BusError: the port is closed, or breaks inside the context.
        """
        return self._line

    def open_handler(self) -> WaitingPortHandler:
        """Return the handler of the open port.

        Raises:
            BusError: the port is closed.
        """
        if self._handler is None:
            raise BusError(f"port {self.port} is not open")
        return self._handler

    # -- set-up, one servo at a time ---------------------------------------------------------------------------

    def patiently(self) -> AbstractContextManager[None]:
        """Wait up to a second for each servo's answer inside the `with` block, because a busy host may delay answers.

        See `Dialogue.patiently`.
        """
        return self.dialogue.patiently()

    def ping(self, servo_id: int, waits_s: Sequence[float] = QUICK_S) -> int:
        """Return the model number of one servo, from its answer to a ping.

        Args:
            servo_id: ID of the servo.
            waits_s: wait time of each attempt beyond the time on the wire [s].

        Raises:
            BusTimeoutError: the servo does not answer.
            BusError: its answer is damaged.
        """
        answer, damaged = self.dialogue.ping(servo_id, waits_s)
        if answer is not None and len(answer.parameters) == PING_PARAMETERS:
            self.models[servo_id] = table.MODEL_NUMBER.from_bytes(answer.parameters[: table.MODEL_NUMBER.size])
            return self.models[servo_id]
        if damaged or answer is not None:
            raise BusError(f"servo {servo_id} on {self.port} sends corrupted packets")
        raise BusTimeoutError(f"servo {servo_id} on {self.port} does not answer")

    @contextmanager
    def at_baudrate(self, baudrate: int) -> Iterator[None]:
        """Use another baud rate [bit/s] of this computer's port inside the `with` block; servos are not changed.

        Raises:
            BusError: the port does not support the rate.
        """
        usual = self.baudrate
        try:
            self._set_baudrate(baudrate)
            yield
        finally:
            self._set_baudrate(usual)

    def _set_baudrate(self, baudrate: int) -> None:
        with self.line() as port:
            if not port.setBaudRate(baudrate):
                raise BusError(f"port {self.port} does not support {baudrate} bit/s")
        self.baudrate = baudrate

    def read(self, servo_id: int, register: Register) -> int:
        """Return the raw value of a register of one servo.

        Raises:
            BusTimeoutError: no answer in three attempts. Inside `patiently` it is a MuteServoError if the servo answers
                only pings, and a SilentLineError if no servo answers.
            BusError: a damaged answer in three attempts, or the servo refused the instruction.
        """
        frame = protocol.build_read(servo_id, register.address, register.size)
        return register.from_bytes(self._insist(f"read {register.name}", servo_id, frame, register.size))

    def write(self, servo_id: int, register: Register, count: int) -> None:
        """Write a raw value to a register of one servo.

        Raises:
            BusTimeoutError: no answer in three attempts, as in `read`.
            BusError: a damaged answer in three attempts, or the servo refused the instruction.
        """
        frame = protocol.build_write(servo_id, register.address, register.to_bytes(count))
        self._insist(f"write {count} {register.name}", servo_id, frame)

    def reboot(self, servo_id: int) -> None:
        """Restart one servo, which switches torque off and clears errors.

        The servo answers again after some 100 ms.

        Raises:
            BusTimeoutError: no answer in three attempts, as in `read`.
            BusError: a damaged answer in three attempts, or the servo refused the instruction.
        """
        self._insist("reboot", servo_id, protocol.build_reboot(servo_id))

    def read_range(self, servo_id: int, address: int, size: int) -> bytes:
        """Return `size` bytes from `address` of one servo.

        If servos refuse to read across addresses that are missing in their control table, only the existing addresses
        are read; the rest is 0.

        Raises:
            BusTimeoutError: no answer in three attempts, as in `read`.
            BusError: a damaged answer in three attempts, or the servo refused the instruction.
        """
        data = bytearray(size)
        for at, length in self._parts(servo_id, address, size):
            frame = protocol.build_read(servo_id, at, length)
            try:
                data[at - address : at - address + length] = self._insist(f"read {at}", servo_id, frame, length)
            except _RefusedError:
                if self._gaps_refused or len(self._listed_parts(servo_id, address, size)) == 1:
                    raise
                self._gaps_refused = True
                return self.read_range(servo_id, address, size)
        return bytes(data)

    def _parts(self, servo_id: int, address: int, size: int) -> list[tuple[int, int]]:
        """Return (address, size) of the reads that cover a range of a servo's registers.

        Usually a single read covers the range. Once a servo has refused to read across missing addresses, each existing
        part is read on its own.
        """
        return self._listed_parts(servo_id, address, size) if self._gaps_refused else [(address, size)]

    def _listed_parts(self, servo_id: int, address: int, size: int) -> list[tuple[int, int]]:
        """Return (address, size) of the parts of a range of registers that exist in the control table of the servo.

        If the servo's model is unknown, only addresses in the control tables of all models are kept.
        """
        return table.listed_parts(address, size, self.models.get(servo_id))

    def _insist(self, action: str, servo_id: int, frame: bytes, size: int = 0) -> bytes:
        """Send an instruction to a servo up to three times, until it answers; return the parameters of its answer.

        The instruction is also repeated if the servo reports a CRC error, because the instruction arrived damaged.

        Args:
            action: name of the attempted action, for messages.
            servo_id: ID of the servo.
            frame: the instruction packet.
            size: number of parameters of a good answer; 0 for any number.

        Raises:
            BusTimeoutError: no answer in three attempts, as in `read`.
            BusError: a damaged answer in three attempts, or the servo refused the instruction.
        """
        reason, kind = "", BusError
        for attempt in range(ATTEMPTS):
            self.retries += attempt > 0
            answer, damaged = self.dialogue.ask(frame, size)
            number = 0 if answer is None else answer.error & ~table.ALERT_BIT
            if number not in (0, table.CRC_ERROR):
                raise _RefusedError(f"servo {servo_id}: {action}: {table.status_error_text(number)}")
            if answer is not None and not number and size in (0, len(answer.parameters)):
                return answer.parameters
            kind = BusError
            if answer is None and not damaged:
                kind = MuteServoError if self.dialogue.patient else BusTimeoutError
            reason = "a damaged answer" if kind is BusError else "no answer"
            reason = table.status_error_text(number) or reason
        mute = ", though it answers pings" if kind is MuteServoError else ""
        raise kind(f"servo {servo_id} on {self.port}: {action} failed {ATTEMPTS} times: {reason}{mute}")

    # -- all servos at once ------------------------------------------------------------------------------------

    def sync_write(self, register: Register, counts: Sequence[int], servo_ids: Sequence[int] | None = None) -> None:
        """Write one register of several servos at once; the servos do not confirm it.

        Args:
            register: the register.
            counts: raw values, (n,).
            servo_ids: IDs, (n,); None for all.
        """
        ids = self.servo_ids if servo_ids is None else servo_ids
        if not ids:
            return
        with self.line() as port:
            port.send(protocol.build_sync_write(ids, register.address, [register.to_bytes(c) for c in counts]))

    def sync_read(self, register: Register, servo_ids: Sequence[int] | None = None) -> tuple[list[int], list[bool]]:
        """Return one register's raw values from several servos (n,), and whether each was read (n,).

        Each servo waits for the reply of the servo before it, so a silent servo silences all servos after it. The
        servos after a silent one are therefore read again, without it. This is repeated until all servos were asked, or
        several consecutive reads get no answer.

        Args:
            register: the register.
            servo_ids: IDs, (n,); None for all.
        """
        ids = self.servo_ids if servo_ids is None else servo_ids
        indices = {servo_id: index for index, servo_id in enumerate(ids)}
        values, valid = [0] * len(ids), [False] * len(ids)
        requested, empty = list(ids), 0
        while requested and empty < EMPTY_READS:
            before = sum(valid)
            request = protocol.build_sync_read(requested, register.address, register.size)
            for packet in self._answers(request, len(requested) * (STATUS_OVERHEAD + register.size), len(requested)):
                index = indices.get(packet.packet_id)
                good = len(packet.parameters) == register.size and not packet.error & ~table.ALERT_BIT
                if index is not None and good:
                    values[index], valid[index] = register.from_bytes(packet.parameters), True
            empty = 0 if sum(valid) > before else empty + 1
            requested = [servo_id for servo_id in requested if not valid[indices[servo_id]]][1:]
        return values, valid

    def read_block(self, servo_id: int, address: int, size: int, margin_s: float | None = None) -> bytes | None:
        """Return `size` bytes from `address` of one servo, read in a single attempt; None if that failed.

        If servos refuse to read across addresses that are missing in their control table, only the existing addresses
        are read; the rest is 0.

        Args:
            servo_id: ID of the servo.
            address: first address.
            size: number of bytes.
            margin_s: wait time beyond the time on the wire [s]; None for `reply_margin_s`.
        """
        data = bytearray(size)
        for at, length in self._parts(servo_id, address, size):
            request = protocol.build_read(servo_id, at, length)
            answers = self._answers(request, STATUS_OVERHEAD + length, 1, margin_s)
            replies = [packet for packet in answers if packet.packet_id == servo_id]
            errors = {packet.error & ~table.ALERT_BIT for packet in replies}
            contents = [packet.parameters for packet in replies if len(packet.parameters) == length and errors == {0}]
            refused = errors - {0, table.CRC_ERROR}
            if refused and not self._gaps_refused and len(self._listed_parts(servo_id, address, size)) > 1:
                self._gaps_refused = True
                return self.read_block(servo_id, address, size, margin_s)
            if not contents:
                return None
            data[at - address : at - address + length] = contents[0]
        return bytes(data)

    def wire_s(self, *byte_counts: int) -> float:
        """Return the time that a number of bytes takes on the wire [s]."""
        return sum(byte_counts) * BITS_PER_BYTE / self.baudrate

    def arrivals(
        self,
        port: WaitingPortHandler,
        request: bytes,
        wire_s: float,
        meanwhile: Callable[[], None] | None = None,
        margin_s: float | None = None,
        keep_input: bool = False,
    ) -> Iterator[bytes]:
        """Send a request, and yield received bytes as they arrive, until the replies time out.

        The timeout is `wire_s` plus the wait time `margin_s`. The function must be called inside the context of `line`,
        with its port. The caller stops the iteration once it has all replies.

        Args:
            port: the open port.
            request: the instruction packet.
            wire_s: time of the request and all replies on the wire [s].
            meanwhile: called once while the bytes are on the wire; it must take less time than they do.
            margin_s: wait time beyond the time on the wire [s]; None for `reply_margin_s`.
            keep_input: whether to yield bytes that arrived before the request as well, instead of discarding them.
        """
        if not keep_input:
            if late := port.receive(0.0):  # late or duplicate bytes: count, then discard
                self.parser.skipped_bytes += len(late)
                port.discard_input()
            self.parser.reset()
        duration_s = wire_s + (self.reply_margin_s if margin_s is None else margin_s)
        deadline_ns = self.clock.monotonic_ns() + int(duration_s * 1e9)
        port.send(request)
        if meanwhile is not None:
            meanwhile()
        while (remaining_ns := deadline_ns - self.clock.monotonic_ns()) > 0:
            if data := port.receive(remaining_ns * 1e-6):
                yield data

    def ask_to_the_end(
        self, port: WaitingPortHandler, request: bytes, reply_size: int, margin_s: float | None
    ) -> Iterator[list[protocol.Packet]]:
        """Send a request; until the timeout, yield the packets that each arrival of bytes completes.

        An arrival of incomplete packets yields an empty list. The timeout is that of `arrivals`. After the
        timeout, the port is read a last time, because a stalled host may not have read a reply that came in time.

        Args:
            port: the open port.
            request: the instruction packet.
            reply_size: bytes of all replies, which set the wait time.
            margin_s: wait time beyond the time on the wire [s]; None for `reply_margin_s`.
        """
        for data in self.arrivals(port, request, self.wire_s(len(request), reply_size), margin_s=margin_s):
            yield self.parser.feed(data)
        if data := port.receive(0.0):
            yield self.parser.feed(data)

    def _answers(
        self, request: bytes, reply_size: int, replies: int, margin_s: float | None = None
    ) -> list[protocol.Packet]:
        packets: list[protocol.Packet] = []
        with self.line() as port:
            for arrived in self.ask_to_the_end(port, request, reply_size, margin_s):
                packets += arrived
                if len(packets) >= replies:
                    break
        self.surplus += max(0, len(packets) - replies)
        return packets
