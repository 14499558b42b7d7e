"""Validation of a model on recordings that were not used to identify it (arXiv:2605.15949, section VI-C)."""

from collections.abc import Mapping as Named
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from dynid.errors import DataError, refuse_other_kind
from dynid.identification.bands import TorqueBands
from dynid.identification.checks import DATA_TO_PREDICT, HELD_OUT, judge
from dynid.identification.data.preprocessing import Samples
from dynid.identification.data.recordings import Recording, Several, read_recordings, torque_sentence
from dynid.identification.data.repeats import repeat_note
from dynid.identification.late_torques import in_time
from dynid.identification.prediction import Motion, predict, with_dynamics
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.recording.mapping import Mapping
from dynid.runtime.model import Model
from dynid.threads import on_one_thread
from dynid.verdict import Verdict


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions of a model for held-out recordings, with the checks of their data and errors.

    Attributes:
        joint_names: names of the joints, (n,).
        interval_s: sampling interval [s].
        motions: measured and predicted torques of each recording.
        verdict: checks of the data and of the torque errors.
        sources: path and SHA-256 of each recording.
        notes: remarks about the recordings.
        torques: sentences about the torque constants of the recordings.
        simulated: names of the recordings that come from a simulated arm.
        other_models: predictions of other models for the same samples, by model name.
    """

    joint_names: tuple[str, ...]
    interval_s: float
    motions: tuple[Motion, ...]
    verdict: Verdict
    sources: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    torques: tuple[str, ...] = ()
    simulated: tuple[str, ...] = ()
    other_models: dict[str, tuple[Motion, ...]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the validation as plain values: the checks, errors per recording and axis, and the notes."""
        bags = {one.name: one.as_dict(self.joint_names) for one in self.motions}
        told = {"torques": list(self.torques), "notes": list(self.notes), "simulated": list(self.simulated)}
        return self.verdict.as_dict() | {"interval_s": self.interval_s, "bags": bags} | told


def refuse_other_constants(name: str, constants: tuple[float, ...], expected: tuple[float, ...]) -> None:
    """Raise DataError if a recording's torque constants differ from the model's.

    Args:
        name: name of the recording, for the message.
        constants: torque constants of the recording, (n,) [N m/A].
        expected: torque constants of the model, (n,) [N m/A].
    """
    if constants != expected:
        raise DataError(
            f"{name} was recorded with torque constants {constants} N m/A at the joints, the model identified with "
            f"{expected}: its torques are not comparable"
        )


@on_one_thread
def validate(
    model: Model,
    recordings: Several,
    *,
    settings: IdentificationSettings | None = None,
    interval_s: float | None = None,
    mapping: Mapping = None,
    bands: TorqueBands | None = None,
    fitted: Samples | None = None,
    other_models: Named[str, Model] = MappingProxyType({}),
    compensate_delay: bool = True,
    beside: Sequence[Recording] = (),
) -> HeldOut:
    """Return the torques that a model predicts for held-out recordings, and the checks of their errors.

    A delay of torques in a slow recording that states none is estimated from this recording and compensated, as in an
    identification; a note states it.

    Args:
        model: the model. Each prediction uses the gravity direction of the mount at which the arm was recorded.
        recordings: one or several of: bags, CSV files, data sets, folders of them, recordings that were already read.
        settings: settings of the identification; None reads the robot's identification.yaml.
        interval_s: sampling interval [s]; None uses that of the settings.
        mapping: meaning of the columns of CSV files, or of the topics and units of bags and data sets.
        bands: object that computes standard deviations of the predicted torques; None computes none.
        fitted: samples to which the model was fitted. A note names each recording that repeats their motion. None if
            the samples are not known.
        other_models: other models that predict the same samples, by name; no check uses their errors.
        compensate_delay: whether to estimate and compensate the delay of torques in slow recordings; False if this was
            already done.
        beside: the fitted recordings, from whose names those of the held-out recordings must differ.

    Raises:
        InputNotFoundError, DataError: a recording cannot be used or has other torque constants, or a recording is
            given twice.
        ConfigurationError: `model` is not a `Model` object, but, for example, a path.
    """
    refuse_other_kind(model, Model, "the model", "load it with dynid.load_model first")
    robot = model.robot
    settings = settings or load_identification(robot)
    sources = read_recordings(recordings, robot, mapping, beside=beside)
    motions: list[Motion] = []
    others: dict[str, list[Motion]] = {name: [] for name in other_models}
    repeats: list[str] = []
    verdict = Verdict(())
    for source in sources:
        if model.torque_constants:
            refuse_other_constants(str(source.path), source.torque_constants, model.torque_constants)
        if source.name in (other.name for other in motions):
            raise DataError(f"{source.path} is given twice: name each recording once")
        late: tuple[str, ...] = ()
        if compensate_delay:  # of each recording by itself, because another logger may have recorded it
            (source,), _, late = in_time(robot, [source], settings)
        portion = source.portion("held out", settings, interval_s)
        slow = settings.coulomb_friction.slow_rad_s
        motion = with_dynamics(predict(model, portion), model, portion, slow)
        motions.append(replace(motion, delay="; ".join(late)))
        for name, other in other_models.items():
            others[name].append(predict(other, portion))
        if fitted is not None:
            repeats += repeat_note(source.name, fitted, portion.samples)
        if bands is not None:
            motions[-1] = bands.with_deviations(motions[-1], model.arm(portion.mount), portion.samples)
        verdict += judge(DATA_TO_PREDICT, portion.samples.quality, settings, of=source.name)
        verdict += judge(HELD_OUT, motions[-1:], settings)
    return HeldOut(
        robot.joint_names,
        settings.sampling_interval_s if interval_s is None else interval_s,
        tuple(motions),
        verdict,
        tuple((str(one.path), one.sha256) for one in sources),
        (
            *(f"{one.name}: {note}" for one in sources for note in one.notes),
            *(note for one in motions for note in one.notes),
            *repeats,
        ),
        tuple(dict.fromkeys(torque_sentence(one.torque_constants, robot) for one in sources)),
        tuple(one.name for one in sources if one.simulated),
        {name: tuple(found) for name, found in others.items()},
    )
