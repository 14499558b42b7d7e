"""`./run benchmark coverage`: do stated intervals hold the truth as often as they say?"""

from typing import Annotated

import typer

from benchmarks.commands.figures import figure_table, report_figures
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import stages


def coverage(
    robot: RobotOption = DEFAULT_ROBOT,
    arms: Annotated[int, typer.Option(min=1, help="Simulated arms, each drawn anew.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first arm.")] = 0,
    gears: Annotated[str, typer.Option(help="Friction of the gears: a model of friction.yaml, or viscous.")] = "M6",
    processes: Annotated[int, typer.Option(min=0, help="Processes; 0 is one per core.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Identify simulated arms that are drawn anew, and count how often 90 % intervals hold the truth.

    Exits 1 unless they hold 85 to 95 % of the true base parameters and of the held-out torques.
    """
    from benchmarks.studies.coverage import benchmark_coverage
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    with stages("benchmark", arms) as begin:
        found = benchmark_coverage(
            loaded, arms, first_seed=seed, gears=gears, processes=processes or None, progress=begin
        )
    result = found.as_dict()
    table = figure_table("coverage", result)
    for name, share in result["by_parameter"].items():
        table.add_row(name, f"{share:.3f}")
    report_figures(result, [table], found.missed(), as_json)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(coverage)
