"""`./run benchmark cost`: processor time per control cycle, by process and part, with the minimum of this machine."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import print_json, stderr, stdout


def cost(
    robot: RobotOption = DEFAULT_ROBOT,
    seconds: Annotated[float, typer.Option(min=3.0, help="Measured time of each run [s].")] = 15.0,
    rate: Annotated[int, typer.Option(help="Cycle rate: 1000, 500, 333 or 250 Hz.")] = 1000,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each checkout, in turn; medians are reported.")] = 3,
    beside: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Another checkout to measure in turn with this.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the processor time that a control cycle takes of driver, executor, recorder and simulated arm.

    The chain executes a motion and records it, without real-time settings. A last run counts the parts of each process,
    which makes cycles slower. The floor is the time of this machine for the same bytes and messages without other work.
    """
    from dynid.errors import DynidError

    try:
        from benchmarks.chain.cost import measure
    except ImportError as error:
        raise DynidError(
            f"this benchmark needs ROS 2 for Python ({error.name} is missing): pip install 'dynid[ros]'"
        ) from error
    figures = measure(robot, seconds, rate, runs, beside, lambda text: stderr().print(text, highlight=False))
    if as_json:
        print_json(asdict(figures))
        return
    table = Table("process", *figures.processes, "ratio", "floor", title="us per cycle", title_justify="left")
    floor = {name: f"{us:.0f}" for name, us in figures.floor.items()}
    floor["driver"] = f"{floor['driver']} + {floor['bus']}"
    for name in next(iter(figures.processes.values())):
        ratio = f"{figures.ratio[name]:.2f}" if figures.ratio else ""
        table.add_row(name, *(f"{of[name]:.0f}" for of in figures.processes.values()), ratio, floor.get(name, ""))
    stdout().print(table)
    parts = Table("process", "part", "us per cycle", title="parts, counted", title_justify="left")
    for name, times in figures.parts.items():
        for part, us in times.items():
            parts.add_row(name, part, f"{us:.0f}")
    stdout().print(parts)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(cost)
