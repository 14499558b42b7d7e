"""`./run benchmark faults`: reaction of the arm to faults of line, servos, commands or processes."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import print_json, progress_bar, stdout
from dynid.errors import DynidError, UnknownNameError

if TYPE_CHECKING:
    from benchmarks.faults.drawn import DrawnRow
    from benchmarks.faults.table_run import FaultRow, Outcome

LOCKSTEP_RUNS, PROCESS_RUNS, FALL_RUNS, RUNAWAY_RUNS, CONTACT_RUNS = 100, 20, 500, 300, 200
GUIDING_RUNS = 200
QUICK_RUNS = 3
FALLS, RUNAWAY, CONTACT, GUIDING = "falls", "run away", "contact", "guiding"  # names of the tables of `drawn_tables`
QUICK_CASES = {FALLS: 15, RUNAWAY: 12, CONTACT: 5, GUIDING: 12}
Tables = dict[str, "Sequence[DrawnRow]"]


def faults(
    robot: RobotOption = DEFAULT_ROBOT,
    runs: Annotated[int, typer.Option(min=0, help="Runs of each fault in lock-step.")] = LOCKSTEP_RUNS,
    process_runs: Annotated[int, typer.Option(min=0, help="Runs of each process fault in real time.")] = PROCESS_RUNS,
    falls: Annotated[int, typer.Option(min=0, help="Stops of the table 'falls', from drawn postures.")] = FALL_RUNS,
    runaways: Annotated[int, typer.Option(min=0, help="Cases of the table 'run away'.")] = RUNAWAY_RUNS,
    guided: Annotated[int, typer.Option(min=0, help="Cases of the table 'guiding'.")] = GUIDING_RUNS,
    contacts: Annotated[int, typer.Option(min=0, help="Cases of the table 'contact'.")] = CONTACT_RUNS,
    first: Annotated[int, typer.Option(min=0, help="Number of the first drawn case in these four tables.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run each fault three times, and 5 to 15 cases of the drawn tables.")
    ] = False,
    fault: Annotated[
        list[str] | None,
        typer.Option(help="Run only this fault, or the table 'falls', 'run away', 'contact' or 'guiding'; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first run; each further run adds one.")] = 0,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Number of processes for the lock-step runs; default: one per core.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="New Markdown file for the table.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Inject every fault at random moments of a motion; exit code 1 if a requirement was violated.

    The table "falls" stops the arm in random postures, many of them near a balance, and judges how it is lowered.
    The table "run away" moves the arm with external efforts and with wrong models.
    The table "contact" hits an arm that must stop at contact.
    The table "guiding" guides the arm by hand while loads appear and vanish.
    Faults of processes (killed, suspended, unplugged) need ROS 2 for Python and an idle machine.
    """
    from benchmarks.faults.table import fault_document
    from benchmarks.faults.table_run import rows
    from dynid.resources import refuse_existing, write_whole

    if out is not None:
        refuse_existing(out)
    names = tuple(fault or ())
    wanted = {FALLS: falls, RUNAWAY: runaways, CONTACT: contacts, GUIDING: guided}
    if quick:
        wanted = {name: min(count, QUICK_CASES[name]) for name, count in wanted.items()}
    wanted = {name: count for name, count in wanted.items() if count and (not names or name in names)}
    others = tuple(name for name in names if name not in QUICK_CASES)
    lockstep, processes = _chosen(others) if others or not names else ((), ())
    lockstep_runs = min(runs, QUICK_RUNS) if quick else runs
    real_runs = min(process_runs, QUICK_RUNS) if quick else process_runs
    outcomes: list[Outcome] = []
    began = time.monotonic()
    if lockstep and lockstep_runs:  # without names each robot has its own faults: only some have joints of two servos
        outcomes += _in_lockstep(robot, lockstep_runs, lockstep if others else (), seed, cores)
    if processes and real_runs:
        outcomes += _against_processes(robot, real_runs, processes, seed)
    drawn = {name: _drawn(name, robot, range(first, first + count), seed, cores) for name, count in wanted.items()}
    table, seconds = rows(outcomes), time.monotonic() - began
    if out is not None:
        what = f"{lockstep_runs} times in lock-step, {real_runs} times against processes, seeds from {seed}"
        write_whole(out, fault_document(table, drawn.get(FALLS, ()), drawn.get(GUIDING, ()), what, seconds))
    if as_json:
        every: list[DrawnRow | FaultRow] = [*table, *(row for found in drawn.values() for row in found)]
        print_json([row.as_dict() | {"findings": list(row.findings)} for row in every])
    else:
        _print_all(table, drawn, seconds)
    violations = [row.violations for row in table] + [row.violations for found in drawn.values() for row in found]
    raise typer.Exit(1 if any(violations) else 0)


