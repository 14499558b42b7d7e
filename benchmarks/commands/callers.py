"""`./run benchmark callers`: processor time of an identification from Python and by the command."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import print_json, say, stages


def callers(
    robot: RobotOption = DEFAULT_ROBOT,
    pairs: Annotated[int, typer.Option(min=1, help="How often each, in turns.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Compare the processor time of dynid.identify in a Python program with that of the command, on the demo's motions.

    Exit code 1 if the program takes more than 1.1 times as long.
    """
    from benchmarks.speed.callers import MOST_RATIO, measure
    from dynid.demo.demo import MOTIONS
    from dynid.simulation.lockstep.bag_jobs import BagJob, make_bag

    with tempfile.TemporaryDirectory(prefix="dynid-callers-") as name, stages("benchmark", pairs + 2) as begin:
        work = Path(name)
        begin("simulating the demo's motions")
        jobs = [BagJob(robot, motion, "limited", None, seed, (), work / motion) for seed, motion in enumerate(MOTIONS)]
        for job in jobs:
            make_bag(job)
        found = measure(robot, (jobs[0].folder, jobs[1].folder), work, pairs, begin)
    if as_json:
        print_json(found)
    else:
        say(f"{found['command_median_seconds']:.1f} s by the command; {found['ratio']:.2f} times that from Python")
    raise typer.Exit(0 if found["ratio"] <= MOST_RATIO else 1)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(callers)
