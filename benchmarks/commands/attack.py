"""`./run benchmark attack`: the running chain and hostile peers."""

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import DEFAULT_ROBOT, JsonOption, RobotOption, needs_ros
from dynid.commands.terminal import print_json, stages, stdout


def attack(
    robot: RobotOption = DEFAULT_ROBOT,
    runs: Annotated[int, typer.Option(min=1, help="Number of chains that are attacked.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the first peer; each further one adds one.")] = 0,
    keep: Annotated[
        Path | None, typer.Option(help="New folder for logs, bag and the arm's record of each run with a finding.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Attack the running chain with forged, malformed, huge and random messages and parameters.

    Exits 1 where an arm that is held moves, a stopped one falls, a node ends or listens on the network, a peer releases
    an emergency stop that another one pressed, or a bag cannot be read.
    """
    with needs_ros("attacking the chain"):
        from benchmarks.hostile.attack import attacked, figures
    from dynid.resources import refuse_existing

    if keep is not None:
        refuse_existing(keep)
    found = []
    with stages("benchmark", runs) as begin:
        begin("attacking")
        for k, run in enumerate(attacked(robot, runs, seed, keep)):
            begin(f"attacked {k + 1} of {runs}: {run}{' stopped: ' + run.stopped if run.stopped else ''}")
            found.append(run)
    result = figures(found)
    if as_json:
        print_json(result)
    else:
        stdout().print(*(f"{key:20} {value}\n" for key, value in result.items() if key != "findings"), sep="", end="")
        stdout().print(*result["findings"], sep="\n")
    raise typer.Exit(1 if result["findings"] else 0)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(attack)
