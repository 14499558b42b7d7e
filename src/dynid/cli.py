"""From motor current to a dynamic model of a robot arm. An error is one sentence and a non-zero exit code."""

import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from dynid import __version__
from dynid.commands import options as opt
from dynid.commands import register_all
from dynid.commands.terminal import flags_first, print_json, say, set_level, stages
from dynid.errors import DynidError

app = typer.Typer(pretty_exceptions_enable=False, help=__doc__, rich_markup_mode="markdown")

INTERRUPTED = 130
NO_ARGUMENTS = ["--help"]  # what a bare `dynid` does
# Of the click that this version of typer uses: the package, or a copy of its own.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
USAGE = 2


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors and requested JSON.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Report every stage with its time on standard error.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    """From motor current to a dynamic model of a robot arm. An error is one sentence and a non-zero exit code."""
    if version:
        print(f"dynid {__version__}")
        raise typer.Exit()
    if quiet and verbose:
        raise typer.BadParameter("--quiet and --verbose exclude each other")
    if context.invoked_subcommand is None:
        raise typer.BadParameter("name a command", context)
    set_level("quiet" if quiet else "verbose" if verbose else "normal")


@app.command("simulated-arm")
def simulated_arm(
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    mount: opt.MountOption = None,
    seed: opt.SeedOption = 0,
    link: Annotated[Path | None, typer.Option(help="New symbolic link to the port.")] = None,
    baudrate: Annotated[int | None, typer.Option(help="Baud rate of the servos [bit/s]; default: the robot's.")] = None,
    wire_time: Annotated[
        bool, typer.Option("--wire-time/--no-wire-time", help="Include the transmission time of a line of this rate.")
    ] = True,
    clock: Annotated[
        Path | None,
        typer.Option(help="New file for the paused clock, which stops while the driver is late; see clock_file."),
    ] = None,
    adapter: opt.AdapterOption = "uart",
    latency_timer: Annotated[int, typer.Option(min=1, max=255, help="Latency timer of the u2d2 [ms].")] = 1,
    without: opt.WithoutOption = None,
    friction: opt.FrictionOption = None,
    motor: opt.MotorOption = None,
    push: Annotated[
        list[str] | None,
        typer.Option(metavar="JOINT:TORQUE_NM:PERIOD_S", help="Push a joint to and fro, as a hand does; repeatable."),
    ] = None,
    lead: Annotated[
        str | None,
        typer.Option(metavar="TRAJECTORY", help="Lead the arm by hand along a trajectory: a name, or a YAML file."),
    ] = None,
    held_kg: Annotated[
        float | None,
        typer.Option(
            min=0.001, help="A body for the hand [kg]: SIGUSR1 takes it, SIGUSR2 puts it down; not with --link."
        ),
    ] = None,
    faults: Annotated[Path | None, typer.Option(help="YAML file with faults to inject.")] = None,
    trace: Annotated[Path | None, typer.Option(help="New file for the true motion of the arm (.npz).")] = None,
    lock_step: Annotated[bool, typer.Option("--lock-step", help="Advance time only with goal-current writes.")] = False,
    ignore_interrupt: Annotated[bool, typer.Option("--ignore-interrupt", help="Ignore SIGINT.")] = False,
) -> None:
    """Serve a simulated arm behind a serial port: print the port, then run until SIGINT or SIGTERM."""
    from dynid.hardware.loop.realtime import prefer_latency
    from dynid.robot import load_robot
    from dynid.simulation.bus.adapter import adapter_of
    from dynid.simulation.bus.process import serve, traced
    from dynid.simulation.faults.script import load_faults
    from dynid.simulation.plant.arm import ArmPlant
    from dynid.simulation.plant.hand import Lead, Push
    from dynid.simulation.plant.held import HeldBody
    from dynid.simulation.plant.motor import Motors
    from dynid.trajectory.families import load_excitation
    from dynid.trajectory.files import named_motion

    if held_kg is not None and link is not None:
        raise typer.BadParameter("--held-kg and --link exclude each other: both use SIGUSR1 and SIGUSR2")
    prefer_latency()
    loaded = load_robot(robot)
    motors = Motors(loaded, motor, seed) if motor else None
    hand = [Push.parse(text, loaded) for text in push or ()]
    plant = ArmPlant(
        loaded,
        mount=mount,
        seed=seed,
        switched_off=without or (),
        friction=friction,
        motors=motors,
        hand=hand,
        lead=None if lead is None else Lead(named_motion(load_excitation(loaded), lead)),
    )
    with traced(plant, trace) as arm:
        serve(
            loaded,
            arm,
            baudrate=baudrate,
            wire_time=wire_time,
            lock_step=lock_step,
            clock=clock,
            link=link,
            faults=None if faults is None else load_faults(faults),
            ignore_interrupt=ignore_interrupt,
            adapter=adapter_of(adapter, latency_timer),
            body=None if held_kg is None else HeldBody(plant, held_kg),
        )


@app.command("bag")
def bag(
    action: Annotated[str, typer.Argument(help="info or repair")],
    path: Annotated[Path, typer.Argument(help="The bag.")],
    as_json: opt.JsonOption = False,
) -> None:
    """Summarise a bag, or restore the metadata of a bag whose recorder was killed."""
    from dynid.errors import UnknownNameError
    from dynid.recording.bag_info import bag_info
    from dynid.recording.bag_repair import repair_bag

    if action not in ("info", "repair"):
        raise UnknownNameError("action", action, ("info", "repair"))
    with stages("bag", 2) as begin:
        if action == "repair":
            begin(f"repairing {path.name}")
            repair_bag(path)
        begin(f"reading {path.name}")
        info = bag_info(path)
    if as_json:
        print_json(info.as_dict())
        return
    say(f"{info.path}  {info.storage}, {info.duration_s:.1f} s")
    for topic in info.topics:
        rate = f"{topic.rate_hz:.1f} Hz" if topic.rate_hz else ""
        missed = f", {topic.drops.missed} of {topic.drops.expected} cycles missing" if topic.drops else ""
        say(f"  {topic.name}  {topic.count} x {topic.message_type}  {rate}{missed}")
    say(*(f"  [yellow]{finding}[/yellow]" for finding in info.findings))


register_all(app)


def main() -> None:
    """Run the command; errors that a user can fix are one sentence and exit code 1, wrong arguments exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character shows '?' in its place
            stream.reconfigure(errors="replace")
    try:
        code = app(args=flags_first(sys.argv[1:]) or NO_ARGUMENTS, standalone_mode=False)
    except DynidError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except _UsageError as error:
        print(f"error: {_sentence(error)}", file=sys.stderr)
        sys.exit(USAGE)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        print("interrupted", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)  # typer returns the code of an Exit and does not raise it


def _sentence(error: Exception) -> str:
    """What is wrong with the arguments, and which help to read."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "dynid"
    message = " ".join(error.format_message().split())  # type: ignore[attr-defined]
    return f"{message} (see '{command} --help')"


if __name__ == "__main__":
    main()
