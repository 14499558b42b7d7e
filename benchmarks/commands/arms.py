"""`./run benchmark arms`: random arms of DYNAMIXEL servos, from their URDF to an accepted model."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from benchmarks.commands.figures import report_figures
from dynid.commands.options import JsonOption
from dynid.commands.terminal import stages


def arms(
    count: Annotated[int, typer.Option("--arms", min=1, help="Number of arms.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first arm.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="New folder for all files of the arms.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Draft random arms from their URDFs, measure gains, simulate, identify; by the documented commands.

    Arms have 2 to 7 joints and weigh 0.3 to 6 kg, with the servos that carry them and their gears' friction. Exit code
    1 if fewer than 95 % are accepted, if an accepted model's gravity is off by more than 5 % and twice what it states,
    or if a library's warning reaches the user.
    """
    from benchmarks.studies.arm_runs import missed, run_arms
    from dynid.resources import make_folder, refuse_existing

    seeds = range(seed, seed + count)
    if keep is not None:
        refuse_existing(keep)
        make_folder(keep)
    with stages("benchmark", count) as begin, tempfile.TemporaryDirectory() as work:
        runs = run_arms(seeds, Path(work) if keep is None else keep.absolute(), begin)
    columns = ("seed", "joints", "kg", "servos", "gains", "accepted", "held out", "gravity off, stated", "reason")
    table = Table(*columns, title="./run benchmark arms", title_justify="left")
    for run in runs:
        error = "" if run.held_out is None else f"{run.held_out:.1%}"
        servos = ", ".join(sorted(set(run.servos)))
        accepted = "yes" if run.accepted else "no"
        figures = (f"{run.joints}", f"{run.mass_kg:.2f}", servos, f"{run.measured_gains} of {run.joints}")
        gravity = "" if run.gravity is None else f"{run.gravity.error:.1%}, {run.gravity.deviation:.1%}"
        table.add_row(f"{run.seed}", *figures, accepted, error, gravity, run.failed)
    report_figures([run.as_dict() for run in runs], [table], missed(runs), as_json)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(arms)
