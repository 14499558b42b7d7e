"""The emulated servo bus: a pseudo-terminal that answers DYNAMIXEL Protocol 2.0 like the servos of an arm.

The driver opens the port's path as it opens a serial port. `serve` runs the bus as a process of its own:
`python -m dynid.simulation.servo_bus --robot crane_x7`.

Timing: a reply is written in one piece at the moment its last byte would have left the wire, counted from the
arrival of the instruction; so the cycle time of a driver is that of a real line at the same baud rate.
"""

import argparse
import contextlib
import json
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from dynid.errors import ConfigurationError, DynidError
from dynid.hardware import control_table as table
from dynid.hardware.protocol import PacketParser
from dynid.hardware.realtime import bounded_timer_slack
from dynid.parent import end_with_parent, expected_parent
from dynid.resources import refuse_existing
from dynid.robot import Robot, load_robot
from dynid.simulation.plant import ArmPlant
from dynid.simulation.plant_interface import Plant
from dynid.simulation.servo_chain import ServoChain

BITS_PER_BYTE = 10  # start, eight data bits, stop
IDLE_POLL_MS = 10
STALE_FRAGMENT_S = 0.010
# When the simulator itself was not running (the host stood still), the arm stood still, too: nobody could control it.
LONGEST_CATCH_UP_S = 0.02
SLEEP_OVERSHOOT_S = 0.000025  # by so much a sleep ends too late at best

LineFault = Callable[[list[bytes]], Iterable[bytes | float]]
"""Changes the frames of one reply: returns what goes out instead, a float being a pause [s]."""


class EmulatedServoBus:
    """A servo bus behind a pseudo-terminal.

    Args:
        robot: ids, models, baud rate.
        plant: the arm behind the servos.
        baudrate: of the servos [bit/s]; None is the robot's. A client at another rate gets no answer.
        wire_time: reply no sooner than the wire would have allowed.
        lock_step: time moves by one control cycle with each sync write of goal currents, and not otherwise;
            without it, time is the wall clock.
        link: a symbolic link to the port, made now and removed by `close`.

    Attributes:
        port: path that a client opens.
        chain: the servos and the plant.
        line_fault: called with the frames of every reply, for fault injection; None leaves them alone.
        skipped_time_s: wall-clock time that the plant left out because the host stood still for too long [s].
        dropped_bytes: reply bytes lost because nobody read them.

    Raises:
        ConfigurationError: the servos have no such baud rate.
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
        link: Path | None = None,
    ) -> None:
        self.baudrate = baudrate or robot.file.bus.baudrate
        codes = {rate: code for code, rate in table.BAUD_RATES.items()}
        if self.baudrate not in codes:
            rates = ", ".join(map(str, codes))
            raise ConfigurationError(f"baud rate {self.baudrate} is not one of the servos': {rates}")
        self.chain = ServoChain(robot, plant, baud_code=codes[self.baudrate], lock_step=lock_step)
        self.wire_time, self.lock_step = wire_time and not lock_step, lock_step
        self.line_fault: LineFault | None = None
        self.skipped_time_s = 0.0
        self.dropped_bytes = 0
        self._byte_s = BITS_PER_BYTE / self.baudrate
        self._speed = getattr(termios, f"B{self.baudrate}", None)
        self._parser = PacketParser()
        self._last_arrival_s = self._wire_free_s = 0.0
        self._master, self._slave = os.openpty()  # the slave stays open, so the port outlives its clients
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._closed = False
        self._link: Path | None = None
        self.port = os.ttyname(self._slave)
        if link is not None:
            try:
                refuse_existing(link)
                link.symlink_to(self.port)
            except BaseException:
                self.close()
                raise
            self._link, self.port = link, str(link)

    def run(self) -> None:
        """Serve until `stop` is called."""
        poll = select.poll()
        poll.register(self._master, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        start_s = time.monotonic() - self.chain.time_s
        with bounded_timer_slack():
            while True:
                ready = [descriptor for descriptor, _ in poll.poll(IDLE_POLL_MS)]
                arrival_s = time.monotonic()  # the plant's computing time runs while the bytes are on the wire
                if not self.lock_step:
                    start_s = self._catch_up(start_s)
                if self._wake_read in ready:
                    return
                if self._master in ready:
                    self._receive(arrival_s)

    def stop(self) -> None:
        """Make `run` return; callable from a signal handler or another thread."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake_write, b"x")

    def close(self) -> None:
        """Remove the link and close the pseudo-terminal; more than once does no harm."""
        if self._closed:
            return
        self._closed = True
        if self._link is not None and self._link.is_symlink():
            self._link.unlink()
        for descriptor in (self._master, self._slave, self._wake_read, self._wake_write):
            os.close(descriptor)

    def _catch_up(self, start_s: float) -> float:
        """Bring the servos' clock to the wall clock; the (possibly moved) wall-clock time of the servos' zero."""
        behind_s = time.monotonic() - start_s - self.chain.time_s
        if behind_s > LONGEST_CATCH_UP_S:
            skipped_s = behind_s - LONGEST_CATCH_UP_S
            self.skipped_time_s += skipped_s
            start_s += skipped_s
            behind_s = LONGEST_CATCH_UP_S
        self.chain.advance(behind_s)
        return start_s

    def _receive(self, arrival_s: float) -> None:
        data = os.read(self._master, 4096)
        if self._speed is not None and termios.tcgetattr(self._slave)[5] != self._speed:
            self._parser.reset()
            return
        if arrival_s - self._last_arrival_s > STALE_FRAGMENT_S:
            self._parser.reset()
        self._last_arrival_s = arrival_s
        self._wire_free_s = max(self._wire_free_s, arrival_s) + len(data) * self._byte_s
        for packet in self._parser.feed(data):
            frames = self.chain.execute(packet)
            if frames:
                self._wire_free_s += sum(map(self.chain.reply_delay_s, frames))
                self._reply(frames)

    def _reply(self, frames: list[bytes]) -> None:
        if self.line_fault is None:
            self._transmit(b"".join(frames))
            return
        for piece in self.line_fault(frames):
            if isinstance(piece, bytes):
                self._transmit(piece)
            else:
                time.sleep(piece)

    def _transmit(self, data: bytes) -> None:
        now_s = time.monotonic()
        self._wire_free_s = max(self._wire_free_s, now_s) if not self.wire_time else self._wire_free_s
        if self.wire_time:
            self._wire_free_s += len(data) * self._byte_s
            if self._wire_free_s - SLEEP_OVERSHOOT_S > now_s:
                time.sleep(self._wire_free_s - SLEEP_OVERSHOOT_S - now_s)
        try:
            written = os.write(self._master, data)
        except BlockingIOError:
            written = 0
        self.dropped_bytes += len(data) - written


