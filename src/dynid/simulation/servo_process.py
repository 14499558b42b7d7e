"""The emulated servo bus as a process of its own: `python -m dynid.simulation.servo_process --robot crane_x7`."""

import argparse
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from dynid.errors import DynidError
from dynid.hardware.held_clock import ClockPage
from dynid.parent import end_with_parent, expected_parent
from dynid.resources import refuse_existing
from dynid.robot import Robot, load_robot
from dynid.simulation.faults import FaultScript, load_faults
from dynid.simulation.plant import ArmPlant
from dynid.simulation.plant_interface import Plant
from dynid.simulation.servo_bus import EmulatedServoBus
from dynid.simulation.servo_trace import TracedArm


def serve(
    robot: Robot,
    plant: Plant,
    *,
    baudrate: int | None = None,
    wire_time: bool = True,
    lock_step: bool = False,
    clock: Path | None = None,
    link: Path | None = None,
    faults: FaultScript | None = None,
    ignore_interrupt: bool = False,
    stream: TextIO | None = None,
) -> None:
    """Run a bus as this process' only work, until SIGTERM, SIGINT or the parent's end.

    Where there is a link, SIGUSR1 pulls the cable and SIGUSR2 plugs it in again.

    Writes two lines to `stream` (standard output by default): the port's path when it can be opened, and at the end
    a JSON object with what `ServoChain.summary` says, by which a caller proves that currents are zero.

    Args:
        robot: see `EmulatedServoBus`, as for `plant`, `baudrate`, `wire_time`, `lock_step`, `clock`, `link`
            and `faults`.
        plant: the arm.
        baudrate: of the servos [bit/s].
        wire_time: keep the wire's timing.
        lock_step: step time by the goal-current writes.
        clock: new file of a time that is held while the driver is late; removed at the end.
        link: symbolic link to make.
        faults: what goes wrong and when.
        ignore_interrupt: leave SIGINT to the other processes of the terminal, so that a driver can still talk to
            the servos while it shuts down; the bus then ends by SIGTERM or with its parent.
        stream: where the two lines go.
    """
    output = sys.stdout if stream is None else stream
    end_with_parent(expected_parent() or os.getppid())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # leave no files behind, before there is a bus to stop either
    with _held_time(clock) as page:
        bus = EmulatedServoBus(
            robot,
            plant,
            baudrate=baudrate,
            wire_time=wire_time,
            lock_step=lock_step,
            clock=page,
            link=link,
            faults=faults,
        )
        signal.signal(signal.SIGTERM, lambda *_: bus.stop())
        if link is not None:
            signal.signal(signal.SIGUSR1, lambda *_: bus.pull())
            signal.signal(signal.SIGUSR2, lambda *_: bus.pull(False))
        signal.signal(signal.SIGINT, signal.SIG_IGN if ignore_interrupt else lambda *_: bus.stop())
        try:
            print(bus.port, file=output, flush=True)
            bus.run()
        finally:
            bus.close()
            with contextlib.suppress(BrokenPipeError):  # the parent may be gone
                print(json.dumps(_summary(bus, page)), file=output, flush=True)


def _held_time(path: Path | None) -> contextlib.AbstractContextManager[ClockPage | None]:
    return contextlib.nullcontext() if path is None else contextlib.closing(ClockPage(path, create=True))


def _summary(bus: EmulatedServoBus, page: ClockPage | None) -> dict[str, object]:
    return bus.chain.summary() | {
        "skipped_time_s": bus.skipped_time_s,
        "held_time_s": 0.0 if page is None else page.held_s(),
        "dropped_bytes": bus.dropped_bytes,
        "injected": bus.faults.injected,
    }


@contextlib.contextmanager
def traced(plant: ArmPlant, path: Path | None) -> Iterator[Plant]:
    """The arm; with a path, one whose record is written there when the block ends.

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


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve a robot's simulated arm: `python -m dynid.simulation.servo_process --robot crane_x7`."""
    parser = argparse.ArgumentParser(prog="python -m dynid.simulation.servo_process", description=main.__doc__)
    parser.add_argument("--robot", required=True, help="a shipped robot, or a folder with a robot.yaml")
    parser.add_argument("--mount", help="a mount of robot.yaml; the default one without it")
    parser.add_argument("--seed", type=int, default=0, help="of all random nuisances")
    parser.add_argument("--without", action="append", default=[], metavar="NUISANCE", help="a nuisance to switch off")
    parser.add_argument("--link", type=Path, help="symbolic link to the port")
    parser.add_argument("--baudrate", type=int, help="of the servos; the robot's without it")
    parser.add_argument("--no-wire-time", action="store_true", help="reply at once")
    parser.add_argument("--lock-step", action="store_true", help="time moves with the goal-current writes only")
    parser.add_argument("--clock", type=Path, help="new file of a time that is held while the driver is late")
    parser.add_argument("--ignore-interrupt", action="store_true", help="leave SIGINT to the other processes")
    parser.add_argument("--faults", type=Path, help="YAML file of what goes wrong and when")
    parser.add_argument("--trace", type=Path, help="new file for what the arm really did, written at the end (.npz)")
    options = parser.parse_args(arguments)
    try:
        robot = load_robot(options.robot)
        plant = ArmPlant(robot, mount=options.mount, seed=options.seed, switched_off=options.without)
        with traced(plant, options.trace) as arm:
            serve(
                robot,
                arm,
                baudrate=options.baudrate,
                wire_time=not options.no_wire_time,
                lock_step=options.lock_step,
                clock=options.clock,
                link=options.link,
                faults=None if options.faults is None else load_faults(options.faults),
                ignore_interrupt=options.ignore_interrupt,
            )
    except DynidError as error:
        sys.exit(f"servo bus: {error}")


if __name__ == "__main__":
    main()
