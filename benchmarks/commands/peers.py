"""`./run benchmark peers`: dynid compared with other identification software on the same recordings."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from benchmarks.commands.figures import report_figures
from benchmarks.commands.peer_options import FlobaroidOption, FlobaroidPythonOption, cells, chosen_peers, named_programs
from dynid.commands.options import DEFAULT_ROBOT, JsonOption, MappingOption, RobotOption
from dynid.commands.terminal import stages

COLUMNS = {
    "moving": "moving",
    "worst_joint": "worst joint",
    "all": "all",
    "gravity_error": "gravity",
    "rollout_deg": "1 s [deg]",
    "closed_loop_deg": "in the loop [deg]",
    "lambda_min": "smallest eigenvalue",
    "consistent": "consistent",
    "processor_s": "processor [s]",
    "memory_mb": "memory [MB]",
}


def peers(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of recordings instead of the simulated arm: identify the first, judge by the others."
        ),
    ] = None,
    robot: RobotOption = DEFAULT_ROBOT,
    mapping: MappingOption = None,
    peer: Annotated[list[str] | None, typer.Option(help="Only this one, such as figaroh; repeatable.")] = None,
    python: Annotated[
        Path | None, typer.Option(help="Interpreter that has the peers: pip install -e '.[peers]' in it.")
    ] = None,
    flobaroid: FlobaroidOption = None,
    flobaroid_python: FlobaroidPythonOption = None,
    seconds: Annotated[float, typer.Option(min=1.0, help="Processor time for each peer [s].")] = 600.0,
    poses: Annotated[int, typer.Option(min=1, help="Random poses at which M is looked at.")] = 100_000,
    keep: Annotated[Path | None, typer.Option(help="New folder that keeps recordings and what peers wrote.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Identify the same recordings with dynid and other software, and judge all results by the same rows.

    Exit code 1 if dynid's held-out error is more than half of the best peer's with gear friction, or larger than it
    with viscous friction, or if it takes more than a twentieth of mujoco.sysid's processor time.
    """
    from benchmarks.peers.benchmark import benchmark_peers, missed, recorded_case, simulated_cases
    from benchmarks.peers.table import PEERS
    from dynid.resources import refuse_existing
    from dynid.robot import load_robot

    names = chosen_peers(peer, [one.name for one in PEERS])
    loaded = load_robot(robot)
    if keep is not None:
        refuse_existing(keep)
    with tempfile.TemporaryDirectory() as temporary, stages("benchmark", 2 + 2 * len(PEERS)) as begin:
        work = keep or Path(temporary)
        work.mkdir(exist_ok=True, parents=True)
        cases = (
            simulated_cases(loaded, robot, work, begin)
            if data is None
            else [recorded_case(loaded, robot, data.resolve(), None if mapping is None else mapping.resolve())]
        )
        programs, own = named_programs(flobaroid, flobaroid_python), python or Path(sys.executable)
        rows = benchmark_peers(cases, names, work, own, seconds, poses, begin, programs)
    report_figures({"rows": rows}, [table_of(rows)], missed(rows), as_json)


def table_of(rows: list[dict[str, Any]]) -> Table:
    """Return the rows as a table."""
    table = Table("plant", "peer", *COLUMNS.values(), "said", title="./run benchmark peers", title_justify="left")
    for row in rows:
        said = row["error"] or row["note"] or row["unphysical"]
        table.add_row(row["plant"], row["peer"], *cells(row, COLUMNS), said)
    return table


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(peers)
