"""Servo bus on simulated time: the driver's own code, with wire and arm advanced in step.

Time passes only while a thread waits. `SimulatedClock` is the driver's clock, and `SimulatedLine` is the wire: the
driver's `ServoBus` calls its `open` instead of opening a serial port. Every byte takes its time at the baud rate, each
instruction is executed when its last byte has arrived, and a repeated run gives the same result.
"""

import errno
import heapq
import itertools
import os
import termios
from collections.abc import Callable
from functools import partial

import numpy as np

from dynid.errors import BusError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.clock import Clock
from dynid.hardware.bus.port import REPLY_LATENCY_MS, WaitingPortHandler
from dynid.hardware.bus.protocol import Packet, PacketParser
from dynid.simulation.faults.script import FaultInjector
from dynid.simulation.servo.chain import ServoChain

BITS_PER_BYTE = 10
START_NS = 1_000_000_000
EPOCH_NS = 1_700_000_000_000_000_000  # wall-clock time at the start of the simulated clock [ns]
READING_NS = 100  # duration of one reading of the clock, so that a loop that only reads it ends
HOST_S = 30e-6  # delay between driver and wire in each direction [s]
WAKE_S = 60e-6  # largest delay of the end of a sleep [s]

Action = Callable[[int], None]
"""What happens at a moment; called with that moment [ns]."""


class SimulatedClock(Clock):
    """Clock whose time passes only while a thread waits.

    Args:
        seed: seed of the delays of sleeps.
    """

    def __init__(self, seed: int = 0) -> None:
        self.now_ns = START_NS
        self._realtime_offset_ns = EPOCH_NS - START_NS
        self._events: list[tuple[int, int, Action]] = []
        self._order = itertools.count()
        self._random = np.random.default_rng(seed)
        self._lateness_ns: list[int] = []

    @property
    def elapsed_s(self) -> float:
        """Simulated time since the start [s]."""
        return (self.now_ns - START_NS) * 1e-9

    def monotonic_ns(self) -> int:
        """Return the time, which never steps [ns]."""
        self.now_ns += READING_NS
        return self.now_ns

    def realtime_ns(self) -> int:
        """Return the wall-clock time [ns]."""
        return self.monotonic_ns() + self._realtime_offset_ns

    def step_realtime(self, seconds: float) -> None:
        """Step the wall clock by a time [s]."""
        self._realtime_offset_ns += round(seconds * 1e9)

    def sleep(self, seconds: float) -> None:
        """Advance the time by a duration [s]."""
        if not self._lateness_ns:
            self._lateness_ns = self._random.integers(0, round(WAKE_S * 1e9), 1024).tolist()
        self.advance_to(self.now_ns + round(seconds * 1e9) + self._lateness_ns.pop())

    def at(self, time_ns: int, action: Action) -> None:
        """Schedule an action at a time [ns]; past actions run at the next wait."""
        heapq.heappush(self._events, (time_ns, next(self._order), action))

    def after(self, seconds: float, action: Action) -> None:
        """Schedule an action at a time after the start [s]."""
        self.at(START_NS + round(seconds * 1e9), action)

    def advance_to(self, time_ns: int, wanted: Callable[[], bool] | None = None) -> None:
        """Advance the time to a moment [ns], or until `wanted` returns True."""
        while self._events and self._events[0][0] <= time_ns and not (wanted and wanted()):
            due_ns, _, action = heapq.heappop(self._events)
            self.now_ns = max(self.now_ns, due_ns)
            action(due_ns)
        if not (wanted and wanted()):
            self.now_ns = max(self.now_ns, time_ns)

    def stand_still(self, seconds: float) -> None:
        """Stall the host for a duration [s] while line and arm continue; called by an action."""
        self.now_ns += round(seconds * 1e9)


