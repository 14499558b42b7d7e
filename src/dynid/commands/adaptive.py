"""`dynid adaptive`: identification of an unknown simulated arm while it moves."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, say, stages
from dynid.errors import ConfigurationError

if TYPE_CHECKING:
    from dynid.adaptive.files import AdaptiveResult
    from dynid.adaptive.settings import AdaptiveSettings
    from dynid.identification.changes import Change
    from dynid.robot import Robot


def adaptive(
    out: Annotated[Path, typer.Option(help="New folder for the bag, the result and adaptive.json.")],
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    scene: Annotated[Path | None, typer.Option(help="Free space as YAML; default: scene.yaml of the robot.")] = None,
    longest: Annotated[
        float | None, typer.Option(min=9.0, help="Motion at most [s]; default: 30, 10 with --after.")
    ] = None,
    precision: Annotated[
        float | None, typer.Option(min=0.1, max=50.0, help="Limit of links' and rotors' intervals [%]; default: 0.5.")
    ] = None,
    after: Annotated[Path | None, typer.Option(help="model.yaml of the arm before a change: say what changed.")] = None,
    held_kg: Annotated[float, typer.Option(min=0.0, help="Mass of a body that the simulated arm holds.")] = 0.0,
    seed: opt.SeedOption = 0,
    mount: opt.MountOption = None,
    friction: opt.FrictionOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Identify the simulated arm while it moves: plan each segment where the model is least certain, then stop.

    Runs in lock-step, faster than the motion; 'dynid collect --adaptive' drives a real arm. Exit code 1 if the model
    is not accepted. With --after, the parameters that changed beyond chance are listed.
    """
    loaded = opt.load_arm(robot, mount, None, friction)
    if not math.isfinite(held_kg):
        raise typer.BadParameter("--held-kg must be a finite number")
    settings = chosen_settings(longest, after, precision)
    result = run_and_show(loaded, out, scene, settings, seed, mount, friction, as_json, after, held_kg)
    raise typer.Exit(exit_code(result))


def chosen_settings(longest: float | None, after: Path | None, precision: float | None = None) -> "AdaptiveSettings":
    """Return the settings of a run; an impossible duration `longest` [s] is reported as a wrong option.

    `precision` limits the intervals of links and rotors [%], see `AdaptiveSettings.as_precise_as`; None is the default.
    """
    from dynid.adaptive.settings import AdaptiveSettings, longest_motion

    try:
        settings = AdaptiveSettings(longest_s=longest_motion(longest, after=after is not None))
    except ConfigurationError as error:
        raise typer.BadParameter(f"--longest: {error}") from error
    return settings if precision is None else settings.as_precise_as(precision)


def exit_code(result: "AdaptiveResult") -> int:
    """Return the exit code: 1 if the model was not accepted, else 0."""
    return 0 if result.run.accepted else 1


def change_lines(changes: "Sequence[Change]") -> list[str]:
    """Return one line of text for every changed parameter."""
    if not changes:
        return ["  no parameter changed beyond chance"]
    return [
        f"  {one.name} changed by {one.difference:+.4g} +- {one.deviation:.2g} {one.unit} (from {one.before:.4g})"
        for one in changes
    ]


def show(result: "AdaptiveResult", as_json: bool) -> None:
    """Print the result of an adaptive run."""
    if as_json:
        print_json(result.as_dict())
        return
    if result.changes is not None:
        say(*change_lines(result.changes), markup=False)
    say(*(f"  {one}" for one in result.run.sentences), markup=False)
    say(f"  {result.bag}", f"  {result.report}", markup=False)


def run_and_show(
    loaded: "Robot",
    out: Path,
    scene: Path | None,
    settings: "AdaptiveSettings",
    seed: int,
    mount: str | None,
    friction: str | None,
    as_json: bool,
    after: Path | None = None,
    held_kg: float = 0.0,
) -> "AdaptiveResult":
    """Run in lock-step, write the files and print the result; errors as in `adaptive.files`."""
    from dynid.adaptive.files import AdaptiveFiles, run_adaptively

    with stages("adaptive", 30) as report:
        files = AdaptiveFiles(loaded, out, scene=scene, settings=settings, after=after, mount=mount, progress=report)
        result = run_adaptively(loaded, files, held_kg=held_kg, seed=seed, friction=friction)
    show(result, as_json)
    return result
