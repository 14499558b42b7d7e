"""`dynid adaptive`: an unknown simulated arm, identified while it moves."""

import json
from pathlib import Path
from typing import Annotated

import typer

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, say, stages


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
    from dynid.adaptive.session import AdaptiveIdentification
    from dynid.adaptive.settings import AdaptiveSettings
    from dynid.adaptive.simulated import SimulatedArm
    from dynid.control.safe_box import SafeBox, load_scene, scene_of
    from dynid.errors import DataError
    from dynid.reporting.result_writer import write_result
    from dynid.resources import make_folder, refuse_existing, write_whole
    from dynid.simulation.lockstep.simulated_bag import write_bag

    refuse_existing(out)
    loaded = opt.load_arm(robot, mount, None, friction)
    free = load_scene(scene) if scene else scene_of(loaded)
    settings = AdaptiveSettings(longest_s=longest)
    with stages("adaptive", 2 * settings.looks + 8) as begin:
        box = None if free is None else SafeBox(loaded, free)
        run = AdaptiveIdentification(loaded, settings, box=box, mount=mount, progress=begin)
        arm = SimulatedArm(loaded, mount=mount, friction=friction, seed=seed)
        arm.to_start(run.start().feedforward())
        found = run.run(arm, seed=seed)
        make_folder(out)
        write_bag(arm.run("adaptive"), loaded, arm.settings, out / "adaptive", profile=settings.profile)
        write_whole(out / "adaptive.json", json.dumps(found.as_dict(), indent=1))
        if found.identification is None:
            raise DataError(f"{found.motion_s:.0f} s of motion came to no model: {found.looks[-1].reason}")
        begin("writing the result")
        report = write_result(found.identification, out / "model")
    if as_json:
        print_json(found.as_dict())
    else:
        say(*(f"  {one}" for one in found.sentences), markup=False)
        say(f"  {out / 'adaptive'}", f"  {report}", markup=False)
    raise typer.Exit(0 if found.precise else 1)
