"""Emulated servo bus: a pseudo-terminal that answers DYNAMIXEL Protocol 2.0 like the servos of an arm.

The driver opens the port's path like a serial port. `bus.process` runs the bus as a process of its own.

Timing: a reply is written in one piece at the time at which its last byte would have arrived over a real line. So a
driver has the same cycle time as with a real line at this baud rate. With a USB adapter, the reply is written at the
times at which the adapter would deliver its bytes.
"""

import contextlib
import heapq
import os
import select
import termios
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from dynid.errors import ConfigurationError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.clock import SYSTEM_CLOCK
from dynid.hardware.bus.protocol import PacketParser
from dynid.hardware.loop.paused_clock import ClockPage
from dynid.hardware.loop.realtime import bounded_timer_slack
from dynid.robot import Robot
from dynid.simulation.bus.adapter import FRAME_NS, UsbAdapter
from dynid.simulation.bus.terminal import ServoTerminal
from dynid.simulation.faults.script import FaultInjector, FaultScript
from dynid.simulation.plant.interface import Plant
from dynid.simulation.servo.chain import ServoChain
from dynid.simulation.servo.trace import TracedArm

BITS_PER_BYTE = 10  # start, eight data bits, stop
IDLE_POLL_S = 0.010
STALE_FRAGMENT_S = 0.010
# Silence after which a driver counts as gone, without and with torque [s]; with torque on, the host may only be busy.
SILENCE_S, SILENCE_WITH_TORQUE_S = 0.3, 3.0
# Maximum time simulated after a pause of this process [s]; the remainder is skipped, since no driver controls the arm.
LONGEST_CATCH_UP_S = 0.02
SLEEP_OVERSHOOT_S = 0.00006  # margin for sleeps that end late; the rest of the time is a busy wait [s]

NO_SERVO = -1  # baud code that no servo has
TERMINAL_RATES = tuple(rate for rate in table.BAUD_RATES.values() if hasattr(termios, f"B{rate}"))

LineFault = Callable[[list[bytes]], Iterable[bytes | float]]
"""Function that changes the frames of one reply; it returns the bytes to send, and pauses as floats [s]."""


