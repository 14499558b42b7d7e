"""`./run benchmark attack`: the running chain and hostile peers."""

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption, needs_ros
from dynid.commands.terminal import print_json, stages, stdout, table


def attack(
    robot: RobotOption = DEFAULT_ROBOT,
    runs: Annotated[int, typer.Option(min=0, help="Number of chains that are attacked.")] = 100,
    files: Annotated[int, typer.Option(min=0, help="How often each hostile file is given to the program.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the first peer and file; each further one adds one.")] = 0,
    keep: Annotated[
        Path | None, typer.Option(help="New folder for logs, bag and the arm's record of each run with a finding.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Attack the running chain with forged, malformed, huge and random messages, and the program with hostile files.

    Exit code 1 if an arm that is held moves, a stopped one falls, a node ends or listens on the network, a peer
    releases an emergency stop that another one pressed, a bag cannot be read, or a file ends the program, fills its
    memory, or has it change other files.
    """
    with needs_ros("attacking the chain"):
        from benchmarks.hostile.attack import attacked, attacked_by_files, attacked_from_network, figures
    from dynid.resources import refuse_existing

    if keep is not None:
        refuse_existing(keep)
    found = []
    with stages("benchmark", runs) as begin:
        begin("attacking")
        if files:
            found.append(attacked_from_network())
        for run in attacked_by_files(files, seed):
            begin(f"attacked by {run}")
            found.append(run)
        for k, run in enumerate(attacked(robot, runs, seed, keep)):
            begin(f"attacked {k + 1} of {runs}: {run}{' stopped: ' + run.stopped if run.stopped else ''}")
            found.append(run)
    result = figures(found)
    if as_json:
        print_json(result)
    else:
        listed = table("benchmark attack", "attacked by", "runs", "found")
        for kind, row in result["rows"].items():
            listed.add_row(kind, str(row["runs"]), str(row["found"]))
        stdout().print(listed)
        counts = {key: value for key, value in result.items() if key not in ("rows", "findings")}
        stdout().print(*(f"{key:20} {value}\n" for key, value in counts.items()), sep="", end="")
        stdout().print(*result["findings"], sep="\n")
    raise typer.Exit(1 if result["findings"] else 0)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(attack)
