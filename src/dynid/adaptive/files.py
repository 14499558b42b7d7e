"""Files of adaptive runs: the bag, adaptive.json, and the result with its report."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from dynid.adaptive.outcome import AdaptiveRun
from dynid.adaptive.session import AdaptiveIdentification
from dynid.adaptive.settings import AdaptiveSettings
from dynid.adaptive.simulated import SimulatedArm
from dynid.control.safe_box import SafeBox, load_scene, scene_of
from dynid.errors import DataError
from dynid.identification.changes import Change, beyond_chance, parameter_changes
from dynid.identification.result import Identification
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import read_model_file
from dynid.model.parameters import BaseParameters
from dynid.reporting.result_writer import write_result
from dynid.resources import make_folder, refuse_existing, write_whole
from dynid.robot import Robot
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.simulation.plant.held import holding

BAG, MODEL, SUMMARY = "adaptive", "model", "adaptive.json"  # names in a run's folder
Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class AdaptiveResult:
    """Result of an adaptive run, with the paths of its files.

    Attributes:
        run: course and outcome of the adaptive run.
        bag: path of the recorded bag.
        report: path of the report.
        changes: significant changes of parameters from the previous model; None without a previous model.
    """

    run: AdaptiveRun
    bag: Path
    report: Path
    changes: tuple[Change, ...] | None

    def as_dict(self) -> dict[str, object]:
        """Return the run's outcome and the changes from the previous model as a dictionary of plain values."""
        return _summary(self.run, self.changes)


class AdaptiveFiles:
    """Inputs and output files of one adaptive identification.

    A precision check identifies a model from the recording so far, and compares its confidence intervals with their
    limits.

    Args:
        robot: the arm.
        out: folder for the bag `adaptive`, adaptive.json and the result `model`, none of which may exist.
        scene: YAML file of the free space; None uses the robot's scene.yaml, if it has one.
        settings: settings of the run.
        after: earlier model.yaml of the arm. The run starts from this model, and the result lists the parameters that
            have changed.
        mount: mount of the arm.
        progress: function that is called with one line of text after each segment and each precision check.

    Attributes:
        bag: path of the bag.
        scene: YAML file of the free space, as given.
        mount: mount of the arm, as given.
        settings: settings of the run. With an earlier model, they differ from those given: the first of the `stages`
            is dropped, so the run begins with a larger and faster segment; and no precision check is due before the end
            of the motion time.
        identification: planner and runner of the adaptive identification.

    Raises:
        OutputExistsError: one of the outputs exists.
        DataError: the earlier model was not accepted, has no standard deviations, or is of another robot or structure.
    """

    def __init__(
        self,
        robot: Robot,
        out: Path,
        *,
        scene: Path | None = None,
        settings: AdaptiveSettings | None = None,
        after: Path | None = None,
        mount: str | None = None,
        progress: Progress = lambda line: None,
    ) -> None:
        for name in (BAG, MODEL, SUMMARY):
            refuse_existing(out / name)
        self.out, self.bag, self.scene, self.mount, self._progress = out, out / BAG, scene, mount, progress
        free = load_scene(scene) if scene else scene_of(robot)
        before = None if after is None else read_model_file(after)
        self.settings = settings or AdaptiveSettings()
        if before is not None:  # skip the smallest segment, which the previous model replaces; judge only at the end
            own = self.settings
            whole = own.segment_s * np.floor(own.longest_s / own.segment_s)
            looked = whole + own.segment_after(whole)
            self.settings = own.model_copy(update={"first_look_s": looked, "stages": own.stages[1:]})
        box = None if free is None else SafeBox(robot, free)
        self.identification = AdaptiveIdentification(
            robot, self.settings, box=box, mount=mount, before=before, progress=progress
        )
        self._before: BaseParameters | None = None
        if before is not None:
            self._before = before.base_parameters(self.identification.model)
            if not before.accepted:
                raise DataError(
                    f"{after}: this model was not accepted, so it is no reference for changes; identify again"
                )
            if self._before.standard_deviations is None:
                raise DataError(
                    f"{after}: its parameters have no standard deviations, so no change can be significant: identify "
                    "again"
                )

    def write(self, run: AdaptiveRun, identification: Identification | None) -> AdaptiveResult:
        """Write adaptive.json and the result folder; the bag exists already.

        Args:
            run: the finished run.
            identification: identification from the bag; None without a model.

        Raises:
            DataError: no model could be identified from the recording; bag and adaptive.json remain.
        """
        changes = self.write_summary(run, identification)
        if identification is None:
            raise DataError(f"{run.motion_s:.0f} s of motion did not give a model: {run.looks[-1].reason}")
        self._progress("writing the result")
        report = write_result(replace(identification, motion_history=run.as_dict()), self.out / MODEL)
        return AdaptiveResult(run, self.bag, report, changes)

    def write_summary(self, run: AdaptiveRun, identification: Identification | None) -> tuple[Change, ...] | None:
        """Write adaptive.json; return the changed parameters, or None if there is no earlier model to compare with.

        Args:
            run: the finished run.
            identification: identification from the bag; None without a model.
        """
        changes = None if self._before is None else self._changes(self._before, identification)
        write_whole(self.out / SUMMARY, json.dumps(_summary(run, changes), indent=1))
        return changes

    def _changes(self, before: BaseParameters, identification: Identification | None) -> tuple[Change, ...]:
        if identification is None:
            return ()
        model: ArmModel = self.identification.model
        now = identification.model_file().base_parameters(model)
        return beyond_chance(parameter_changes(before, now, model.unit), self.settings.confidence)


def _summary(run: AdaptiveRun, changes: tuple[Change, ...] | None) -> dict[str, object]:
    return run.as_dict() | ({} if changes is None else {"changes": [asdict(one) for one in changes]})


def run_adaptively(
    robot: Robot, files: AdaptiveFiles, *, held_kg: float = 0.0, seed: int = 0, friction: str | None = None
) -> AdaptiveResult:
    """Run an adaptive identification of an arm that is simulated in lock-step, and write its files.

    Args:
        robot: the arm.
        files: inputs and output files of the identification.
        held_kg: payload mass of the simulated arm [kg].
        seed: random seed of the simulated arm and of the planning.
        friction: friction model of the simulated arm; None uses that of robot.yaml.

    Raises:
        SafetyError: no segment is safe at the start of the run.
        DataError: no model could be identified from the recording; bag and adaptive.json remain.
    """
    standard = holding(robot, held_kg) if held_kg else None
    arm = SimulatedArm(robot, standard=standard, mount=files.mount, friction=friction, seed=seed)
    arm.to_start(files.identification.start().feedforward)
    found = files.identification.run(arm, seed=seed)
    make_folder(files.out)
    write_bag(arm.run(BAG), robot, arm.settings, files.bag, profile=files.settings.profile)
    return files.write(found, found.identification)