class SimulatedLine:
    """Wire between a driver and the servos, on a simulated clock.

    Args:
        chain: the servos, with the arm behind them.
        clock: clock shared with the driver.
        faults: faults of line and servos.
        seed: seed of the places at which received bytes are split.

    Attributes:
        sent: time [ns] and bytes of every write of the driver, if `keep_sent`.
    """

    def __init__(
        self,
        chain: ServoChain,
        clock: SimulatedClock,
        faults: FaultInjector | None = None,
        *,
        seed: int = 0,
        keep_sent: bool = False,
    ) -> None:
        self.chain, self.clock, self.faults = chain, clock, faults
        self.keep_sent = keep_sent
        self.sent: list[tuple[int, bytes]] = []
        self._parser = PacketParser()
        self._random = np.random.default_rng([seed, 1])
        self._free_ns = self._stands_until_ns = 0
        self._byte_ns = 0.0
        self._arrived = bytearray()

    def open(self, port: str, baudrate: int) -> "SimulatedPort":
        """Return a port handler on this line, as the driver's `opener`.

        Raises:
            BusError: the cable is out.
        """
        if not self.plugged:
            raise BusError(f"port {port} does not exist: the cable is out")
        handler = SimulatedPort(port, self)
        handler.setBaudRate(baudrate)
        return handler

    @property
    def plugged(self) -> bool:
        """Whether the cable is plugged in."""
        return self.faults is None or self.faults.plugged

    def settle(self, time_ns: int) -> None:
        """Advance servos, arm and faults to a moment [ns]; earlier moments change nothing."""
        self.chain.advance(max(0.0, (time_ns - START_NS) * 1e-9 - self.chain.time_s))
        if self.faults is not None:
            self.faults.advance()

    def set_baudrate(self, baudrate: int) -> None:
        """Set the baud rate of the host [bit/s]."""
        self._byte_ns = BITS_PER_BYTE * 1e9 / baudrate
        self.chain.line_code = next((code for code, rate in table.BAUD_RATES.items() if rate == baudrate), -1)

    def transmit(self, data: bytes) -> None:
        """Send bytes from the host; raise OSError if the cable is unplugged."""
        self.require_plugged()
        if self.keep_sent:
            self.sent.append((self.clock.now_ns, data))
        begin_ns = max(self.clock.now_ns + round(HOST_S * 1e9), self._free_ns)
        self._free_ns = begin_ns + round(len(data) * self._byte_ns)
        self.clock.at(self._free_ns, partial(self._execute, data))

    def receive(self, until_ns: int) -> bytes:
        """Return received bytes, waiting up to a moment [ns]; raise OSError if the cable is unplugged."""
        self.clock.advance_to(until_ns, lambda: bool(self._arrived) or not self.plugged)
        self.require_plugged()
        data = bytes(self._arrived)
        self._arrived.clear()
        return data

    def discard(self) -> None:
        """Discard received bytes."""
        self._arrived.clear()

    def put_back(self, data: bytes) -> None:
        """Return bytes that were received but not used to the input."""
        self._arrived[:0] = data

    def require_plugged(self) -> None:
        """Raise OSError if the cable is unplugged."""
        if not self.plugged:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _execute(self, data: bytes, due_ns: int) -> None:
        """Execute instructions that arrived at the servos, and send the replies."""
        if due_ns < self._stands_until_ns:
            self.clock.at(self._stands_until_ns, partial(self._execute, data))
            return
        self.settle(due_ns)
        if self.plugged:
            self._serve(self._parser.feed(data), False, due_ns)

    def _serve(self, packets: list[Packet], stalled: bool, due_ns: int) -> None:
        """Execute instructions in order; with `stalled`, the stall of the first one is over."""
        for k, packet in enumerate(packets):
            stall_s = 0.0 if self.faults is None or (stalled and k == 0) else self.faults.stall_s()
            if stall_s > 0.0:
                self._stands_until_ns = due_ns + round(stall_s * 1e9)
                self.clock.at(self._stands_until_ns, partial(self._serve, packets[k:], True))
                return
            frames = self.chain.execute(packet)
            if frames:
                self._free_ns = max(self._free_ns, due_ns) + round(1e9 * sum(map(self.chain.reply_delay_s, frames)))
                self._answer(frames if self.faults is None else self.faults.line(frames))

    def _answer(self, pieces: "list[bytes] | list[bytes | float]") -> None:
        """Put a reply on the wire; a pause in it delays the delivery of the rest by the host."""
        late_ns = 0
        together = b""
        for piece in [*pieces, 0.0]:
            if isinstance(piece, bytes):
                together += piece
                continue
            self._deliver(together, late_ns)
            together, late_ns = b"", late_ns + round(piece * 1e9)

    def _deliver(self, data: bytes, late_ns: int) -> None:
        """Deliver bytes to the host in two parts, split at a random place."""
        cut = int(self._random.random() * len(data))
        for part in (data[:cut], data[cut:]):
            if part:
                self._free_ns += round(len(part) * self._byte_ns)
                self.clock.at(self._free_ns + round(HOST_S * 1e9) + late_ns, partial(self._arrive, part))

    def _arrive(self, data: bytes, _: int) -> None:
        if self.plugged:
            self._arrived += data


class SimulatedPort(WaitingPortHandler):
    """Replacement of the driver's serial port."""

    def __init__(self, port: str, line: SimulatedLine) -> None:
        super().__init__(port)
        self._line = line

    @property
    def simulated(self) -> bool:
        """Whether the line is simulated: always, as a line without a device cannot belong to a real arm."""
        return True

    def setupPort(self, cflag_baud: int) -> bool:
        """Open the line at a baud rate."""
        self._line.set_baudrate(cflag_baud)
        self.is_open = True
        self.is_using = False
        self.tx_time_per_byte = 10_000.0 / cflag_baud
        return True

    def closePort(self) -> None:
        """Close the line."""
        self.is_open = False

    def clearPort(self) -> None:
        """Discard received bytes, as the SDK does before it sends."""
        self.discard_input()

    def writePort(self, packet: list[int]) -> int:
        """Send a packet for the SDK; return the number of bytes."""
        self._line.transmit(bytes(packet))
        return len(packet)

    def readPort(self, length: int) -> bytes:
        """Return at most `length` bytes, waiting for the first until the packet timeout."""
        remaining_ms = max(0.0, self.packet_timeout - self.getTimeSinceStart())
        data = self.receive(remaining_ms)
        self._line.put_back(data[length:])
        return data[:length]

    def setPacketTimeout(self, packet_length: int) -> None:
        """Set the timeout for a reply of `packet_length` bytes."""
        self.setPacketTimeoutMillis(self.tx_time_per_byte * packet_length + REPLY_LATENCY_MS)

    def getCurrentTime(self) -> float:
        """Return the simulated time [ms]."""
        return self._line.clock.monotonic_ns() * 1e-6

    def send(self, frame: bytes) -> None:
        """Write a complete frame; raise OSError if the cable is unplugged."""
        self._line.transmit(frame)

    def receive(self, timeout_ms: float) -> bytes:
        """Return received bytes, waiting for them at most for the timeout; raise OSError if the cable is unplugged."""
        return self._line.receive(self._line.clock.now_ns + round(timeout_ms * 1e6))

    def discard_input(self) -> None:
        """Discard received bytes; raise termios.error if the cable is unplugged."""
        if not self._line.plugged:
            raise termios.error(errno.EIO, os.strerror(errno.EIO))
        self._line.discard()
