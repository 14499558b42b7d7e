"""`./run benchmark plants`: acceptance of wrong models, and accuracy of several methods."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.commands.figures import figure_table, report_figures
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import stages


def plants(
    robot: RobotOption = DEFAULT_ROBOT,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of every plant.")] = 5,
    motions: Annotated[
        list[str] | None, typer.Option(help="Motions of the campaign that is compared, by pattern; default: all 40.")
    ] = None,
    processes: Annotated[int, typer.Option(min=0, help="Processes; 0 is one per core.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Identify plants outside the model class and set-ups with one fault; compare methods that use many bags.

    Exit code 1 if a wrong model (median parameter error over 10 %) is accepted, or fewer than 95 % of the correct
    models of faultless plants are.
    """
    from benchmarks.studies.plants import PAPER_MOTIONS, benchmark_plants, error_norms, make_bags_of
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    with stages("benchmark", 1) as begin, tempfile.TemporaryDirectory() as work:
        found = benchmark_plants(loaded, seeds, processes or None, begin)
        result = found.as_dict()
        for name, friction in (("", "M6"), ("_viscous", "viscous")):
            folder = Path(work) / friction
            (folder / "bags").mkdir(parents=True)
            begin(f"many bags, friction {friction}")
            bags = make_bags_of(loaded, friction, motions or PAPER_MOTIONS, folder / "bags", processes or None)
            norms = error_norms(loaded, bags, folder / "runs", processes or None)
            result |= {f"{way}{name}": norm for way, norm in norms.items()}
    table = figure_table("plants", result)
    for row in found.rows:
        outcome = "accepted" if row.accepted else "refused"
        table.add_row(f"{row.plant}, seed {row.seed}", f"{outcome}, {100 * row.median_error:.1f} % off; {row.why}")
    wrong = ", ".join(f"{row.plant}, seed {row.seed}" for row in found.accepted_wrong) or "none"
    missed = f"accepted though wrong: {wrong}; right models accepted: {100 * found.accepted_right:.0f} %"
    report_figures(result, [table], [] if found.met else [missed], as_json)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(plants)
