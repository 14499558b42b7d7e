"""Loading of two runs of one arm, before and after a change of the arm, or of one run during which the arm changes."""

from pathlib import Path
from typing import NamedTuple

from dynid.errors import DataError
from dynid.identification.data.parts import Span, parts_of
from dynid.identification.data.preprocessing import Samples
from dynid.identification.data.recordings import Recording, load_recording, refuse_other_setting, rows_of
from dynid.identification.late_torques import in_time
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.recording.mapping import Mapping
from dynid.robot import Robot


class TwoRuns(NamedTuple):
    """Samples of two runs of one arm with equal mount and preprocessing, and the equations of motion of the arm.

    The model always contains Coulomb friction, so that a comparison of the runs can also estimate a change of friction
    by a load.

    Attributes:
        model: equations of motion of the arm, without values of parameters.
        torque_constants: torque constants that were used, (n,) [N m/A]; () if torques were recorded.
        samples: samples of the first and of the second run.
        notes: remarks about the recordings, each with the name of its recording.
    """

    model: ArmModel
    torque_constants: tuple[float, ...]
    samples: tuple[Samples, Samples]
    notes: tuple[str, ...] = ()


def load_two_runs(robot: Robot, paths: tuple[Path, Path], mappings: tuple[Mapping, Mapping] = (None, None)) -> TwoRuns:
    """Read two runs of one arm for comparison, and return their samples with an `ArmModel`.

    The `ArmModel` contains the equations of motion without values of parameters.

    Args:
        robot: the robot.
        paths: recordings of the two runs.
        mappings: description of each recording's columns or topics; None if a recording needs no description.

    Raises:
        DataError: both recordings contain the same data, or they differ in mount or torque constants. The errors of
            `load_recording` are raised, too.
    """
    first, second = (load_recording(path, robot, mapping) for path, mapping in zip(paths, mappings, strict=True))
    if first.sha256 == second.sha256 and mappings[0] == mappings[1]:
        raise DataError(
            f"{first.path} and {second.path} hold the same data; give one run before and one after the change"
        )
    refuse_other_setting(first, second)
    return _two_runs(robot, first, second)


def split_run(robot: Robot, path: Path, change_s: float, mapping: Mapping = None) -> TwoRuns:
    """Read one recording and split it at a time when the arm changed; return both parts' samples and an `ArmModel`.

    The `ArmModel` contains the equations of motion without values of parameters.

    Args:
        robot: the robot.
        path: the recording.
        change_s: time of the change on the recording's time axis [s].
        mapping: description of the recording's columns or topics; None if the recording needs no description.

    Raises:
        DataError: the recording has no rows before or after the change. The errors of `load_recording` are raised, too.
    """
    recording = load_recording(path, robot, mapping)
    (before,), (after,) = (parts_of([recording], span) for span in (Span(None, change_s), Span(change_s, None)))
    return _two_runs(robot, before, after)


def _two_runs(robot: Robot, first: Recording, second: Recording) -> TwoRuns:
    """Return the samples of two recordings with the same mount, and the equations of motion of the arm."""
    settings = load_identification(robot)
    structure = robot.file.structure.model_copy(update={"coulomb_friction": True})
    model = ArmModel.of(robot, mount=first.mount, structure=structure)
    settings = rows_of((first, second), settings).settings(settings)
    # each run by itself, as the arm changes between them, and another logger may have recorded the second one
    timed = [in_time(robot, [one], settings) for one in (first, second)]
    before, after = (one.samples(settings) for found in timed for one in found.recordings)
    notes = [
        f"{one.name}: {note}" for found in timed for one in found.recordings for note in (*one.notes, *found.notes)
    ]
    return TwoRuns(model, first.torque_constants, (before, after), tuple(dict.fromkeys(notes)))
