"""Process that serves the emulated servo bus; its command is `dynid simulated-arm`."""

import contextlib
import json
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dynid.errors import ConfigurationError
from dynid.hardware.loop.paused_clock import ClockPage
from dynid.parent import end_with_parent, expected_parent
from dynid.resources import refuse_existing, write_whole
from dynid.robot import Robot
from dynid.simulation.bus.adapter import UsbAdapter
from dynid.simulation.bus.servo_bus import EmulatedServoBus
from dynid.simulation.faults.script import FaultScript
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.plant.held import HeldBody
from dynid.simulation.plant.interface import Plant
from dynid.simulation.servo.trace import TracedArm


def serve(
    robot: Robot,
    plant: Plant,
    *,
    clock: Path | None = None,
    link: Path | None = None,
    ignore_interrupt: bool = False,
    baudrate: int | None = None,
    wire_time: bool = True,
    lock_step: bool = False,
    faults: FaultScript | None = None,
    adapter: UsbAdapter | None = None,
    body: HeldBody | None = None,
    ready: Callable[[], None] = lambda: None,
    port_file: Path | None = None,
) -> None:
    """Serve an emulated servo bus as this process' only work, until SIGTERM, SIGHUP, SIGINT or the parent's end.

    If `body` is given, SIGUSR1 makes the arm take it into its hand, and SIGUSR2 makes the arm put it down. Otherwise,
    if `link` is given, SIGUSR1 pulls the cable and SIGUSR2 plugs it in again.

    Two lines are printed for the user: the port's path when clients may connect, and at the end a JSON object. The
    object contains `ServoChain.summary`, which shows whether the currents are zero. Programs should read the port from
    `port_file`, because libraries may also print lines.

    Args:
        robot: robot with IDs and models of the servos.
        plant: the simulated arm that the servos move.
        clock: new file of a shared clock that stops while the driver is late (`ClockPage`); removed at the end.
        link: symbolic link to the port.
        ignore_interrupt: whether to ignore SIGINT (Ctrl-C), so that a driver can still command the servos while it
            shuts down. If so, SIGTERM, SIGHUP and the parent's end take effect only once the driver is silent; if not,
            they end the bus at once.
        baudrate: baud rate of the servos [bit/s]; None is the rate in robot.yaml.
        wire_time: whether replies take the time of their bytes on the wire.
        lock_step: whether only sync writes of goal currents advance time, by one control cycle each; otherwise time
            follows a clock.
        faults: injected faults.
        adapter: USB adapter between servos and host.
        body: payload that the arm may take into its hand.
        ready: function that is called just before the port is announced.
        port_file: new file for the port's path, complete as soon as it exists; removed at the end.

    Raises:
        OutputExistsError: `port_file`, `clock` or `link` exists.
        ConfigurationError: baud rate or faults do not fit the servos, see `EmulatedServoBus`; or both `link` and
            `body` are given, which use the same signals.
        OutputWriteError: `port_file` cannot be written.
    """
    if link is not None and body is not None:
        raise ConfigurationError("link and body exclude each other: both use SIGUSR1 and SIGUSR2; give one of them")
    end_with_parent(expected_parent() or os.getppid())
    for number in (signal.SIGTERM, signal.SIGHUP):  # remove files even if a signal arrives before the bus exists
        signal.signal(number, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN if ignore_interrupt else lambda *_: sys.exit(0))
    if port_file is not None:
        refuse_existing(port_file)
    with _held_time(clock) as page:
        timing: dict[str, Any] = {"wire_time": wire_time, "lock_step": lock_step, "clock": page, "adapter": adapter}
        bus = EmulatedServoBus(robot, plant, baudrate=baudrate, link=link, faults=faults, **timing)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: bus.stop_after_driver() if ignore_interrupt else bus.stop())
        if link is not None:
            signal.signal(signal.SIGUSR1, lambda *_: bus.pull())
            signal.signal(signal.SIGUSR2, lambda *_: bus.pull(False))
        if body is not None:
            signal.signal(signal.SIGUSR1, lambda *_: body.take())
            signal.signal(signal.SIGUSR2, lambda *_: body.put_down())
        if not ignore_interrupt:
            signal.signal(signal.SIGINT, lambda *_: bus.stop())
        written: list[Path] = []
        try:
            bus.run(lambda: written.extend(_announce(bus.port, port_file, ready)))
        finally:
            bus.close()
            for file in written:
                file.unlink(missing_ok=True)
            with contextlib.suppress(BrokenPipeError):  # the parent may have ended
                print(json.dumps(_summary(bus, page)), flush=True)


def _announce(port: str, port_file: Path | None, ready: Callable[[], None]) -> list[Path]:
    """Call `ready`, write the port's path into `port_file`, then print it; return the files that were written."""
    ready()
    files = [] if port_file is None else [port_file]
    for file in files:
        write_whole(file, f"{port}\n")
    print(port, flush=True)
    return files


def _held_time(path: Path | None) -> contextlib.AbstractContextManager[ClockPage | None]:
    return contextlib.nullcontext() if path is None else contextlib.closing(ClockPage(path, create=True))


def _summary(bus: EmulatedServoBus, page: ClockPage | None) -> dict[str, object]:
    return bus.chain.summary() | {
        "skipped_time_s": bus.skipped_time_s,
        "held_time_s": 0.0 if page is None else page.paused_s(),
        "dropped_bytes": bus.dropped_bytes,
        "injected": bus.faults.injected,
    }


@contextlib.contextmanager
def traced(plant: ArmPlant, path: Path | None) -> Iterator[Plant]:
    """Yield the simulated arm; if a path is given, write the arm's true motion to this file after the `with` block.

    Raises:
        OutputExistsError: the file exists.
    """
    if path is None:
        yield plant
        return
    refuse_existing(path)
    arm = TracedArm(plant)
    try:
        yield arm
    finally:
        arm.trace().save(path)


def main() -> None:
    """Run the command `dynid simulated-arm` with this process' arguments; launch files start this module."""
    sys.argv[1:1] = ["simulated-arm"]
    runpy.run_module("dynid", run_name="__main__")


if __name__ == "__main__":
    main()