def _print_all(table: "Sequence[FaultRow]", drawn: Tables, seconds: float) -> None:
    from benchmarks.faults.drawn_tables import TABLES

    if table:
        cells = [(row.fault, row.expectation, str(row.runs), str(row.violations), _stop(row)) for row in table]
        found = [f"{row.fault}, {finding}" for row in table for finding in row.findings]
        columns = ("fault", "required outcome", "runs", "violations", "stop [ms]")
        _show("./run benchmark faults", columns, cells, found, f"{sum(row.runs for row in table)} runs")
    for name, rows in drawn.items():
        figures = [(row.title, *row.figures) for row in rows]
        found = [f"{row.title}, {finding}" for row in rows for finding in row.findings]
        _show(f"./run benchmark faults: {name}", TABLES[name].columns, figures, found, name)
    stdout().print(f"in {seconds:.0f} s")


def _stop(row: "FaultRow") -> str:
    return f"{row.worst_stop_ms:.0f}" if row.worst_stop_ms else ""


def _show(
    title: str, columns: tuple[str, ...], cells: Sequence[tuple[str, ...]], findings: Sequence[str], last: str
) -> None:
    shown = Table(*columns, title=title)
    for one in cells:
        shown.add_row(*one)
    console = stdout()
    console.print(shown)
    for finding in findings:
        console.print(finding, soft_wrap=True, highlight=False)
    console.print(last)


def _chosen(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the faults to run in lock-step and those of processes; all without names."""
    from benchmarks.faults.processes import PROCESS_CASES
    from benchmarks.faults.table_run import case_names

    known = case_names(), tuple(case.name for case in PROCESS_CASES)
    for name in names:
        if name not in (*known[0], *known[1]):
            raise UnknownNameError("fault", name, (*known[0], *known[1]))
    lockstep, processes = (tuple(name for name in kind if not names or name in names) for kind in known)
    return lockstep, processes


def _in_lockstep(robot: str, runs: int, names: tuple[str, ...], seed: int, cores: int | None) -> "list[Outcome]":
    from benchmarks.faults.table_run import lockstep_outcomes

    outcomes: list[Outcome] = []
    with progress_bar("in lock-step", runs) as advance:
        for found in lockstep_outcomes(robot, runs, names, seed, cores):
            outcomes += found
            advance(f"in lock-step, seed {found[0].seed}")
    return outcomes


def _drawn(name: str, robot: str, numbers: range, seed: int, cores: int | None) -> "Sequence[DrawnRow]":
    from benchmarks.faults.drawn import each_drawn
    from benchmarks.faults.drawn_tables import TABLES

    found = []
    with progress_bar(name, len(numbers)) as advance:
        for one in each_drawn(TABLES[name].work, robot, numbers, seed, cores):
            found.append(one)
            advance(name)
    return TABLES[name].rows(found)


def _against_processes(robot: str, runs: int, names: tuple[str, ...], seed: int) -> "list[Outcome]":
    try:
        from benchmarks.chain.fault_chain import process_outcomes
    except ImportError as error:
        raise DynidError(
            f"faults of processes need ROS 2 for Python ({error.name} is missing): pip install 'dynid[ros]', or skip "
            "them with --process-runs 0"
        ) from error
    outcomes: list[Outcome] = []
    with progress_bar("against processes", runs * len(names)) as advance:
        for one in process_outcomes(robot, runs, names, seed):
            outcomes.append(one)
            advance(f"{one.fault}, seed {one.seed}")
    return outcomes


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(faults)
