"""`./run benchmark bilateral`: bilateral control of two simulated arms, in free motion, in contact, and with faults."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from benchmarks.commands.figures import report_figures
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MountOption, RobotOption
from dynid.commands.terminal import stages


def bilateral(
    robot: RobotOption = DEFAULT_ROBOT,
    mount: MountOption = None,
    seeds: Annotated[int, typer.Option(min=1, help="Pairs of simulated arms per figure; the worst counts.")] = 3,
    as_json: JsonOption = False,
) -> None:
    """Measure four-channel control of two simulated arms with gear friction and all nuisances, in lock-step.

    Tracking in free motion, transmitted force against walls of three stiffnesses, energy with hands off, each with the
    identified and with the nominal model; then every fault of the pair. Exit code 1 if the identified model misses a
    bar.
    """
    from benchmarks.bilateral.benchmark import WALLS_N_M, benchmark_bilateral, missed
    from benchmarks.bilateral.faults import FAULTS
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    loaded.gravity(mount)
    with stages("benchmark", 4 + 2 * len(WALLS_N_M) + len(FAULTS)) as begin, tempfile.TemporaryDirectory() as work:
        figures = benchmark_bilateral(loaded, Path(work), mount=mount, seeds=seeds, progress=begin)
    report_figures(figures, [_figures(figures), _faults(figures)], missed(figures), as_json)


def _figures(figures: dict[str, Any]) -> Table:
    table = Table("figure", "identified", "nominal", title="./run benchmark bilateral", title_justify="left")
    for key in ("tracking_deg_rms_free", "hand_n_rms_free", "energy_gain_hands_off_j"):
        table.add_row(key, f"{figures[key]:.3g}", f"{figures[key + '_nominal']:.3g}")
    for key in ("force_error_contact", "force_error_pressing"):
        for wall, error in figures[key].items():
            table.add_row(f"{key}, {wall} N/m", f"{error:.3f}", f"{figures[key + '_nominal'][wall]:.3f}")
    for share in ("p50", "p99"):
        for key in (f"{share}_cycle_us_one", f"{share}_cycle_us_two", f"{share}_cycle_two_over_one"):
            table.add_row(key, f"{figures[key]:.3g}", "")
    table.add_row("fault_violations", str(figures["fault_violations"]), "")
    return table


def _faults(figures: dict[str, Any]) -> Table:
    table = Table("fault", "stopped after [ms]", "why", "gain [J]", "violations", title_justify="left")
    for row in figures["faults"]:
        after = "" if row["stopped_after_ms"] is None else f"{row['stopped_after_ms']:.0f}"
        why, wrong = row["stopped"] or row["fell_back"], "; ".join(row["violations"])
        table.add_row(row["fault"], after, why, f"{row['gain_j']:.3f}", wrong)
    return table


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(bilateral)
