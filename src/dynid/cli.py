"""The `dynid` command. Every subcommand does one thing and says in one sentence what went wrong."""

import json
import os
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from dynid.commands import register_all
from dynid.commands.terminal import flags_first, set_level, stages, stderr, stdout
from dynid.errors import ConfigurationError, DynidError
from dynid.parallel import THREAD_VARIABLES

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__, rich_markup_mode="markdown")

RobotOption = Annotated[str, typer.Option("--robot", help="Robot name, or a folder that holds a robot.yaml.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
WithoutOption = Annotated[
    list[str] | None, typer.Option("--without", help="A nuisance of the simulated arm to switch off; repeatable.")
]
INTERRUPTED = 130
NO_ARGUMENTS = ["--help"]  # what a bare `dynid` does
# Of the click that this version of typer uses: the package, or a copy of its own.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
USAGE = 2


@app.callback()
def options(
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print errors and the JSON asked for only; the exit code tells.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Tell every stage with its time, on standard error.")
    ] = False,
) -> None:
    """The `dynid` command. Every subcommand does one thing and says in one sentence what went wrong."""
    if quiet and verbose:
        raise typer.BadParameter("--quiet and --verbose exclude each other")
    set_level("quiet" if quiet else "verbose" if verbose else "normal")


@app.command()
def demo(
    robot: RobotOption = "crane_x7",
    out: Annotated[Path | None, typer.Option(help="New folder for bags, model and logs.")] = None,
    real_arm: Annotated[
        str | None, typer.Option("--real-arm", metavar="PORT", help="Serial port of a REAL arm. It will move.")
    ] = None,
    mount: Annotated[str | None, typer.Option(help="How the arm is mounted; see robot.yaml.")] = None,
    identification: Annotated[str, typer.Option(help="Trajectory to identify from.")] = "demo_identification",
    validation: Annotated[str, typer.Option(help="Trajectory to validate on.")] = "demo_validation",
    without: WithoutOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulated arm's noise.")] = 0,
    gain: Annotated[
        bool, typer.Option(help="Repeat the validation motion with computed torque from the identified model.")
    ] = True,
    wall_clock: Annotated[
        bool, typer.Option("--wall-clock", help="The simulated arm moves on while this machine is late, as a real one.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """The whole chain: drive the arm, record, identify, validate, publish, check, and control with the model."""
    from dynid.reporting.tables import print_verdict
    from dynid.robot import load_robot
    from dynid.simulation.nuisances import magnitudes
    from dynid.trajectory.families import load_excitation

    loaded = load_robot(robot)
    for name in (identification, validation):
        load_excitation(loaded).trajectory(name)
    if identification == validation:
        raise ConfigurationError(
            f"'{identification}' cannot validate a model that was identified from it; name another"
        )
    loaded.gravity(mount)
    magnitudes(loaded, without or ())
    try:
        from dynid.nodes.chain import ChainOptions
        from dynid.nodes.demo import DemoOptions, run_demo
    except ImportError as error:
        raise DynidError(
            f"the demo needs ROS 2 for Python ({error.name} is missing): pip install 'dynid[ros]', or source a ROS 2 "
            "installation for this Python"
        ) from error
    output = (out or Path("runs") / f"demo-{datetime.now():%Y%m%d-%H%M%S}").absolute()
    chain = ChainOptions(robot, real_arm, mount, tuple(without or ()), seed, held_time=not wall_clock)
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
    """Say where everything lies."""
    report = "report.html" if (output / "report.html").is_file() else "model/report.html"
    kinds = {
        report: "the report: open it in a browser",
        "bags": "recorded motions (rosbag2)",
        "model/model.yaml": "the model, its verdict and where it came from",
        "model/model.urdf": "the model as a URDF",
        "model/rotor_inertias.yaml": "what a URDF cannot hold",
        "logs": "what each process said",
    }
    for name, meaning in kinds.items():
        stdout().print(f"  {output / name}  [dim]{meaning}[/dim]", soft_wrap=True, highlight=False)


@app.command("simulated-arm")
def simulated_arm(
    robot: RobotOption = "crane_x7",
    mount: Annotated[str | None, typer.Option(help="How the arm is mounted; see robot.yaml.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    link: Annotated[Path | None, typer.Option(help="Symbolic link to make to the port.")] = None,
    baudrate: Annotated[int | None, typer.Option(help="Of the servos [bit/s]; else robot.yaml's simulation.")] = None,
    wire_time: Annotated[
        bool, typer.Option("--wire-time/--no-wire-time", help="Answer no sooner than a line of this rate would.")
    ] = True,
    clock: Annotated[
        Path | None, typer.Option(help="New file of a time that is held while the driver is late; see clock_file.")
    ] = None,
    without: WithoutOption = None,
    faults: Annotated[Path | None, typer.Option(help="YAML file of what goes wrong and when.")] = None,
    trace: Annotated[Path | None, typer.Option(help="New file for what the arm really did (.npz).")] = None,
) -> None:
    """A simulated arm behind a serial port: prints the port, then serves until SIGINT or SIGTERM."""
    from dynid.hardware.realtime import prefer_latency
    from dynid.robot import load_robot
    from dynid.simulation.faults import load_faults
    from dynid.simulation.plant import ArmPlant
    from dynid.simulation.servo_process import serve, traced

    prefer_latency()
    loaded = load_robot(robot)
    plant = ArmPlant(loaded, mount=mount, seed=seed, switched_off=without or ())
    script = None if faults is None else load_faults(faults)
    with traced(plant, trace) as arm:
        rate = baudrate or loaded.file.simulation.baudrate
        serve(loaded, arm, baudrate=rate, wire_time=wire_time, clock=clock, link=link, faults=script)


@app.command("bag")
def bag(
    action: Annotated[str, typer.Argument(help="info or repair")],
    path: Annotated[Path, typer.Argument(help="The bag.")],
    as_json: JsonOption = False,
) -> None:
    """Summarise a bag, or write the metadata that a killed recorder left out."""
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
    console = stdout()
    console.print(f"{info.path}  {info.storage}, {info.duration_s:.1f} s", soft_wrap=True)
    for topic in info.topics:
        rate = f"{topic.rate_hz:.1f} Hz" if topic.rate_hz else ""
        missed = f", {topic.drops.missed} of {topic.drops.expected} cycles missing" if topic.drops else ""
        console.print(
            f"  {topic.name}  {topic.count} x {topic.message_type}  {rate}{missed}", soft_wrap=True, highlight=False
        )
    for finding in info.findings:
        console.print(f"  [yellow]{finding}[/yellow]", soft_wrap=True)


# Matrices here are small: threads of a linear-algebra library only wait for each other, on a busy host for seconds. The
# library reads this when it is loaded, which is when the commands are.
for _variable in THREAD_VARIABLES:
    os.environ.setdefault(_variable, "1")
register_all(app)


def main() -> None:
    """Run the command; errors that a user can mend are one sentence and exit code 1, wrong arguments exit code 2."""
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
    """What is wrong with the arguments, and where to read on."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "dynid"
    message = " ".join(error.format_message().split())  # type: ignore[attr-defined]
    return f"{message} (see '{command} --help')"


if __name__ == "__main__":
    main()
