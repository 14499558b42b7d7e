"""An adaptive run of the simulated arm as files: the bag, adaptive.json, and the result with its report."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dynid.adaptive.session import AdaptiveIdentification, AdaptiveRun
from dynid.adaptive.settings import AdaptiveSettings
from dynid.adaptive.simulated import SimulatedArm
from dynid.control.safe_box import SafeBox, load_scene, scene_of
from dynid.errors import DataError
from dynid.reporting.result_writer import write_result
from dynid.resources import make_folder, refuse_existing, write_whole
from dynid.robot import Robot
from dynid.simulation.lockstep.simulated_bag import write_bag


def run_adaptively(
    robot: Robot,
    out: Path,
    *,
    scene: Path | None = None,
    longest_s: float = 30.0,
    seed: int = 0,
    mount: str | None = None,
    friction: str | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> tuple[AdaptiveRun, Path]:
    """Identify a simulated arm while it moves, in lock-step.

    Args:
        robot: the arm.
        out: new folder for the bag `adaptive`, adaptive.json and the result `model`.
        scene: free space as YAML; None is the robot's scene.yaml, if it has one.
        longest_s: motion at most [s].
        seed, mount, friction: of the simulated arm.
        progress: called with one line after each segment and look.

    Returns:
        The run, and the report's path.

    Raises:
        OutputExistsError: the folder exists.
        SafetyError: no segment is safe.
        DataError: no look came to a model; bag and adaptive.json are there.
    """
    refuse_existing(out)
    free = load_scene(scene) if scene else scene_of(robot)
    settings = AdaptiveSettings(longest_s=longest_s)
    box = None if free is None else SafeBox(robot, free)
    run = AdaptiveIdentification(robot, settings, box=box, mount=mount, progress=progress)
    arm = SimulatedArm(robot, mount=mount, friction=friction, seed=seed)
    arm.to_start(run.start().feed())
    found = run.run(arm, seed=seed)
    make_folder(out)
    write_bag(arm.run("adaptive"), robot, arm.settings, out / "adaptive", profile=settings.profile)
    write_whole(out / "adaptive.json", json.dumps(found.as_dict(), indent=1))
    if found.identification is None:
        raise DataError(f"{found.motion_s:.0f} s of motion came to no model: {found.looks[-1].reason}")
    progress("writing the result")
    return found, write_result(replace(found.identification, motion_history=found.as_dict()), out / "model")
