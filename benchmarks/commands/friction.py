"""`./run benchmark friction`: correctness of the model for arms with measured gear friction."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from benchmarks.commands.figures import report_figures
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import stages


def friction(
    robot: RobotOption = DEFAULT_ROBOT,
    plants: Annotated[int, typer.Option(min=0, help="Plants drawn around the published figures.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Identify the simulated arm with published gear friction, and random arms near it, with default settings.

    Exit code 1 if a limit is missed: accepted, gravity within 5 %, rotor inertias within 10 %, held-out error of moving
    joints at most half of that of Coulomb and viscous friction; for the published values, and for 18 of 20 random arms.
    """
    from benchmarks.studies.gear_friction import benchmark_friction, missed
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    with stages("benchmark", plants + 1) as begin, tempfile.TemporaryDirectory() as work:
        rows = benchmark_friction(loaded, Path(work), plants, begin)
    table = Table(*rows[0].as_dict(), title="./run benchmark friction", title_justify="left")
    for row in rows:
        shown = row.as_dict().values()
        table.add_row(*(f"{x:.3g}" if isinstance(x, float) else str(x) for x in shown))
    report_figures([row.as_dict() for row in rows], [table], missed(rows), as_json)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(friction)
