"""`./run benchmark faults`: what the arm does when line, servos, commands or processes fail."""

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
    from benchmarks.faults.falls import FallRow, Landing
    from benchmarks.faults.guiding import Guided, GuidedRow
    from benchmarks.faults.runaway import Runaway, RunawayRow
    from benchmarks.faults.table_run import FaultRow, Outcome

LOCKSTEP_RUNS, PROCESS_RUNS, FALL_RUNS = 100, 20, 500
QUICK_RUNS, QUICK_FALLS = 3, 15
FALLS = "falls"
RUNAWAY, RUNAWAY_RUNS, QUICK_RUNAWAYS = "run away", 300, 12
GUIDING, GUIDING_RUNS, QUICK_GUIDED = "guiding", 200, 12


def faults(
    robot: RobotOption = DEFAULT_ROBOT,
    runs: Annotated[int, typer.Option(min=0, help="Runs of each fault in lock-step.")] = LOCKSTEP_RUNS,
    process_runs: Annotated[int, typer.Option(min=0, help="Runs of each process fault in real time.")] = PROCESS_RUNS,
    falls: Annotated[int, typer.Option(min=0, help="Stops of the table 'falls', from drawn postures.")] = FALL_RUNS,
    runaways: Annotated[int, typer.Option(min=0, help="Cases of the table 'run away'.")] = RUNAWAY_RUNS,
    guided: Annotated[int, typer.Option(min=0, help="Cases of the table 'guiding'.")] = GUIDING_RUNS,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Run each fault three times, 15 falls, 12 cases of 'run away' and of 'guiding'."),
    ] = False,
    fault: Annotated[
        list[str] | None,
        typer.Option(help="Run only this fault, or only the table 'falls', 'run away' or 'guiding'; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first run; each further run adds one.")] = 0,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Number of processes for the lock-step runs; default: one per core.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="New Markdown file for the table.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Inject every fault at random moments of a motion; exit code 1 if a requirement was violated.

    The table "falls" stops the arm in drawn postures, many of them near a balance, and judges how it is lowered.
    The table "run away" moves the arm with efforts from outside and with wrong models.
    The table "guiding" leads the arm by a hand while loads appear and vanish.
    Faults of processes (killed, suspended, unplugged) need ROS 2 for Python and an idle machine.
    """
    from benchmarks.faults.table import fault_document
    from benchmarks.faults.table_run import rows
    from dynid.resources import refuse_existing, write_whole

    if out is not None:
        refuse_existing(out)
    names = tuple(fault or ())
    fall_runs = (min(falls, QUICK_FALLS) if quick else falls) if not names or FALLS in names else 0
    away = (min(runaways, QUICK_RUNAWAYS) if quick else runaways) if not names or RUNAWAY in names else 0
    by_hand = (min(guided, QUICK_GUIDED) if quick else guided) if not names or GUIDING in names else 0
    others = tuple(name for name in names if name not in (FALLS, RUNAWAY, GUIDING))
    lockstep, processes = _chosen(others) if others or not names else ((), ())
    lockstep_runs = min(runs, QUICK_RUNS) if quick else runs
    real_runs = min(process_runs, QUICK_RUNS) if quick else process_runs
    outcomes: list[Outcome] = []
    began = time.monotonic()
    if lockstep and lockstep_runs:
        outcomes += _in_lockstep(robot, lockstep_runs, lockstep, seed, cores)
    if processes and real_runs:
        outcomes += _against_processes(robot, real_runs, processes, seed)
    fallen = _in_postures(robot, fall_runs, seed, cores) if fall_runs else []
    astray = _running_away(robot, away, seed, cores) if away else []
    led = _guided(robot, by_hand, seed, cores) if by_hand else []
    table = rows(outcomes)
    seconds = time.monotonic() - began
    if out is not None:
        what = f"{lockstep_runs} times in lock-step, {real_runs} times against processes, seeds from {seed}"
        write_whole(out, fault_document(table, fallen, led, what, seconds))
    if as_json:
        found = [row.as_dict() for row in table] + [row.as_dict() for row in fallen]
        print_json(found + [row.as_dict() for row in astray] + [row.as_dict() for row in led])
    else:
        _print_all(table, fallen, astray, led, seconds)
    violations = [row.violations for row in table] + [row.violations for row in fallen]
    violations += [row.violations for row in astray] + [row.violations for row in led]
    raise typer.Exit(1 if any(violations) else 0)


def _print_all(
    table: "Sequence[FaultRow]",
    fallen: "Sequence[FallRow]",
    astray: "Sequence[RunawayRow]",
    led: "Sequence[GuidedRow]",
    seconds: float,
) -> None:
    if table:
        _print(table, seconds)
    if fallen:
        _print_falls(fallen, seconds)
    if astray:
        _print_runaways(astray, seconds)
    if led:
        _print_guided(led, seconds)


def _chosen(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The faults to run in lock-step and against processes; all without any names."""
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


