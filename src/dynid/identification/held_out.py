"""Validation of a model on recordings that it was not identified from (paper VI-C)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import qr

from dynid.errors import DataError
from dynid.identification.checks import DATA_TO_PREDICT, HELD_OUT, judge
from dynid.identification.data.sources import Mapping, Portion, Recorded, Source, load_recording, torque_sentence
from dynid.identification.estimators.gear_fit import KnownGears, bounded
from dynid.identification.estimators.regression import Regression
from dynid.identification.prediction import Motion, pooled_errors, predict
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.identified import Model
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Robot
from dynid.verdict import Verdict


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What a model predicts for recordings, the checks of data and errors, and the recordings with their hashes.

    `torques` says in words which torque constants the recorded torques rest on.
    """

    joint_names: tuple[str, ...]
    interval_s: float
    motions: tuple[Motion, ...]
    verdict: Verdict
    sources: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    torques: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values: errors per recording and axis, then the checks."""
        bags = {one.name: one.as_dict(self.joint_names) for one in self.motions}
        return self.verdict.as_dict() | {"interval_s": self.interval_s, "bags": bags, "torques": list(self.torques)}


def refuse_other_constants(name: str, constants: tuple[float, ...], expected: tuple[float, ...]) -> None:
    """Raise DataError where a recording's torques were made with other torque constants (n,) than the model's."""
    if constants != expected:
        raise DataError(
            f"{name} was recorded with torque constants {constants} N m/A, the model identified with {expected}: its "
            "torques are not comparable"
        )


def validate(
    model: Model,
    recordings: Sequence[Recorded],
    *,
    settings: IdentificationSettings | None = None,
    interval_s: float | None = None,
    mapping: Mapping = None,
) -> HeldOut:
    """Predict the torques of recordings, and judge the errors.

    Args:
        model: what predicts them, at the mount of each recording.
        recordings: bags, CSV files or recordings that were read already.
        settings: None reads the robot's identification.yaml.
        interval_s: sampling interval; None is the settings' own.
        mapping: what the columns of CSV files are.

    Raises:
        InputNotFoundError, DataError: a recording cannot be used, rests on other torque constants, or two have one
            name.
    """
    robot = model.robot
    settings = settings or load_identification(robot)
    sources = [one if isinstance(one, Source) else load_recording(one, robot, mapping) for one in recordings]
    motions: list[Motion] = []
    verdict = Verdict(())
    for source in sources:
        if model.torque_constants:
            refuse_other_constants(str(source.path), source.torque_constants, model.torque_constants)
        if source.name in (other.name for other in motions):
            raise DataError(f"two recordings are called '{source.name}'; validate them one after the other")
        portion = source.portion("held out", settings, interval_s)
        motions.append(predict(model, portion))
        verdict += judge(DATA_TO_PREDICT, portion.samples.quality, settings, of=source.name)
        verdict += judge(HELD_OUT, motions[-1:], settings)
    return HeldOut(
        robot.joint_names,
        interval_s or settings.sampling_interval_s,
        tuple(motions),
        verdict,
        tuple((str(one.path), one.sha256) for one in sources),
        (
            *(f"{one.name}: {note}" for one in sources for note in one.notes),
            *(note for one in motions for note in one.notes),
        ),
        tuple(dict.fromkeys(torque_sentence(one.torque_constants, robot.joint_names) for one in sources)),
    )


@dataclass(frozen=True, eq=False)
class HeldOutSet:
    """Held-out bags of one arm, ready to judge many parameter sets; may be empty.

    Attributes:
        portions: samples of every bag, at its own mount.
        regressions: of every bag, linearised where the arm's friction is known; it may be `ignored`.
        plain: of every bag, without friction.
        torque_constants: of every bag [N m/A].
        names: of the base parameters, (p,).
    """

    portions: tuple[Portion, ...]
    regressions: tuple[Regression, ...]
    plain: tuple[Regression, ...]
    torque_constants: tuple[tuple[float, ...], ...]
    names: tuple[str, ...]

    @classmethod
    def load(
        cls, robot: Robot, bags: Sequence[Path], settings: IdentificationSettings, known: KnownGears | None = None
    ) -> "HeldOutSet":
        """Read bags; samples are taken at the settings' own interval, each bag having its own mount.

        Args:
            robot: of the bags.
            bags: held-out bags.
            settings: how they are treated.
            known: friction of the arm, at which torques are linearised; None fits it to each bag.

        Raises:
            InputNotFoundError, DataError: a bag cannot be used.
        """
        sources = [load_recording(bag, robot) for bag in bags]
        portions = tuple(source.portion("held out", settings) for source in sources)
        arms = [ArmModel.of(robot, mount=one.mount) for one in portions]
        pairs = [(arm, one.samples) for arm, one in zip(arms, portions, strict=True)]
        return cls(
            portions,
            tuple(Regression.stack(arm, samples, settings.coulomb_friction, known) for arm, samples in pairs),
            tuple(Regression.stack(arm, samples, None) for arm, samples in pairs),
            tuple(one.torque_constants for one in sources),
            ArmModel.of(robot).names,
        )

    def refuse_other_constants(self, expected: tuple[float, ...]) -> None:
        """Raise DataError where a bag was recorded with other torque constants."""
        for one, constants in zip(self.portions, self.torque_constants, strict=True):
            refuse_other_constants(one.name, constants, expected)

    def validate(self, phi: BaseParameters, friction: FloatArray | None = None) -> tuple[Motion, ...]:
        """What phi, with the parameters of friction beside it, predicts for every bag."""
        rows = self.plain if friction is None else self.regressions
        pairs = zip(self.portions, rows, strict=True)
        return tuple(Motion.of(one, one.samples.tau - own.misfit(phi.values, friction)) for one, own in pairs)

    def relative_error(self, phi: BaseParameters, friction: FloatArray | None = None) -> float:
        """|| tau - tau_hat || / || tau || over all bags, of phi and parameters of friction; NaN without bags."""
        return pooled_errors(self.validate(phi, friction)).relative if self.portions else float("nan")

    def direct_fit(self, *, with_friction: bool = True) -> tuple[BaseParameters, FloatArray | None]:
        """The least-squares fit to the held-out bags themselves: no set of this structure predicts them better.

        Args:
            with_friction: friction too, where the settings say that it is estimated.
        """
        own, p = self.regressions if with_friction else self.plain, len(self.names)
        rows = np.concatenate([one.judged_rows() for one in own])
        lower, upper = own[0].bounds
        found = bounded(qr(rows, mode="r", check_finite=False)[0][: rows.shape[1]], lower, upper)
        count = own[0].friction_size
        return BaseParameters(self.names, found[count : count + p]), found[:count] if count else None
