"""`./run benchmark goals`: goals of other software, and whether accepted ones keep every limit."""

from typing import Annotated

import typer
from rich.table import Table

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import print_json, progress_bar, stdout


def goals(
    robot: RobotOption = DEFAULT_ROBOT,
    cases: Annotated[int, typer.Option(min=1, help="Number of goals that are drawn.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the first goal; each further one adds one.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Draw motions with close points, steps and unusual derivatives; sample accepted ones every 20 us.

    Exit code 1 if an accepted motion exceeds a limit of acceleration or torque.
    """
    from benchmarks.hostile.goals import figures, goal_outcomes
    from dynid.robot import load_robot

    found = []
    with progress_bar("goals", cases) as advance:
        for one in goal_outcomes(load_robot(robot), cases, seed):
            found.append(one)
            advance(f"seed {one.seed}")
    table = figures(found)
    if as_json:
        print_json(table)
    else:
        shown = Table("kind", "goals", "accepted", "most of acceleration", "most of torque", "violations")
        for kind, row in table.items():
            shown.add_row(kind, *(str(value) for value in row.values()))
        stdout().print(shown)
    raise typer.Exit(1 if any(row["violations"] for row in table.values()) else 0)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(goals)