def _in_postures(robot: str, runs: int, seed: int, cores: int | None) -> "Sequence[FallRow]":
    from benchmarks.faults.falls import fall_rows, landings

    found: list[Landing] = []
    with progress_bar(FALLS, runs) as advance:
        for one in landings(robot, runs, seed, cores):
            found.append(one)
            advance(f"{FALLS}, {one.fall.cause}, {one.fall.mount}")
    return fall_rows(found)


def _running_away(robot: str, runs: int, seed: int, cores: int | None) -> "Sequence[RunawayRow]":
    from benchmarks.faults.runaway import runaway_rows, runaways

    found: list[Runaway] = []
    with progress_bar(RUNAWAY, runs) as advance:
        for one in runaways(robot, runs, seed, cores):
            found.append(one)
            advance(f"{RUNAWAY}, {one.cause}")
    return runaway_rows(found)


def _print_runaways(table: "Sequence[RunawayRow]", seconds: float) -> None:
    shown = Table(
        "cause", "law", "cases", "refused", "left to the driver", "most off [deg]", "violations", title=RUNAWAY
    )
    for row in table:
        numbers = (row.cases, row.refused, row.released, row.worst_deg, row.violations)
        shown.add_row(row.cause, row.law, *(str(one) for one in numbers))
    console = stdout()
    console.print(shown)
    for row in table:
        for finding in row.findings:
            console.print(f"{row.cause}, {finding}", soft_wrap=True, highlight=False)
    console.print(f"{sum(row.cases for row in table)} cases in {seconds:.0f} s")


def _guided(robot: str, runs: int, seed: int, cores: int | None) -> "Sequence[GuidedRow]":
    from benchmarks.faults.guiding import guided_cases, guided_rows

    found: list[Guided] = []
    with progress_bar(GUIDING, runs) as advance:
        for one in guided_cases(robot, runs, seed, cores):
            found.append(one)
            advance(f"{GUIDING}, {one.cause}")
    return guided_rows(found)


def _print_guided(table: "Sequence[GuidedRow]", seconds: float) -> None:
    shown = Table("what happens", "cases", "held", "tool [m/s]", "way [m]", "violations", title=GUIDING)
    for row in table:
        numbers = (row.cases, row.held, row.tool_m_s, row.way_m, row.violations)
        shown.add_row(row.cause, *(str(one) for one in numbers))
    console = stdout()
    console.print(shown)
    for row in table:
        for finding in row.findings:
            console.print(f"{row.cause}, {finding}", soft_wrap=True, highlight=False)
    console.print(f"{sum(row.cases for row in table)} cases in {seconds:.0f} s")


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


def _print(table: "Sequence[FaultRow]", seconds: float) -> None:
    shown = Table("fault", "required outcome", "runs", "violations", "stop [ms]", title="./run benchmark faults")
    for row in table:
        stop = f"{row.worst_stop_ms:.0f}" if row.worst_stop_ms else ""
        shown.add_row(row.fault, row.expectation, str(row.runs), str(row.violations), stop)
    console = stdout()
    console.print(shown)
    for row in table:
        for finding in row.findings:
            console.print(f"{row.fault}, {finding}", soft_wrap=True, highlight=False)
    console.print(f"{sum(row.runs for row in table)} runs in {seconds:.0f} s")


def _print_falls(table: "Sequence[FallRow]", seconds: float) -> None:
    columns = ("stopped by", "runs", "violations", "torque off [s]", "latest [s]", "moved after [deg]", "tool [m/s]")
    shown = Table(*columns, "no rest found", title="./run benchmark faults: falls")
    for row in table:
        shown.add_row(row.cause, *row.figures)
    console = stdout()
    console.print(shown)
    for row in table:
        for finding in row.findings:
            console.print(f"{row.cause}, {finding}", soft_wrap=True, highlight=False)
    console.print(f"{sum(row.runs for row in table)} runs in {seconds:.0f} s")


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(faults)
