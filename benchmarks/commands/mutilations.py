"""`./run benchmark mutilations`: whether `validate` refuses a model with a wrong part."""

from typing import Annotated

import typer

from benchmarks.commands.figures import figure_table, report_figures
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import stages


def mutilations(
    robot: RobotOption = DEFAULT_ROBOT,
    cases: Annotated[int, typer.Option(min=1, help="Mutilated models.")] = 500,
    arms: Annotated[int, typer.Option(min=1, help="Simulated arms that they are of, each drawn anew.")] = 25,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first arm.")] = 0,
    processes: Annotated[int, typer.Option(min=0, help="Processes; 0 is one per core.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Change parts of identified models, and count how often `validate` refuses them and the original models.

    Exit code 1 if fewer than 99 % of those are refused that change a joint's dynamic torque by more than 20 %, or more
    than 1 % of the original models.
    """
    from benchmarks.studies.mutilations import benchmark_mutilations
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    with stages("benchmark", arms) as begin:
        found = benchmark_mutilations(loaded, cases, arms, first_seed=seed, processes=processes or None, progress=begin)
    result = found.as_dict()
    table = figure_table("mutilations", {key: value for key, value in result.items() if not isinstance(value, list)})
    for name in (*result["missed"], *result["alarms"]):
        table.add_row(name, "")
    report_figures(result, [table], found.missed(), as_json)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(mutilations)
