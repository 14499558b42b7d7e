"""An adaptive run of the simulated arm as files: the bag, adaptive.json, and the result with its report."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from dynid.adaptive.session import AdaptiveIdentification, AdaptiveRun
from dynid.adaptive.settings import AdaptiveSettings
from dynid.adaptive.simulated import SimulatedArm
from dynid.control.safe_box import SafeBox, load_scene, scene_of
from dynid.errors import DataError
from dynid.identification.changes import Change, beyond_chance, parameter_changes
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import ModelFile, load_model
from dynid.reporting.result_writer import write_result
from dynid.resources import make_folder, refuse_existing, write_whole
from dynid.robot import Robot
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.simulation.plant.held import holding


def run_adaptively(
    robot: Robot,
    out: Path,
    *,
    scene: Path | None = None,
    longest_s: float = 30.0,
    after: Path | None = None,
    held_kg: float = 0.0,
    seed: int = 0,
    mount: str | None = None,
    friction: str | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> tuple[AdaptiveRun, Path, tuple[Change, ...]]:
    """Identify a simulated arm while it moves, in lock-step.

    Args:
        robot: the arm.
        out: new folder for the bag `adaptive`, adaptive.json and the result `model`.
        scene: free space as YAML; None is the robot's scene.yaml, if it has one.
        longest_s: motion at most [s].
        after: model.yaml of the arm as it was; the run starts from it, and says what changed.
        held_kg: mass of a body that the simulated arm holds [kg].
        seed, mount, friction: of the simulated arm.
        progress: called with one line after each segment and look.

    Returns:
        The run, the report's path, and what changed since the model before, beyond chance.

    Raises:
        OutputExistsError: the folder exists.
        SafetyError: no segment is safe.
        DataError: no look came to a model; bag and adaptive.json are there. Or the model before is of another robot.
    """
    refuse_existing(out)
    free = load_scene(scene) if scene else scene_of(robot)
    before = None if after is None else _model_before(robot, after, mount)
    settings = AdaptiveSettings(longest_s=longest_s)
    if before is not None:  # what the arm was spares the smallest segment; one look at the end says what it is now
        looked = settings.segment_s * np.floor(longest_s / settings.segment_s)
        settings = settings.model_copy(update={"first_look_s": looked, "stages": settings.stages[1:]})
    box = None if free is None else SafeBox(robot, free)
    run = AdaptiveIdentification(robot, settings, box=box, mount=mount, before=before, progress=progress)
    standard = holding(robot, held_kg) if held_kg else None
    arm = SimulatedArm(robot, standard=standard, mount=mount, friction=friction, seed=seed)
    arm.to_start(run.start().feed())
    found = run.run(arm, seed=seed)
    changes: tuple[Change, ...] = ()
    if before is not None and found.identification is not None:
        now = found.identification.model_file().base_parameters(run.model)
        compared = parameter_changes(before.base_parameters(run.model), now, run.model.unit)
        changes = beyond_chance(compared, settings.confidence)
    make_folder(out)
    write_bag(arm.run("adaptive"), robot, arm.settings, out / "adaptive", profile=settings.profile)
    told = found.as_dict() | ({} if before is None else {"changes": [asdict(one) for one in changes]})
    write_whole(out / "adaptive.json", json.dumps(told, indent=1))
    if found.identification is None:
        raise DataError(f"{found.motion_s:.0f} s of motion came to no model: {found.looks[-1].reason}")
    progress("writing the result")
    report = write_result(replace(found.identification, motion_history=found.as_dict()), out / "model")
    return found, report, changes


def _model_before(robot: Robot, path: Path, mount: str | None) -> ModelFile:
    """The model of the arm as it was; refused where nothing could be compared with it.

    Raises:
        DataError: it was not accepted, has no deviations, or is of another robot or structure.
    """
    content = load_model(path)
    if not content.accepted:
        raise DataError(f"{path}: this model was not accepted, so changes since it mean nothing; identify again")
    if content.base_parameters(ArmModel.of(robot, mount=mount)).standard_deviations is None:
        raise DataError(f"{path}: its parameters have no standard deviations, so no change is beyond chance")
    return content
