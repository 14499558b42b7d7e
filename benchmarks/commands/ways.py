"""`./run benchmark ways`: which way from recordings to a model comes nearest to the truth, and at which cost?"""

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from benchmarks.commands.figures import report_figures
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import stages

COLUMNS = ("parameters", "gravity_nm", "held_out", "closed_loop_deg", "processor_s", "arms")


def ways(
    robot: RobotOption = DEFAULT_ROBOT,
    arms: Annotated[int, typer.Option(min=1, help="Drawn arms for each kind of friction.")] = 10,
    friction: Annotated[
        list[str] | None, typer.Option(help="Friction of the arms' gears: viscous, or a model such as M6; repeatable.")
    ] = None,
    motions: Annotated[
        list[str] | None, typer.Option(help="Motions to identify from; ways that take one bag take the first.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Compare these ways only; repeatable.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare identification, refinements and campaign on the same bags of drawn arms: accuracy and processor time."""
    from benchmarks.studies.ways import MOTIONS, WAYS, benchmark_ways
    from dynid.errors import UnknownNameError
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    for name in only or ():
        if name not in WAYS:
            raise UnknownNameError("way", name, tuple(WAYS))
    kinds, found = friction or ["M6", "viscous"], {}
    with stages("benchmark", len(kinds) * arms * len(only or WAYS)) as begin, tempfile.TemporaryDirectory() as work:
        for kind in kinds:
            found[kind] = benchmark_ways(
                loaded, kind, arms, Path(work), begin, motions=motions or MOTIONS, ways=only or tuple(WAYS)
            )
    tables = []
    for kind, rows in found.items():
        table = Table("way", *COLUMNS, title=f"./run benchmark ways, friction {kind}", title_justify="left")
        for name, figures in rows.items():
            table.add_row(name, *(f"{figures[key]:.3g}" if key in figures else "" for key in COLUMNS))
        tables.append(table)
    report_figures(found, tables, (), as_json)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(ways)
