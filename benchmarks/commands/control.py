"""`./run benchmark control`: tracking with the identified model, and time of a control step."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from benchmarks.commands.figures import report_figures
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MountOption, RobotOption
from dynid.commands.terminal import stages


def control(
    robot: RobotOption = DEFAULT_ROBOT,
    mount: MountOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulated arm's noise.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure the tracking of V01 to V03 on the simulated arm with all nuisances: FF+PD, computed torque, nominal
    models.

    Also measures gravity over static poses, drift of the released arm, the force needed to guide every joint by hand
    without and with friction compensation, and the time of a control step (on an idle machine). Exit code 1 if the
    error of computed torque exceeds a third of that of FF+PD, or friction feed-forward or compensation does not help.
    """
    from benchmarks.speed.control import benchmark_control, missed
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    loaded.gravity(mount)
    with stages("benchmark", 11) as begin, tempfile.TemporaryDirectory() as work:
        figures = benchmark_control(loaded, Path(work), mount=mount, seed=seed, progress=begin)
    report_figures(figures, [_table(figures)], missed(figures), as_json)


def _table(figures: dict[str, Any]) -> Table:
    table = Table("figure", "value", title="./run benchmark control", title_justify="left")
    for name, value in figures.items():
        if isinstance(value, float):
            table.add_row(name, f"{value:.4g}")
    for joint, push in figures["push_nm_before"].items():
        table.add_row(f"push to hand guide {joint} [N m]", f"{push:.3f}, helped {figures['push_nm_after'][joint]:.3f}")
    for name, found in figures["tracking_rms_deg"].items():
        shown = found if isinstance(found, str) else ", ".join(f"{key} {value:.3f}" for key, value in found.items())
        table.add_row(f"tracking RMS [deg], {name}", shown)
    return table


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(control)
