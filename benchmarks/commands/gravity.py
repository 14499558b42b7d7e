"""`./run benchmark gravity`: whether released arms stay where they are put, and how easily a hand moves them."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from benchmarks.commands.figures import report_figures
from dynid.commands.options import JsonOption
from dynid.commands.terminal import stages

ROBOTS = ("crane_x7", "openmanipulator_x", "omx_leader", "viperx_300s")  # shipped arms of DYNAMIXEL servos


def gravity(
    robot: Annotated[
        list[str] | None, typer.Option(help="Robot name or folder; repeatable. Default: all shipped DYNAMIXEL arms.")
    ] = None,
    count: Annotated[int, typer.Option("--postures", min=1, help="Random postures per robot.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time for which a released arm is watched [s].")] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of noise and postures.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Identify simulated arms with gear friction, release them under gravity compensation, and push their joints.

    Exit code 1 if a released joint moves by 1 deg or more, if the released arm is held again, or if a push of twice its
    stiction does not move a joint by 1 deg within three seconds.
    """
    from benchmarks.studies.gravity_drift import all_at_rest, missed
    from dynid.robot import load_robot

    robots = [load_robot(name) for name in robot or ROBOTS]
    with stages("benchmark", len(robots)) as begin, tempfile.TemporaryDirectory() as work:
        found = list(all_at_rest(robots, Path(work), count, seconds, seed, begin))
    columns = ("robot", "posture [deg]", "drift [deg]", "joint", "1 deg after [s]", "joint", "push [N m]", "held")
    table = Table(*columns, title="./run benchmark gravity", title_justify="left")
    for arm in found:
        for one in arm.rests:
            posture = ", ".join(f"{angle:.0f}" for angle in one.posture_deg)
            drift, pushed = (f"{one.drift_deg:.3f}", one.drifting), (f"{one.push_s:.2f}", one.slowest)
            table.add_row(arm.robot, posture, *drift, *pushed, f"{one.push_nm:.3f}", one.held)
    report_figures([arm.as_dict() for arm in found], [table], missed(found), as_json)


def register(group: typer.Typer) -> None:
    """Add the benchmark."""
    group.command()(gravity)
