"""`./run benchmark logs`: identification from slow logs of position control."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from benchmarks.commands.figures import figure_table, report_figures
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import print_json, stages, stdout


def logs(
    robot: RobotOption = DEFAULT_ROBOT,
    minutes: Annotated[float, typer.Option(min=2.0, help="Length of the motions, in two sessions.")] = 30.0,
    seed: Annotated[int, typer.Option(min=0, help="Of arm, motions, delays and noise.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Identify a simulated arm in position control from logs at 50 and 15 Hz, with unknown delays.

    Exit code 1 if a figure misses its limit.
    """
    from benchmarks.logs.benchmark import BARS, benchmark_logs
    from dynid.robot import load_robot

    with stages("benchmark", 2) as begin:
        found = benchmark_logs(load_robot(robot), minutes, seed, progress=begin)
    table = Table("figure", "value", "bar", title="./run benchmark logs", title_justify="left")
    for key, bar in BARS.items():
        table.add_row(key, f"{found[key]:.4g}", f"<= {bar:g}")
    missed = (
        f"{key} is {found[key]:.4g}, expected at most {BARS[key]:g}" for key in BARS if not found[key] <= BARS[key]
    )
    report_figures(found, [table], missed, as_json)


def rates(
    recording: Annotated[Path, typer.Argument(help="A fast recording: a CSV file.")],
    mapping: Annotated[Path, typer.Option(help="What its columns are.")],
    robot: RobotOption = DEFAULT_ROBOT,
    hold_out: Annotated[
        float, typer.Option(min=0.05, max=0.9, help="Share of the time, at its end, that judges.")
    ] = 0.3,
    as_json: JsonOption = False,
) -> None:
    """Reduce a recording to 50, 25 and 12.5 Hz, identify, and judge by held-out data at the recorded rate."""
    from benchmarks.logs.rates import RATES_HZ
    from benchmarks.logs.rates import rates as rates_of
    from dynid.identification.data.recordings import load_recording
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    with stages("benchmark", 1 + len(RATES_HZ)) as begin:
        found = rates_of(loaded, load_recording(recording, loaded, mapping), 1.0 - hold_out, progress=begin)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    columns = ("rows per second", "rows", "dynid identify", "before projection", "filtered rows", "central differences")
    table = Table(*columns, title="held-out relative torque error", title_justify="left")
    for one in found:
        errors = (one.consistent, one.estimate, one.filtered, one.differences)
        told = ("refused" if error is None else f"{error:.3f}" for error in errors)
        table.add_row(f"{one.hz:g}", one.rows, *told)
    stdout().print(table)


def episodes(
    robot: RobotOption = DEFAULT_ROBOT,
    count: Annotated[int, typer.Option("--episodes", min=10, help="Number of episodes.")] = 1000,
    seconds: Annotated[float, typer.Option(min=5.0, help="Length of each [s].")] = 36.0,
    seed: Annotated[int, typer.Option(min=0, help="Of arm, motions and noise.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Identify from many short logs by one process, by two, and by a local Dask cluster if Dask is installed.

    Exit code 1 if results differ by more than 1e-9, or memory grows with the number of logs.
    """
    from benchmarks.logs.episodes import MEMORY_GROWTH, SAME, benchmark_episodes
    from dynid.robot import load_robot

    with stages("benchmark", 5) as begin:
        found = benchmark_episodes(load_robot(robot), count, seconds, seed, progress=begin)
    table = figure_table("episodes", found)
    for key in (key for key, value in found.items() if value is None):
        table.add_row(key, "Dask is not installed")
    ways = ("difference_two", "difference_dask")
    missed = [f"{key} is {found[key]:.3g}, expected at most {SAME:g}" for key in ways if (found[key] or 0.0) > SAME]
    most, tenth = found["peak_mib"], found["peak_mib_of_a_tenth"]
    if most > MEMORY_GROWTH * tenth:
        missed.append(f"{most:.0f} MiB for all episodes, {tenth:.0f} MiB for a tenth of them")
    report_figures(found, [table], missed, as_json)


def kr300(
    folder: Annotated[Path, typer.Argument(help="Folder with kr300_A.csv.gz and kr300_B.csv.gz.")],
    as_json: JsonOption = False,
) -> None:
    """Identify a real KUKA KR300 from one public run and judge by the other; with spring, and refined by simulation."""
    from benchmarks.logs.kr300 import report
    from dynid.robot import load_robot

    found = report(load_robot("kr300"), folder)
    if as_json:
        print_json(found)
        return
    for way in ("A to B", "B to A"):
        columns = (
            "structure",
            "in sample",
            "held out",
            "consistent, held out",
            "per axis",
            "smallest eigenvalue of M(q)",
        )
        table = Table(*columns, title=way, title_justify="left")
        for row in found[way]:
            errors = (row["in_sample"], row["held_out"], row["held_out_consistent"])
            axes = " ".join(f"{one:.3f}" for one in row["per_axis"])
            table.add_row(row["structure"], *(f"{one:.3f}" for one in errors), axes, f"{row['least_eigenvalue']:.3g}")
        stdout().print(table)
        table = Table(
            *("loop [Hz]", "ended", "cost over the start's", "held out", "consistent, held out", "smallest eigenvalue"),
            title=f"{way}, spring, refined by simulation",
            title_justify="left",
        )
        for row in found[f"{way}, refined"]:
            errors = (row["cost"], row["held_out"], row["held_out_consistent"])
            table.add_row(
                f"{row['bandwidth_hz']:g}",
                row["reason"],
                *(f"{one:.3f}" for one in errors),
                f"{row['least_eigenvalue']:.3g}",
            )
        stdout().print(table)
    table = Table("run", "axis", "stiffness [MN m/rad]", "deviation", "twist explained", title_justify="left")
    for run, axes in found["stiffness_nm_per_rad"].items():
        for axis, one in enumerate(axes, 1):
            figures = (one["stiffness"] / 1e6, one["deviation"] / 1e6, one["explained"])
            table.add_row(run, str(axis), *(f"{value:.2f}" for value in figures))
    stdout().print(table)


def register(group: typer.Typer) -> None:
    """Add the benchmarks."""
    group.command()(logs)
    group.command()(rates)
    group.command()(episodes)
    group.command()(kr300)
