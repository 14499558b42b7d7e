"""The servo bus as the driver uses it.

All frames are built and parsed here, on the descriptor that the DYNAMIXEL SDK opened: the SDK's group reads return
stale values after a late reply, zeros after a failed read, and hide the servos' error bytes, and whether its `txPacket`
stuffs what it is handed depends on its version. The 1 kHz cycle is in `state_cycle`.
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
EMPTY_READS = 3  # one after the other that nobody answers: there is nobody


class _RefusedError(BusError):
    """A servo refused an instruction."""


class _OpenLine:
    """The open port of a bus as a context, again and again: a control cycle enters it twice."""

    def __init__(self, bus: "ServoBus") -> None:
        self._bus = bus

    def __enter__(self) -> WaitingPortHandler:
        return self._bus.open_handler()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, OSError | termios.error | serial.SerialException) and not isinstance(error, BusError):
            self._bus.close()
            raise BusError(f"port {self._bus.port} was lost ({error}): is the cable still plugged in?") from error


class ServoBus:
    """All servos of one arm on one serial line.

    Args:
        port: path of the serial device.
        baudrate: [bit/s].
        servo_ids: ids in joint order, n of them.
        reply_margin_s: how long a group read waits for replies beyond their time on the wire.
        clock: by which deadlines and stamps go.
        opener: opens the port; `open_port` but for a simulated line without a device.

    Attributes:
        parser: of the replies, with counters of its own.
        dialogue: asks one servo at a time, and knows which answers came late.
        retries: how often something was asked once more because its answer was lost or damaged.
        models: model number by id, of the servos that answered a ping.
        surplus: how many packets came beside those that were asked for, outside of the reads of states.
        realtime_offset_ns: wall clock minus monotonic clock when the port was opened [ns]. Stamps are the monotonic
            clock plus this: a step of the wall clock (NTP, by hand) does not affect them until the port is reopened.
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
        """Whether the open line has proved that it is simulated, see `simulated_line`."""
        return self._handler is not None and self._handler.simulated

    def open(self) -> None:
        """Open the port for this process alone; BusError says in one sentence why it cannot be."""
        if self._handler is None:
            self._handler = self._opener(self.port, self.baudrate)
            self.realtime_offset_ns = self.clock.realtime_ns() - self.clock.monotonic_ns()
            self.parser.reset()
            self.dialogue.reset()

    def monotonic_s(self, stamp_ns: int) -> float:
        """The moment of a sample's stamp on the clock's monotonic time [s]."""
        return (stamp_ns - self.realtime_offset_ns) * 1e-9

    def close(self) -> None:
        """Close the port; more than once does no harm. The servos are left as they are."""
        if self._handler is not None:
            handler, self._handler = self._handler, None
            close_port(handler)

    def line(self) -> AbstractContextManager[WaitingPortHandler]:
        """The open port; raises BusError where it is closed or breaks meanwhile, which closes it."""
        return self._line

    def open_handler(self) -> WaitingPortHandler:
        """Return what the port is used through; BusError if it is closed."""
        if self._handler is None:
            raise BusError(f"port {self.port} is not open")
        return self._handler

    # -- set-up, one servo at a time ---------------------------------------------------------------------------

    def patiently(self) -> AbstractContextManager[None]:
        """Wait for each servo as long as a busy host needs while the block runs; see `Dialogue.patiently`."""
        return self.dialogue.patiently()

    def ping(self, servo_id: int, waits_s: Sequence[float] = QUICK_S) -> int:
        """The model number of one servo.

        Args:
            servo_id: who is asked.
            waits_s: how long each attempt waits beyond the time on the wire [s].

        Raises:
            BusTimeoutError: it does not answer.
            BusError: what it answers cannot be understood.
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
        """Speak at another rate [bit/s] while the block runs; BusError if the port cannot."""
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
        """A register's raw value, from one servo.

        Raises:
            BusTimeoutError: no answer in three attempts; while the bus waits patiently, of a kind of its own: the servo
                answers pings only, or no servo answers.
            BusError: a damaged answer in three attempts, or the servo refused.
        """
        frame = protocol.build_read(servo_id, register.address, register.size)
        return register.from_bytes(self._insist(f"read {register.name}", servo_id, frame, register.size))

    def write(self, servo_id: int, register: Register, count: int) -> None:
        """Set a register of one servo to a raw value; errors as of `read`."""
        frame = protocol.build_write(servo_id, register.address, register.to_bytes(count))
        self._insist(f"write {count} {register.name}", servo_id, frame)

    def reboot(self, servo_id: int) -> None:
        """Restart one servo: torque off, errors cleared; it answers again after some 100 ms; errors as of `read`."""
        self._insist("reboot", servo_id, protocol.build_reboot(servo_id))

    def read_range(self, servo_id: int, address: int, size: int) -> bytes:
        """`size` bytes from `address` of one servo; errors as of `read`.

        Servos that refuse to read across addresses that are not listed are asked for the listed parts; the rest is 0.
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
        """(address, bytes) of the reads for a range, as far as servos are known to refuse gaps."""
        return self._listed_parts(servo_id, address, size) if self._gaps_refused else [(address, size)]

    def _listed_parts(self, servo_id: int, address: int, size: int) -> list[tuple[int, int]]:
        """(address, bytes) of the parts of a range that the servo's model lists, as far as that is known."""
        return table.listed_parts(address, size, self.models.get(servo_id))

    def _insist(self, action: str, servo_id: int, frame: bytes, size: int = 0) -> bytes:
        """What one servo answers, `size` bytes of it unless any are good; errors as of `read`.

        An instruction that reached the servo damaged, which it may report, is sent once more like one that it lost.
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
        """Set a register of several servos at once, (n,) raw values, None is all; the servos do not confirm it."""
        ids = self.servo_ids if servo_ids is None else servo_ids
        if not ids:
            return
        with self.line() as port:
            port.send(protocol.build_sync_write(ids, register.address, [register.to_bytes(c) for c in counts]))

    def sync_read(self, register: Register, servo_ids: Sequence[int] | None = None) -> tuple[list[int], list[bool]]:
        """(raw values, whether read) of one register of several servos, each (n,); None is all.

        Behind a servo that is silent all others stay silent, too, so those behind it are asked again without it; no
        longer where nobody answers.
        """
        ids = self.servo_ids if servo_ids is None else servo_ids
        places = {servo_id: place for place, servo_id in enumerate(ids)}
        values, valid = [0] * len(ids), [False] * len(ids)
        asked, empty = list(ids), 0
        while asked and empty < EMPTY_READS:
            before = sum(valid)
            request = protocol.build_sync_read(asked, register.address, register.size)
            for packet in self._answers(request, len(asked) * (STATUS_OVERHEAD + register.size), len(asked)):
                index = places.get(packet.packet_id)
                good = len(packet.parameters) == register.size and not packet.error & ~table.ALERT_BIT
                if index is not None and good:
                    values[index], valid[index] = register.from_bytes(packet.parameters), True
            empty = 0 if sum(valid) > before else empty + 1
            asked = [servo_id for servo_id in asked if not valid[places[servo_id]]][1:]
        return values, valid

    def read_block(self, servo_id: int, address: int, size: int, margin_s: float | None = None) -> bytes | None:
        """`size` bytes from `address` of one servo, quickly and in one attempt; None if that did not succeed.

        Servos that refuse to read across addresses that are not listed are asked for the listed parts; the rest is 0.
        """
        data = bytearray(size)
        for at, length in self._parts(servo_id, address, size):
            request = protocol.build_read(servo_id, at, length)
            answers = self._answers(request, STATUS_OVERHEAD + length, 1, margin_s)
            own = [packet for packet in answers if packet.packet_id == servo_id]
            errors = {packet.error & ~table.ALERT_BIT for packet in own}
            good = [packet.parameters for packet in own if len(packet.parameters) == length and errors == {0}]
            refused = errors - {0, table.CRC_ERROR}
            if refused and not self._gaps_refused and len(self._listed_parts(servo_id, address, size)) > 1:
                self._gaps_refused = True
                return self.read_block(servo_id, address, size, margin_s)
            if not good:
                return None
            data[at - address : at - address + length] = good[0]
        return bytes(data)

    def wire_s(self, *byte_counts: int) -> float:
        """How long so many bytes take on the wire [s]."""
        return sum(byte_counts) * BITS_PER_BYTE / self.baudrate

    def ask(
        self,
        port: WaitingPortHandler,
        request: bytes,
        reply_size: int,
        meanwhile: Callable[[], None] | None = None,
        margin_s: float | None = None,
        keep_input: bool = False,
    ) -> Iterator[list[protocol.Packet]]:
        """Drop what lies unread, send a request, and hand out the packets of each arrival; within `line`, on its port.

        With `keep_input`, what lies unread is handed out, too.
        `meanwhile` is called once while the bytes are on the wire; it must take less time than they do.
        Ends when the time for `reply_size` bytes and the margin (None is the bus') are over; the caller stops earlier
        when it has all.
        """
        if not keep_input:
            self.parser.skipped_bytes += len(port.receive(0.0))  # late, or sent twice: counted, then forgotten
            port.discard_input()
            self.parser.reset()
        duration_s = self.wire_s(len(request), reply_size) + (self.reply_margin_s if margin_s is None else margin_s)
        deadline_ns = self.clock.monotonic_ns() + int(duration_s * 1e9)
        port.send(request)
        if meanwhile is not None:
            meanwhile()
        while (remaining_ns := deadline_ns - self.clock.monotonic_ns()) > 0:
            if data := port.receive(remaining_ns * 1e-6):
                yield self.parser.feed(data)

    def ask_to_the_end(
        self, port: WaitingPortHandler, request: bytes, reply_size: int, margin_s: float | None
    ) -> Iterator[list[protocol.Packet]]:
        """As `ask`, with one more look when the time is over: on a host that stalled, the reply may be there unread."""
        yield from self.ask(port, request, reply_size, margin_s=margin_s)
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
