"""Loading of two runs of one arm for comparison, before and after a change."""

from pathlib import Path
from typing import NamedTuple

from dynid.errors import DataError
from dynid.identification.data.preprocessing import Samples
from dynid.identification.data.recordings import load_recording, refuse_other_setting, rows_of
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.recording.mapping import Mapping
from dynid.robot import Robot


class TwoRuns(NamedTuple):
    """Two runs of one arm with equal mount and preprocessing, and a model with Coulomb friction, which loads change."""

    model: ArmModel
    torque_constants: tuple[float, ...]
    samples: tuple[Samples, Samples]


def load_two_runs(robot: Robot, paths: tuple[Path, Path], mappings: tuple[Mapping, Mapping] = (None, None)) -> TwoRuns:
    """Return two runs of one arm for comparison.

    Raises:
        DataError: both hold the same data, or they differ in mount or torque constants; also as for `load_recording`.
    """
    settings = load_identification(robot)
    first, second = (load_recording(path, robot, mapping) for path, mapping in zip(paths, mappings, strict=True))
    if first.sha256 == second.sha256 and mappings[0] == mappings[1]:
        raise DataError(
            f"{first.path} and {second.path} hold the same data; give one run before and one after the change"
        )
    refuse_other_setting(first, second)
    structure = robot.file.structure.model_copy(update={"coulomb_friction": True})
    model = ArmModel.of(robot, mount=first.mount, structure=structure)
    settings = rows_of((first, second), settings).settings(settings)
    return TwoRuns(model, first.torque_constants, (first.samples(settings), second.samples(settings)))
