"""`./run benchmark excitation`: dynid's excitation motions compared with those of other software."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from benchmarks.commands.figures import report_figures
from benchmarks.commands.peer_options import FlobaroidOption, FlobaroidPythonOption, cells, chosen_peers, named_programs
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption
from dynid.commands.terminal import stages

COLUMNS = {
    "kappa": "condition",
    "log_det": "log det",
    "full_kappa": "condition, all",
    "full_log_det": "log det, all",
    "position": "position",
    "velocity": "velocity",
    "acceleration": "acceleration",
    "torque": "torque",
    "kept": "within limits",
    "processor_s": "processor [s]",
}


def excitation(
    robot: RobotOption = DEFAULT_ROBOT,
    profile: Annotated[str, typer.Option(help="Excitation profile that limits positions and speeds.")] = "limited",
    duration: Annotated[float, typer.Option(min=5.0, help="Duration of every motion [s].")] = 24.0,
    peer: Annotated[list[str] | None, typer.Option(help="Only this one, such as figaroh; repeatable.")] = None,
    python: Annotated[
        Path | None, typer.Option(help="Interpreter that has the peers: pip install -e '.[peers]' cyipopt in it.")
    ] = None,
    flobaroid: FlobaroidOption = None,
    flobaroid_python: FlobaroidPythonOption = None,
    seconds: Annotated[float, typer.Option(min=1.0, help="Processor time for each program [s].")] = 600.0,
    keep: Annotated[Path | None, typer.Option(help="New folder that keeps all motions.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Design excitation motions with dynid and other software within the same limits, and judge them alike.

    Exit code 1 if one of dynid's motions leaves a limit or lets links touch, or if a peer's motion within the limits
    has a smaller condition number or a larger determinant than dynid's motion for it, by dynid's regressor.
    """
    from benchmarks.peers.excitation.benchmark import benchmark_excitation, missed
    from benchmarks.peers.excitation.table import DESIGNERS
    from benchmarks.peers.excitation.task import task_of
    from dynid.resources import refuse_existing
    from dynid.robot import load_robot

    names = chosen_peers(peer, [one.name for one in DESIGNERS])
    loaded = load_robot(robot)
    if keep is not None:
        refuse_existing(keep)
    task = task_of(loaded, robot, profile, duration, named_programs(flobaroid, flobaroid_python))
    with tempfile.TemporaryDirectory() as temporary, stages("benchmark", len(names) or len(DESIGNERS)) as begin:
        work = (keep or Path(temporary)).absolute()
        work.mkdir(exist_ok=True, parents=True)
        rows = benchmark_excitation(loaded, task, names, work, python or Path(sys.executable), seconds, begin)
    report_figures({"rows": rows}, [table_of(rows)], missed(rows), as_json)


def table_of(rows: list[dict[str, Any]]) -> Table:
    """Return the rows as a table."""
    table = Table("peer", *COLUMNS.values(), "said", title="./run benchmark excitation", title_justify="left")
    for row in rows:
        table.add_row(row["peer"], *cells(row, COLUMNS), row["error"] or row["outside"] or row["note"])
    return table


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(excitation)
