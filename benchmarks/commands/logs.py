"""`dynid benchmark logs`: what slow logs of position control tell of an arm."""

from typing import Annotated

import typer
from rich.table import Table

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import print_json, stages, stderr, stdout


def logs(
    robot: RobotOption = DEFAULT_ROBOT,
    minutes: Annotated[float, typer.Option(min=2.0, help="Length of the motions, in two sessions.")] = 30.0,
    seed: Annotated[int, typer.Option(min=0, help="Of arm, motions, delays and noise.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Identify a simulated arm in position control from logs at 50 and 15 Hz, with delays that nobody tells.

    Exits 1 where a figure misses its bar.
    """
    from benchmarks.logs.benchmark import BARS, benchmark_logs
    from dynid.robot import load_robot

    with stages("benchmark", 2) as begin:
        found = benchmark_logs(load_robot(robot), minutes, seed, progress=begin)
    if as_json:
        print_json(found)
    else:
        table = Table("figure", "value", "bar", title="dynid benchmark logs", title_justify="left")
        for key, bar in BARS.items():
            table.add_row(key, f"{found[key]:.4g}", f"<= {bar:g}")
        stdout().print(table)
    missed = [key for key, bar in BARS.items() if not found[key] <= bar]
    for key in missed:
        stderr().print(f"{key} is {found[key]:.4g}, expected at most {BARS[key]:g}")
    raise typer.Exit(1 if missed else 0)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(logs)
