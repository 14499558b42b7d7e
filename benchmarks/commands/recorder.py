"""`./run benchmark recorder`: completeness of recordings under load, and after the recorder was killed."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import print_json, stderr, stdout

SECONDS, KILLS = 600.0, 50
QUICK_SECONDS, QUICK_KILLS = 20.0, 5
LARGEST_LOSS_S = 1.0


def recorder(
    robot: RobotOption = DEFAULT_ROBOT,
    seconds: Annotated[
        float, typer.Option(min=2.0, help="Duration [s] of states, commands and references at 1 kHz each.")
    ] = SECONDS,
    kills: Annotated[int, typer.Option(min=0, help="Number of recorders to kill while they record.")] = KILLS,
    seed: Annotated[int, typer.Option(help="Seed of the kill times.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Record for 20 s and kill 5 recorders.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Record the load of an experiment and count the messages in the bag; then kill recorders at random moments.

    Exit code 1 if a message was lost, a bag does not open, or a kill took more than the last second.
    """
    from dynid.errors import DynidError
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    try:
        from benchmarks.chain.recorder_benchmark import measure, refuse_other_systems
    except ImportError as error:
        raise DynidError(
            f"this benchmark needs ROS 2 for Python ({error.name} is missing): pip install 'dynid[ros]'"
        ) from error
    refuse_other_systems()
    seconds, kills = (QUICK_SECONDS, QUICK_KILLS) if quick else (seconds, kills)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr(), transient=True) as bar:
        task = bar.add_task("recording", total=seconds)
        found = measure(loaded, seconds, kills, seed, lambda done: bar.update(task, completed=done))
    if as_json:
        print_json(asdict(found))
    else:
        for name, value in asdict(found).items():
            stdout().print(f"{name:24} {value}", highlight=False)
    whole = found.messages_recorded == found.messages_expected
    survived = found.bags_opened == found.kills and found.worst_seconds_lost <= LARGEST_LOSS_S
    raise typer.Exit(0 if whole and survived else 1)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(recorder)