class EmulatedServoBus:
    """Emulated servo bus behind a pseudo-terminal, which a driver opens like a serial port.

    Args:
        robot: robot with IDs, models and baud rate.
        plant: the simulated arm that the servos move.
        baudrate: baud rate of the servos [bit/s]; None for the rate in robot.yaml. A client at another rate gets no
            answer.
        wire_time: whether replies are delayed by the transmission time of their bytes.
        lock_step: whether only sync writes of goal currents advance time, by one control cycle each. Otherwise time
            follows `clock`, or the system's monotonic clock if `clock` is None.
        clock: a clock that pauses while the driver is late.
        link: a symbolic link to the port, created now and removed by `close`.
        faults: injected faults with their times.
        adapter: adapter that delivers the replies; None is a direct line. With `clock`, the adapter's latency counts as
            simulated time.

    Attributes:
        chain: the servos and the plant.
        faults: injector that executes the fault script.
        line_fault: function that corrupts the frames of every reply; None leaves them unchanged.
        skipped_time_s: time that the plant skipped because this process was paused for too long [s].
        dropped_bytes: number of reply bytes that were lost because no client read them.

    Raises:
        ConfigurationError: the servos do not support the baud rate, the fault script names a missing servo, or the
            script unplugs the cable and `link` is None. Without a link, the path of the port may change when the cable
            is plugged in again.
        OutputExistsError: the link exists.
    """

    def __init__(
        self,
        robot: Robot,
        plant: Plant,
        *,
        baudrate: int | None = None,
        wire_time: bool = True,
        lock_step: bool = False,
        clock: ClockPage | None = None,
        link: Path | None = None,
        faults: FaultScript | None = None,
        adapter: UsbAdapter | None = None,
    ) -> None:
        self.baudrate = baudrate or robot.file.bus.baudrate
        codes = {rate: code for code, rate in table.BAUD_RATES.items()}
        if self.baudrate not in codes:
            rates = ", ".join(map(str, codes))
            raise ConfigurationError(f"the servos do not support baud rate {self.baudrate}; supported: {rates}")
        if faults is not None and faults.unplugs and link is None:
            raise ConfigurationError("a fault that unplugs the cable needs a port with a fixed path: give --link")
        self.chain = ServoChain(robot, plant, baud_code=codes[self.baudrate], lock_step=lock_step)
        self.wire_time, self.lock_step = wire_time and not lock_step, lock_step
        self.faults = FaultInjector(faults or FaultScript(), self.chain)
        self.line_fault: LineFault | None = self.faults.line if faults is not None else None
        self._clock, self._page = clock or SYSTEM_CLOCK, clock
        self._adapter = None if lock_step else adapter
        if self._adapter is not None and clock is not None:
            clock.arm_ticks(FRAME_NS)
        self.skipped_time_s = 0.0
        self.dropped_bytes = 0
        self._parser = PacketParser()
        self._last_arrival_s = self._wire_free_s = self._wall_free_s = 0.0
        self._late: list[tuple[float, bytes]] = []  # pending output: (time, bytes)
        self._trace = plant if isinstance(plant, TracedArm) else None
        self._terminal = ServoTerminal(link)
        self._pulled = self._stopped = self._leaving = self._closed = False
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    @property
    def port(self) -> str:
        """Path of the port that a client opens."""
        return self._terminal.port

    def run(self, serving: Callable[[], None] = lambda: None) -> None:
        """Serve instructions until `stop` is called, or until the driver is silent after a call of `stop_after_driver`.

        `serving` is called once, as soon as clients may connect. Before this call, the plant makes its first step, so
        that compilation does not delay the first client. In lock-step, the plant makes no step before this call.
        """
        start_s = self._now_s() - self.chain.time_s
        with bounded_timer_slack():
            if not self.lock_step:
                start_s = self._catch_up(start_s)  # compile and load before clients may connect
            serving()
            while True:
                sources = [one for one in (self._terminal.descriptor, self._wake_read) if one >= 0]
                ready = select.select(sources, [], [], self._patience_s())[0]
                arrival_s = self._line_s()  # the plant's computing time runs while the bytes are on the wire
                if not self.lock_step:
                    start_s = self._catch_up(start_s)
                if self._stopped or (self._leaving and not self._is_driven(arrival_s)):
                    return
                if self._wake_read in ready:
                    os.read(self._wake_read, 64)
                self._follow_cable()
                while self._late and self._late[0][0] <= arrival_s:
                    self._transmit(heapq.heappop(self._late)[1])
                if self._adapter is not None and time.monotonic() >= self._wall_free_s:
                    self._write(self._adapter.hand_over(round(arrival_s * 1e9)))
                if self._terminal.descriptor in ready:
                    self._receive(arrival_s)
                self._leave_time()

    def stop(self) -> None:
        """Make `run` return; callable from a signal handler or another thread."""
        self._stopped = True
        self._wake()

    def stop_after_driver(self) -> None:
        """Make `run` return as soon as no client has sent instructions for a while.

        The required silence is `SILENCE_S`, or `SILENCE_WITH_TORQUE_S` while a servo has torque. This method may be
        called from a signal handler.
        """
        self._leaving = True
        self._wake()

    def _is_driven(self, now_s: float) -> bool:
        torque_on = self.chain.torque_on
        return now_s - self._last_arrival_s < (SILENCE_WITH_TORQUE_S if torque_on else SILENCE_S)

    def pull(self, pulled: bool = True) -> None:
        """Pull the cable, or plug it in again if `pulled` is False; callable from a signal handler or any thread."""
        self._pulled = pulled
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake_write, b"x")

    def close(self) -> None:
        """Remove the link and close the pseudo-terminal; repeated calls have no effect."""
        if self._closed:
            return
        self._closed = True
        self._terminal.pull()
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)

    def _patience_s(self) -> float:
        """Return the longest time to wait for instructions [s].

        The wait ends shortly before the next bytes must go to the client, and after `IDLE_POLL_S` at the latest.
        """
        due_s = self._due_s()
        if due_s is None:
            return IDLE_POLL_S
        left_s = max(due_s - self._line_s(), self._wall_free_s - time.monotonic())
        return max(0.0, min(IDLE_POLL_S, left_s - SLEEP_OVERSHOOT_S))

    def _due_s(self) -> float | None:
        """Return the time [s] at which the next bytes go to the client; None if no bytes are pending.

        It can be compared with the present time that `_line_s` returns: both are times of the same clock.
        """
        kept_ns = None if self._adapter is None else self._adapter.due_ns
        due = [when for when, _ in self._late[:1]] + ([] if kept_ns is None else [kept_ns * 1e-9])
        return min(due, default=None)

    def _leave_time(self) -> None:
        """Postpone the next pause of the shared clock until the adapter delivers the next reply.

        The clock pauses while the driver is late. But a driver that waits for a reply is not late, so the adapter's
        latency counts as simulated time.
        """
        if self._adapter is not None and self._page is not None and (due_s := self._due_s()) is not None:
            self._page.leave_time_until(round(due_s * 1e9))

    def _line_s(self) -> float:
        """Return the present time on the clock that measures arrivals and departures of bytes [s].

        With an adapter this is the bus' clock, which may pause; otherwise it is the system's monotonic clock.
        """
        return time.monotonic() if self._adapter is None else self._now_s()

    def _follow_cable(self) -> None:
        """Execute due faults; pull the cable or plug it in if the fault script or a call of `pull` requires it."""
        self.faults.advance()
        if (self.faults.plugged and not self._pulled) == self._terminal.plugged:
            return
        if self._terminal.plugged:
            self._terminal.pull()
            self._late.clear()
            self._parser.reset()
            if self._adapter is not None:
                self._adapter.clear()
        else:
            self._terminal.plug()

    def _catch_up(self, start_s: float) -> float:
        """Advance servos and plant to the present time of the bus' clock, by at most `LONGEST_CATCH_UP_S`.

        Args:
            start_s: time of the bus' clock at which the servos' time is 0 [s].

        Returns:
            `start_s` plus the time that was skipped [s].
        """
        behind_s = self._now_s() - start_s - self.chain.time_s
        if behind_s > LONGEST_CATCH_UP_S:
            skipped_s = behind_s - LONGEST_CATCH_UP_S
            self.skipped_time_s += skipped_s
            start_s += skipped_s
            behind_s = LONGEST_CATCH_UP_S
        if self._trace is not None:
            self._trace.zero_s = start_s
        self.chain.advance(behind_s)
        return start_s

    def _now_s(self) -> float:
        return self._clock.monotonic_ns() * 1e-9

    def _receive(self, arrival_s: float) -> None:
        data = self._terminal.read()
        if self.baudrate in TERMINAL_RATES:
            code = self._terminal.baud_code
            self.chain.line_code = NO_SERVO if code is None else code
            self._byte_s = BITS_PER_BYTE / (self.baudrate if code is None else table.BAUD_RATES[code])
        if arrival_s - self._last_arrival_s > STALE_FRAGMENT_S:
            self._parser.reset()
        self._last_arrival_s = arrival_s
        self._wire_free_s = max(self._wire_free_s, arrival_s) + len(data) * self._byte_s
        for packet in self._parser.feed(data):
            if (stall_s := self.faults.stall_s()) > 0.0:
                time.sleep(stall_s)
            self._reply(self.chain.execute(packet))
        damaged = self._parser.crc_errors_by_id
        while damaged:
            self._reply(self.chain.answer_damaged(damaged.popitem()[0]))

    def _reply(self, frames: list[bytes]) -> None:
        if not frames:
            return
        self._wire_free_s += sum(map(self.chain.reply_delay_s, frames))
        if self.line_fault is None:
            self._transmit(b"".join(frames))
            return
        due_s = 0.0
        for piece in self.line_fault(frames):
            if not isinstance(piece, bytes):
                due_s = max(due_s, self._line_s()) + piece
            elif due_s:
                heapq.heappush(self._late, (due_s, piece))
                due_s += 1e-9  # keep the order of simultaneous output
            else:
                self._transmit(piece)

    def _transmit(self, data: bytes) -> None:
        now_s = self._line_s()
        if self._adapter is not None:
            begin_ns = round(max(self._wire_free_s, now_s) * 1e9)
            byte_ns = self._byte_s * 1e9 if self.wire_time else 0.0
            # the paused clock may jump ahead, but a driver rejects a reply that is faster than the wire as stale
            self._wall_free_s = max(self._wall_free_s, time.monotonic()) + len(data) * byte_ns * 1e-9
            self._wire_free_s = self._adapter.receive(data, begin_ns, byte_ns) * 1e-9
            return
        self._wire_free_s = max(self._wire_free_s, now_s) if not self.wire_time else self._wire_free_s
        if self.wire_time:
            self._wire_free_s += len(data) * self._byte_s
            if self._wire_free_s - SLEEP_OVERSHOOT_S > now_s:
                time.sleep(self._wire_free_s - SLEEP_OVERSHOOT_S - now_s)
            while time.monotonic() < self._wire_free_s:
                pass
        self._write(data)

    def _write(self, data: bytes) -> None:
        if not data:
            return
        self.dropped_bytes += len(data) - self._terminal.write(data)
