"""`./run benchmark clie`: the identification pipeline's speed, and its refinement against plain baselines."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import print_json, stages, stdout


def clie(
    robot: RobotOption = DEFAULT_ROBOT,
    profile: Annotated[str, typer.Option(help="Excitation profile; the paper's trajectories need 'paper'.")] = "paper",
    mount: Annotated[str, typer.Option(help="How the arm is mounted; the paper's arm hangs.")] = "hanging",
    quick: Annotated[
        bool, typer.Option("--quick", help="Extrapolate the run time of the baselines from complete simulations.")
    ] = False,
    work: Annotated[
        Path | None, typer.Option(help="New folder for bags and results; default: a temporary folder.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the speed of simulation, campaign, refinement, audit and compilation; --quick saves hours of baseline.

    Run it on an idle machine to get meaningful figures.
    """
    from benchmarks.speed.pipeline import Plan, benchmark_clie

    with stages("benchmark", 14) as begin:
        figures = benchmark_clie(robot, quick=quick, work=work, progress=begin, plan=Plan(profile=profile, mount=mount))
    if as_json:
        print_json(figures)
        return
    stdout().print(_table(figures))


def _table(figures: dict[str, Any]) -> Table:
    table = Table("figure", "value", title="./run benchmark clie", title_justify="left")
    for name, value in figures.items():
        table.add_row(name, f"{value:.6g}" if isinstance(value, float) else str(value))
    return table


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(clie)
