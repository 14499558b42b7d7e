"""`./run benchmark changes`: arms that change while they are recorded, and efforts that are no motor torques."""

from typing import Annotated, Any

import typer
from rich.table import Table

from benchmarks.commands.figures import figure_table, report_figures
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import stderr

SIZES = {"> 10 %": "large", "5-10 %": "medium", "< 5 %": "small"}  # ranges of gravity errors, and their figures
SHARES = {"cause": "cause_first", "course": "course_first", "stated": "stated_of_accepted"}


def changes(
    robot: RobotOption = DEFAULT_ROBOT,
    arms: Annotated[int, typer.Option(min=1, help="Simulated arms, each drawn anew.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first arm; even ones have viscous gears.")] = 0,
    kind: Annotated[list[str] | None, typer.Option(help="Kind of change, or 'none'; repeatable; default: all.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Cases of each kind for each arm, with other sizes.")] = 1,
    processes: Annotated[int, typer.Option(min=0, help="Processes; 0 is one per core.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Change recordings of drawn arms, and count which are refused with the true cause named first.

    Exit code 1 if fewer than 98 % of models with a gravity error above 10 % are refused, fewer than 90 % of those of 5
    to 10 %, the cause is named first in fewer than 90 % of refused recordings, or an unchanged recording is refused.
    """
    from benchmarks.studies.changes import benchmark_changes
    from dynid.robot import load_robot

    found = benchmark_changes(
        load_robot(robot),
        arms,
        first_seed=seed,
        kinds=kind or (),
        repeats=repeats,
        processes=processes or None,
        progress=lambda line: stderr().print(line, markup=False, highlight=False, soft_wrap=True),
    )
    result = found.as_dict()
    table = figure_table("changes", {key: value for key, value in result.items() if not isinstance(value, list)})
    for words in found.misses:
        table.add_row(words, "")
    report_figures(result, [_kinds_table(result["kinds"]), table], found.missed(), as_json)


def _kinds_table(kinds: dict[str, dict[str, Any]]) -> Table:
    """Return the refused cases of all cases by kind and gravity error, and the shares of causes that are named."""
    table = Table("kind", *SIZES, *SHARES, title="refused / cases by gravity error", title_justify="left")
    for kind, own in kinds.items():
        counts = [(own[key], own[f"refused_of_{key}"]) for key in SIZES.values()]
        refused = [f"{round(count * share)}/{count}" if count else "-" for count, share in counts]
        table.add_row(kind, *refused, *(_share(own[key]) for key in SHARES.values()))
    return table


def _share(value: float) -> str:
    """Return a share in per cent; a dash for NaN."""
    return "-" if value != value else f"{100 * value:.0f} %"


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(changes)
