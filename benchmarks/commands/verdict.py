"""`./run benchmark verdict`: faults of recordings that the verdict must detect."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import print_json, stages, stderr, stdout


def verdict(
    robot: RobotOption = DEFAULT_ROBOT,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of noise; every fault is made with each.")] = 3,
    plants: Annotated[int, typer.Option(min=0, help="Plants with drawn friction, recorded clean.")] = 6,
    tx40: Annotated[
        Path | None, typer.Option(help="Folder of the public run of a TX-40; default: DYNID_TX40, else without.")
    ] = None,
    processes: Annotated[int, typer.Option(min=0, help="Processes; 0 is one per core.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Apply every single fault to a recording; the result must be refused, and data without a fault accepted.

    Exit code 1 if fewer than 98 % of the faults are caught, or more than 2 % of faultless recordings are refused.
    """
    from benchmarks.studies.verdict_faults import benchmark_verdict, tx40_folder
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    with stages("benchmark", 1) as begin, tempfile.TemporaryDirectory() as work:
        folder = tx40 or tx40_folder()
        outcome = benchmark_verdict(loaded, Path(work), range(seeds), plants, folder, begin, processes or None)
    figures = outcome.as_dict()
    if as_json:
        print_json(figures)
    else:
        table = Table("figure", "value", title="./run benchmark verdict", title_justify="left")
        for key, value in figures.items():
            table.add_row(key, "\n".join(value) if isinstance(value, list) else f"{value:.4g}")
        stdout().print(table)
    if not outcome.met:
        stderr().print(f"missed: {figures['missed']}; refused though clean: {figures['alarms']}")
        raise typer.Exit(1)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(verdict)
