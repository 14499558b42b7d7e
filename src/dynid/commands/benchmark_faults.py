"""`dynid benchmark faults`: what becomes of the arm when line, servos, commands or processes fail."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.progress import progress_bar

if TYPE_CHECKING:
    from dynid.benchmarking.faults import FaultRow, Outcome

LOCKSTEP_RUNS = 100
QUICK_RUNS = 3


def faults(
    robot: RobotOption = DEFAULT_ROBOT,
    runs: Annotated[int, typer.Option(min=1, help="How often each fault happens in lock-step.")] = LOCKSTEP_RUNS,
    quick: Annotated[bool, typer.Option("--quick", help="Each fault three times.")] = False,
    fault: Annotated[list[str] | None, typer.Option(help="Only this fault; repeatable.")] = None,
    seed: Annotated[int, typer.Option(help="Of the first run; every further one adds one.")] = 0,
    cores: Annotated[int | None, typer.Option(min=1, help="Processes for the runs in lock-step; one per core.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the table as a new Markdown file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Inject every fault at random moments of a motion; exit code 1 if the arm ever did what it must not."""
    from dynid.benchmarking.faults import chosen_cases, lockstep_outcomes, rows
    from dynid.benchmarking.faults_table import fault_document
    from dynid.resources import refuse_existing, write_whole

    if out is not None:
        refuse_existing(out)
    names = tuple(fault or ())
    chosen_cases(names)
    count = QUICK_RUNS if quick else runs
    outcomes: list[Outcome] = []
    began = time.monotonic()
    with progress_bar("in lock-step", count) as advance:
        for found in lockstep_outcomes(robot, count, names, seed, cores):
            outcomes += found
            advance(f"in lock-step, seed {found[0].seed}")
    table = rows(outcomes)
    seconds = time.monotonic() - began
    if out is not None:
        write_whole(out, fault_document(table, f"Seeds {seed} to {seed + count - 1}", seconds))
    if as_json:
        print(json.dumps([row.as_dict() for row in table]))
    else:
        _print(table, seconds)
    raise typer.Exit(1 if any(row.violations for row in table) else 0)


def _print(table: "Sequence[FaultRow]", seconds: float) -> None:
    shown = Table("fault", "must become of it", "runs", "violations", "stop [ms]", title="dynid benchmark faults")
    for row in table:
        stop = f"{row.worst_stop_ms:.0f}" if row.worst_stop_ms else ""
        shown.add_row(row.fault, row.expectation, str(row.runs), str(row.violations), stop)
    console = Console()
    console.print(shown)
    for row in table:
        for finding in row.findings:
            console.print(f"{row.fault}, {finding}", soft_wrap=True, highlight=False)
    console.print(f"{sum(row.runs for row in table)} runs in {seconds:.0f} s")


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(faults)
