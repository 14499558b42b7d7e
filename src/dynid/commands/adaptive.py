"""`dynid adaptive`: an unknown simulated arm, identified while it moves."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, say, stages

if TYPE_CHECKING:
    from dynid.adaptive.session import AdaptiveRun
    from dynid.identification.changes import Change

LONGEST_S, LEAST_S, AFTER_S = 30.0, 15.0, 10.0  # of motion


def adaptive(
    out: Annotated[Path, typer.Option(help="New folder for the bag, the result and adaptive.json.")],
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    scene: Annotated[Path | None, typer.Option(help="Free space as YAML; default: scene.yaml of the robot.")] = None,
    longest: Annotated[
        float | None, typer.Option(min=9.0, help="Motion at most [s]; default: 30, 10 with --after.")
    ] = None,
    after: Annotated[Path | None, typer.Option(help="model.yaml of the arm before a change: say what changed.")] = None,
    held_kg: Annotated[float, typer.Option(min=0.0, help="Mass of a body that the simulated arm holds.")] = 0.0,
    seed: opt.SeedOption = 0,
    mount: opt.MountOption = None,
    friction: opt.FrictionOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Identify the simulated arm while it moves: plan each segment where the model is least certain, then stop.

    Runs in lock-step. Exits 1 unless the model is accepted and every interval is within its limit. With --after an
    accepted model is enough: which parameters changed, beyond chance, is listed.
    """
    if not all(math.isfinite(one) for one in (longest or 0.0, held_kg)):
        raise typer.BadParameter("--longest and --held-kg must be finite numbers")
    if after is None and longest is not None and longest < LEAST_S:
        raise typer.BadParameter(f"--longest is {longest:g} s; expected at least {LEAST_S:g} s without --after")
    longest_s = longest or (LONGEST_S if after is None else AFTER_S)
    found = run_and_show(out, robot, scene, longest_s, seed, mount, friction, as_json, after, held_kg)
    raise typer.Exit(0 if (found.accepted if after else found.precise) else 1)


def said(changes: "Sequence[Change]") -> list[str]:
    """One line for every change."""
    if not changes:
        return ["  no parameter changed beyond chance"]
    return [
        f"  {one.name} changed by {one.difference:+.4g} +- {one.deviation:.2g} {one.unit} (from {one.before:.4g})"
        for one in changes
    ]


def run_and_show(
    out: Path,
    robot: str,
    scene: Path | None,
    longest_s: float,
    seed: int,
    mount: str | None,
    friction: str | None,
    as_json: bool,
    after: Path | None = None,
    held_kg: float = 0.0,
) -> "AdaptiveRun":
    """Run, write and print; arguments and errors as of `adaptive.files.run_adaptively`."""
    from dynid.adaptive.files import run_adaptively

    loaded = opt.load_arm(robot, mount, None, friction)
    with stages("adaptive", 30) as begin:
        found, report, changes = run_adaptively(
            loaded,
            out,
            scene=scene,
            longest_s=longest_s,
            after=after,
            held_kg=held_kg,
            seed=seed,
            mount=mount,
            friction=friction,
            progress=begin,
        )
    if as_json:
        print_json(found.as_dict() | ({} if after is None else {"changes": [asdict(one) for one in changes]}))
    else:
        if after is not None:
            say(*said(changes), markup=False)
        say(*(f"  {one}" for one in found.sentences), markup=False)
        say(f"  {out / 'adaptive'}", f"  {report}", markup=False)
    return found
