"""`dynid adaptive`: an unknown simulated arm, identified while it moves."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, say, stages

if TYPE_CHECKING:
    from dynid.adaptive.session import AdaptiveRun


def adaptive(
    out: Annotated[Path, typer.Option(help="New folder for the bag, the result and adaptive.json.")],
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    scene: Annotated[Path | None, typer.Option(help="Free space as YAML; default: scene.yaml of the robot.")] = None,
    longest: Annotated[float, typer.Option(min=15.0, help="Motion at most [s].")] = 30.0,
    seed: opt.SeedOption = 0,
    mount: opt.MountOption = None,
    friction: opt.FrictionOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Identify the simulated arm while it moves: plan each segment where the model is least certain, then stop.

    Runs in lock-step. Exits 1 unless the model is accepted and every interval is within its limit.
    """
    found = run_and_show(out, robot, scene, longest, seed, mount, friction, as_json)
    raise typer.Exit(0 if found.precise else 1)


def run_and_show(
    out: Path,
    robot: str,
    scene: Path | None,
    longest_s: float,
    seed: int,
    mount: str | None,
    friction: str | None,
    as_json: bool,
) -> "AdaptiveRun":
    """Run, write and print; arguments and errors as of `adaptive.files.run_adaptively`."""
    from dynid.adaptive.files import run_adaptively

    loaded = opt.load_arm(robot, mount, None, friction)
    with stages("adaptive", 30) as begin:
        found, report = run_adaptively(
            loaded, out, scene=scene, longest_s=longest_s, seed=seed, mount=mount, friction=friction, progress=begin
        )
    if as_json:
        print_json(found.as_dict())
    else:
        say(*(f"  {one}" for one in found.sentences), markup=False)
        say(f"  {out / 'adaptive'}", f"  {report}", markup=False)
    return found
