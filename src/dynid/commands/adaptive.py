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
    """Identify the simulated arm while it moves: each segment is planned where the model is least certain.

    The run ends when the model is precise enough, when the time --longest is used up, or when no segment is safe. The
    simulation runs in lock-step, faster than real time; 'dynid collect --adaptive' drives a real arm. Exit code 1
    if the model is not accepted. With --after, the parameters that changed significantly are listed.
    """
    loaded = opt.load_arm(robot, mount, None, friction)
    if not math.isfinite(held_kg):
        raise typer.BadParameter("--held-kg must be a finite number")
    settings = chosen_settings(longest, after, precision)
    result = run_and_show(loaded, out, scene, settings, seed, mount, friction, as_json, after, held_kg)
    raise typer.Exit(exit_code(result))


def chosen_settings(longest: float | None, after: Path | None, precision: float | None = None) -> "AdaptiveSettings":
    """Return the settings of an adaptive identification from the options of the command.

    Args:
        longest: maximum duration of the motion [s]; None is the default. An impossible value is reported as a wrong
            option.
        after: file with the model of the arm before a change; None without one. With a file, the default of `longest`
            is shorter.
        precision: limit of the half widths of the confidence intervals of link and rotor parameters [%]; None is the
            default. A half width is expressed as the torque that it causes, relative to the joint's torque. The limit
            of predicted torques changes in proportion, and the motion stops once all intervals are within their limits.
    """
    from dynid.adaptive.settings import AdaptiveSettings, longest_motion

    try:
        settings = AdaptiveSettings(longest_s=longest_motion(longest, after=after is not None))
    except ConfigurationError as error:
        raise typer.BadParameter(f"--longest: {error}") from error
    return settings if precision is None else settings.as_precise_as(precision)


def exit_code(result: "AdaptiveResult") -> int:
    """Return the exit code of the command: 1 if the model was not accepted, else 0."""
    return 0 if result.run.accepted else 1


def change_lines(changes: "Sequence[Change]") -> list[str]:
    """Return one line of text for each parameter that changed, or one line if no parameter changed."""
    if not changes:
        return ["  no parameter changed beyond chance"]
    return [
        f"  {one.name} changed by {one.difference:+.4g} +- {one.deviation:.2g} {one.unit} (from {one.before:.4g})"
        for one in changes
    ]


def show(result: "AdaptiveResult", as_json: bool) -> None:
    """Print the result of an adaptive identification as text, or as JSON if `as_json`."""
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
    """Identify the simulated arm, faster than real time; write the files, print the result and return it.

    Args:
        loaded: the robot.
        out: new folder for the files.
        scene: file with the free space; None is the robot's scene.yaml.
        settings: settings of the adaptive identification.
        seed: seed of the simulated arm's noise.
        mount: name of the mount; None is the default mount.
        friction: name of the simulated arm's friction model; None is the choice of robot.yaml.
        as_json: whether to print JSON.
        after: file with the model of the arm before a change; None without one.
        held_kg: mass of a body that the simulated arm holds [kg].
    """
    from dynid.adaptive.files import AdaptiveFiles, run_adaptively

    with stages("adaptive", 30) as report:
        files = AdaptiveFiles(loaded, out, scene=scene, settings=settings, after=after, mount=mount, progress=report)
        result = run_adaptively(loaded, files, held_kg=held_kg, seed=seed, friction=friction)
    show(result, as_json)
    return result
