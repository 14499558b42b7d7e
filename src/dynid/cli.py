"""From motor current to a dynamic model of a robot arm. An error is one sentence and a non-zero exit code."""

import json
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from dynid.commands import options as opt
from dynid.commands import register_all
from dynid.commands.terminal import flags_first, say, set_level, stages, stderr, stdout
from dynid.errors import ConfigurationError, DynidError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__, rich_markup_mode="markdown")

INTERRUPTED = 130
NO_ARGUMENTS = ["--help"]  # what a bare `dynid` does
# Of the click that this version of typer uses: the package, or a copy of its own.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
USAGE = 2


@app.callback()
def options(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors and requested JSON.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Report every stage with its time on standard error.")
    ] = False,
) -> None:
    """From motor current to a dynamic model of a robot arm. An error is one sentence and a non-zero exit code."""
    if quiet and verbose:
        raise typer.BadParameter("--quiet and --verbose exclude each other")
    set_level("quiet" if quiet else "verbose" if verbose else "normal")


@app.command()
def demo(
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    out: Annotated[Path | None, typer.Option(help="New folder for bags, model and logs.")] = None,
    real_arm: opt.RealArmOption = None,
    mount: opt.MountOption = None,
    identification: Annotated[str, typer.Option(help="Trajectory to identify from.")] = "demo_identification",
    validation: Annotated[str, typer.Option(help="Trajectory to validate on.")] = "demo_validation",
    without: opt.WithoutOption = None,
    friction: opt.FrictionOption = None,
    seed: opt.SeedOption = 0,
    gain: Annotated[
        bool, typer.Option(help="Repeat the validation motion with computed torque and compare the tracking errors.")
    ] = True,
    wall_clock: Annotated[
        bool, typer.Option("--wall-clock", help="Do not pause the simulated arm's clock while this machine is late.")
    ] = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Run the whole chain: drive the arm, record, identify, validate, publish, check, and control with the model."""
    from dynid.reporting.tables import print_verdict
    from dynid.trajectory.families import load_excitation

    loaded = opt.load_arm(robot, mount, without, friction)
    for name in (identification, validation):
        load_excitation(loaded).trajectory(name)
    if identification == validation:
        raise ConfigurationError(
            f"'{identification}' cannot validate a model that was identified from it; name another"
        )
    with opt.needs_ros("the demo"):
        from dynid.nodes.chain import ChainOptions
        from dynid.nodes.demo import DemoOptions, run_demo
    output = (out or Path("runs") / f"demo-{datetime.now():%Y%m%d-%H%M%S}").absolute()
    chain = ChainOptions(
        robot, real_arm, mount, tuple(without or ()), seed, paused_clock=not wall_clock, friction=friction
    )
    began = time.monotonic()
    console = stderr() if as_json else stdout()
    verdict = run_demo(loaded, DemoOptions(chain, output, identification, validation, gain=gain), console)
    if as_json:
        checks = [check.model_dump(mode="json") | {"passed": check.passed} for check in verdict.checks]
        print(json.dumps({"accepted": verdict.accepted, "checks": checks, "output": str(output)}))
        raise typer.Exit(0 if verdict.accepted else 1)
    print_verdict(console, verdict, f"{loaded.file.title}: from motor current to a model")
    _list_results(output)
    outcome = "accepted: every check passed" if verdict.accepted else "NOT accepted"
    console.print(f"{outcome}; {time.monotonic() - began:.0f} s")
    raise typer.Exit(0 if verdict.accepted else 1)


def _list_results(output: Path) -> None:
    """List the files of the result."""
    report = "report.html" if (output / "report.html").is_file() else "model/report.html"
    kinds = {
        report: "the report: open it in a browser",
        "bags": "recorded motions (rosbag2)",
        "model/model.yaml": "the model, its verdict and provenance",
        "model/model.urdf": "the model as a URDF",
        "model/rotor_inertias.yaml": "rotor inertias, which a URDF cannot hold",
        "logs": "the log of each process",
    }
    say(*(f"  {output / name}  [dim]{meaning}[/dim]" for name, meaning in kinds.items()))


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
    without: opt.WithoutOption = None,
    friction: opt.FrictionOption = None,
    faults: Annotated[Path | None, typer.Option(help="YAML file with faults to inject.")] = None,
    trace: Annotated[Path | None, typer.Option(help="New file for the true motion of the arm (.npz).")] = None,
    lock_step: Annotated[bool, typer.Option("--lock-step", help="Advance time only with goal-current writes.")] = False,
    ignore_interrupt: Annotated[bool, typer.Option("--ignore-interrupt", help="Ignore SIGINT.")] = False,
) -> None:
    """Serve a simulated arm behind a serial port: print the port, then run until SIGINT or SIGTERM."""
    from dynid.hardware.loop.realtime import prefer_latency
    from dynid.robot import load_robot
    from dynid.simulation.bus.process import serve, traced
    from dynid.simulation.faults.script import load_faults
    from dynid.simulation.plant.arm import ArmPlant

    prefer_latency()
    loaded = load_robot(robot)
    plant = ArmPlant(loaded, mount=mount, seed=seed, switched_off=without or (), friction=friction)
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
        print(json.dumps(info.as_dict()))
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