@contextlib.contextmanager
def running_bus(bus: EmulatedServoBus) -> Iterator[EmulatedServoBus]:
    """Serve in a thread while the block runs, then close; for tests and lock-step use within one process."""
    thread = threading.Thread(target=bus.run, name="servo bus", daemon=True)
    thread.start()
    try:
        yield bus
    finally:
        bus.stop()
        thread.join()
        bus.close()


def serve(
    robot: Robot,
    plant: Plant,
    *,
    baudrate: int | None = None,
    wire_time: bool = True,
    lock_step: bool = False,
    link: Path | None = None,
    ignore_interrupt: bool = False,
    stream: TextIO | None = None,
) -> None:
    """Run a bus as this process' only work, until SIGTERM, SIGINT or the parent's end.

    Writes two lines to `stream` (standard output by default): the port's path when it can be opened, and at the end
    a JSON object with what `ServoChain.summary` says, by which a caller proves that currents are zero.

    Args:
        robot: see `EmulatedServoBus`, as for `plant`, `baudrate`, `wire_time`, `lock_step` and `link`.
        plant: the arm.
        baudrate: of the servos [bit/s].
        wire_time: keep the wire's timing.
        lock_step: step time by the goal-current writes.
        link: symbolic link to make.
        ignore_interrupt: leave SIGINT to the other processes of the terminal, so that a driver can still talk to
            the servos while it shuts down; the bus then ends by SIGTERM or with its parent.
        stream: where the two lines go.
    """
    output = sys.stdout if stream is None else stream
    end_with_parent(expected_parent() or os.getppid())
    bus = EmulatedServoBus(robot, plant, baudrate=baudrate, wire_time=wire_time, lock_step=lock_step, link=link)
    signal.signal(signal.SIGTERM, lambda *_: bus.stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN if ignore_interrupt else lambda *_: bus.stop())
    try:
        print(bus.port, file=output, flush=True)
        bus.run()
    finally:
        bus.close()
        summary = bus.chain.summary() | {"skipped_time_s": bus.skipped_time_s, "dropped_bytes": bus.dropped_bytes}
        with contextlib.suppress(BrokenPipeError):  # the parent may be gone
            print(json.dumps(summary), file=output, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve a robot's simulated arm: `python -m dynid.simulation.servo_bus --robot crane_x7`."""
    parser = argparse.ArgumentParser(prog="python -m dynid.simulation.servo_bus", description=main.__doc__)
    parser.add_argument("--robot", required=True, help="a shipped robot, or a folder with a robot.yaml")
    parser.add_argument("--mount", help="a mount of robot.yaml; the default one without it")
    parser.add_argument("--seed", type=int, default=0, help="of all random nuisances")
    parser.add_argument("--without", action="append", default=[], metavar="NUISANCE", help="a nuisance to switch off")
    parser.add_argument("--link", type=Path, help="symbolic link to the port")
    parser.add_argument("--baudrate", type=int, help="of the servos; the robot's without it")
    parser.add_argument("--no-wire-time", action="store_true", help="reply at once")
    parser.add_argument("--lock-step", action="store_true", help="time moves with the goal-current writes only")
    parser.add_argument("--ignore-interrupt", action="store_true", help="leave SIGINT to the other processes")
    options = parser.parse_args(arguments)
    try:
        robot = load_robot(options.robot)
        serve(
            robot,
            ArmPlant(robot, mount=options.mount, seed=options.seed, switched_off=options.without),
            baudrate=options.baudrate,
            wire_time=not options.no_wire_time,
            lock_step=options.lock_step,
            link=options.link,
            ignore_interrupt=options.ignore_interrupt,
        )
    except DynidError as error:
        sys.exit(f"servo bus: {error}")


if __name__ == "__main__":
    main()
