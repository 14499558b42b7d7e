"""`./run benchmark coverage`: whether stated intervals contain the truth at the stated rate."""

from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks.commands.figures import figure_table, report_figures
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import stages

if TYPE_CHECKING:
    from dynid.robot import Robot

GROUPS = ("rotor", "inertia", "gravity", "friction")


def coverage(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[CLASS]...", help="With --classes: these alone; none means all.")
    ] = None,
    robot: RobotOption = DEFAULT_ROBOT,
    classes: Annotated[
        bool, typer.Option("--classes", help="Class of motions by class, with acceptance and settled fits.")
    ] = False,
    arms: Annotated[
        int | None, typer.Option(min=1, help="Simulated arms, each drawn anew: 200, or 20 of each class.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first arm.")] = 0,
    gears: Annotated[str, typer.Option(help="Friction of the gears: a model of friction.yaml, or viscous.")] = "M6",
    processes: Annotated[int, typer.Option(min=0, help="Processes; 0 is one per core.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Identify random simulated arms, and count how often 90 % intervals contain the truth.

    Exit code 1 unless they contain 85 to 95 % of the true base parameters and of the held-out torques. With --classes
    every arm has an individual motion, of classes such as fast, pauses, slow, short and 50hz: exit code 1 unless
    intervals contain 85 to 97 % of each group of parameters in every class, fits converge, and no accepted result is
    far from the truth.
    """
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    if classes:
        _of_classes(loaded, tuple(names or ()), arms or 20, seed, processes or None, as_json)
        return
    if names:
        raise typer.BadParameter(f"{', '.join(names)}: names of classes need --classes", param_hint="CLASS")
    _of_one_motion(loaded, arms or 200, seed, gears, processes or None, as_json)


def _of_one_motion(robot: "Robot", arms: int, seed: int, gears: str, processes: int | None, as_json: bool) -> None:
    """Report coverage with the identification motion."""
    from benchmarks.studies.coverage import benchmark_coverage

    with stages("benchmark", arms) as begin:
        found = benchmark_coverage(robot, arms, first_seed=seed, gears=gears, processes=processes, progress=begin)
    result = found.as_dict()
    table = figure_table("coverage", result)
    for name, share in result["by_parameter"].items():
        table.add_row(name, f"{share:.3f}")
    report_figures(result, [table], found.missed(), as_json)


def _of_classes(
    robot: "Robot", names: tuple[str, ...], arms: int, seed: int, processes: int | None, as_json: bool
) -> None:
    """Report coverage of each class."""
    from rich.table import Table

    from benchmarks.studies.class_coverage import benchmark_classes
    from benchmarks.studies.motion_classes import chosen_classes

    chosen = chosen_classes(names)
    with stages("benchmark", arms * len(chosen)) as begin:
        found = benchmark_classes(robot, chosen, arms, first_seed=seed, processes=processes, progress=begin)
    table = Table("class", "arms", *GROUPS, "settled", "accepted", "worst accepted", title="held by 90 % intervals [%]")
    for one in found.classes:
        own = one.as_dict()
        shares = [f"{100 * own['coverage'].get(group, float('nan')):.0f}" for group in GROUPS]
        worst = f"{own['worst_accepted_deviations']:.1f} deviations"
        ends = [f"{100 * own[key]:.0f} %" for key in ("settled", "accepted")]
        table.add_row(one.name, str(own["arms"]), *shares, *ends, worst)
    report_figures(found.as_dict(), [table], found.missed(), as_json)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(coverage)
