"""Validation of a model on bags that it was not identified from (paper VI-C)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from dynid.errors import DataError
from dynid.identification.coulomb import CoulombFriction, friction_shape
from dynid.identification.estimator import TorqueErrors, torque_errors
from dynid.identification.preprocessing import Samples, preprocess_recording
from dynid.identification.sample_sets import seen_friction
from dynid.identification.settings import CoulombSettings, IdentificationSettings, load_identification
from dynid.identification.sources import load_source, torque_sentence
from dynid.identification.verdict import Check, Verdict
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.recording.csv_mapping import CsvMapping
from dynid.recording.recording import load_recording
from dynid.robot import FloatArray, Robot


@dataclass(frozen=True, eq=False)
class Validation:
    """Prediction of one held-out bag: name, torque errors, number of samples."""

    name: str
    errors: TorqueErrors
    samples: int


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Torque errors of a model on bags, the named checks of data and errors, and the bags with their hashes.

    `torques` says in words which torque constants the recorded torques rest on.
    """

    joint_names: tuple[str, ...]
    interval_s: float
    validations: tuple[Validation, ...]
    verdict: Verdict
    sources: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    torques: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values: errors per bag and axis, then the checks."""
        return {
            "accepted": self.verdict.accepted,
            "interval_s": self.interval_s,
            "bags": {one.name: errors_as_dict(one, self.joint_names) for one in self.validations},
            "checks": [one.model_dump(mode="json") | {"passed": one.passed} for one in self.verdict.checks],
            "torques": list(self.torques),
        }


def predict(
    model: ArmModel, phi: BaseParameters, samples: Samples, name: str, friction: CoulombFriction | None = None
) -> Validation:
    """How well phi, and Coulomb friction beside it, predict the torques of samples."""
    tau_hat = samples.seen(lambda q, dq, ddq: model.inverse_dynamics(q, dq, ddq, phi))
    if friction is not None:
        tau_hat = tau_hat + seen_friction(samples, friction)
    return Validation(name, torque_errors(samples.tau, tau_hat), len(samples))


def relative_errors(errors: TorqueErrors, joints: tuple[str, ...]) -> dict[str, Any]:
    """|| tau - tau_hat || / || tau || over all joints and per joint, as plain values."""
    return {"all": errors.relative, "joints": dict(zip(joints, errors.relative_per_axis.tolist(), strict=True))}


def pooled_relative_errors(validations: Sequence[Validation], joints: tuple[str, ...]) -> dict[str, Any]:
    """The same over all samples of several recordings."""
    error = np.sum([one.samples * one.errors.rmse_per_axis**2 for one in validations], axis=0)
    torque = np.sum([one.samples * one.errors.torque_rms_per_axis**2 for one in validations], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_axis = np.nan_to_num(np.sqrt(error / torque), posinf=np.inf)
        total = float(np.nan_to_num(np.sqrt(error.sum() / torque.sum()), posinf=np.inf))
    return {"all": total, "joints": dict(zip(joints, per_axis.tolist(), strict=True))}


def errors_as_dict(one: Validation, joints: tuple[str, ...]) -> dict[str, Any]:
    """RMSE [N m], MNE and relative error of one bag, in all and per axis."""
    errors = one.errors
    rows = zip(
        joints, errors.rmse_per_axis.tolist(), errors.mne_per_axis.tolist(), errors.relative_per_axis.tolist(),
        strict=True,
    )  # fmt: skip
    return {
        "samples": one.samples,
        "rmse_nm": errors.rmse,
        "mne": errors.mne,
        "relative": errors.relative,
        "axes": {joint: {"rmse_nm": a, "mne": b, "relative": c} for joint, a, b, c in rows},
    }


def validate_bags(
    robot: Robot, bags: Sequence[Path], phi_of: Callable[[ArmModel], BaseParameters], interval_s: float | None = None,
    settings: IdentificationSettings | None = None, torque_constants: tuple[float, ...] = (),
    friction: CoulombFriction | None = None, mapping: CsvMapping | None = None,
) -> HeldOut:  # fmt: skip
    """Predict the torques of bags or CSV files.

    Args:
        robot: the robot the bags must be of.
        bags: held-out bags or CSV files; each may have its own mount.
        phi_of: gives the parameters for the model of a bag's mount.
        interval_s: sampling interval; None is the settings' own.
        settings: None reads the robot's identification.yaml.
        torque_constants: that the model was identified with [N m/A]; () if they are not known.
        friction: Coulomb friction of the model; None is none.
        mapping: what the columns of CSV files are.

    Raises:
        InputNotFoundError, DataError: a bag cannot be used, was recorded with other torque constants, or two have one
            name.
    """
    settings = settings or load_identification(robot)
    limit = settings.acceptance.relative_torque_error
    validations: list[Validation] = []
    checks: list[Check] = []
    sources: list[tuple[str, str]] = []
    notes: list[str] = []
    torques: dict[str, None] = {}
    for bag in bags:
        source = load_source(bag, robot, settings, mapping)
        sources.append((str(source.path), source.sha256))
        notes += [f"{source.name}: {note}" for note in source.notes]
        torques[torque_sentence(source.torque_constants, robot.joint_names)] = None
        if torque_constants and torque_constants != source.torque_constants:
            raise DataError(
                f"{bag} was recorded with torque constants {source.torque_constants} N m/A, the model identified with "
                f"{torque_constants}: its torques are not comparable"
            )
        model = ArmModel.of(robot, mount=source.mount)
        samples = source.samples(settings, interval_s=interval_s)
        one = predict(model, phi_of(model), samples, source.name, friction)
        if one.name in (other.name for other in validations):
            raise DataError(f"two bags are called '{one.name}'; validate them one after the other")
        validations.append(one)
        checks += [
            one_check.model_copy(update={"name": f"{one_check.name}, {one.name}"})
            for one_check in samples.quality.checks
        ]
        checks.append(Check(name=f"relative torque error, {one.name}", value=one.errors.relative, limit=limit))
    interval = interval_s or settings.sampling_interval_s
    return HeldOut(
        robot.joint_names, interval, tuple(validations), Verdict(tuple(checks)), tuple(sources), tuple(notes),
        tuple(torques),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class HeldOutSet:
    """Held-out bags of one arm, ready to judge many parameter sets; may be empty.

    Attributes:
        samples: name and samples of every bag.
        regressors: W of every bag, (N n, p).
        coulomb: how Coulomb friction is treated.
        torque_constants: of every bag [N m/A].
        names: of the base parameters, (p,).
    """

    samples: tuple[tuple[str, Samples], ...]
    regressors: tuple[FloatArray, ...]
    torque_constants: tuple[tuple[float, ...], ...]
    names: tuple[str, ...]
    coulomb: CoulombSettings

    @classmethod
    def load(cls, robot: Robot, bags: Sequence[Path], settings: IdentificationSettings) -> "HeldOutSet":
        """Read bags; samples are taken at the settings' own interval, each bag having its own mount.

        Raises:
            InputNotFoundError, DataError: a bag cannot be used.
        """
        samples, regressors, constants = [], [], []
        names = ArmModel.of(robot).names
        for bag in bags:
            recording = load_recording(bag, robot)
            model = ArmModel.of(robot, mount=recording.hardware.mount)
            one = preprocess_recording(recording, robot, settings)
            samples.append((recording.source.name, one))
            regressors.append(one.seen(model.regressor).reshape(-1, len(names)))
            constants.append(recording.hardware.torque_constants_nm_per_a)
        return cls(tuple(samples), tuple(regressors), tuple(constants), names, settings.coulomb_friction)

    def refuse_other_constants(self, expected: tuple[float, ...]) -> None:
        """Raise DataError where a bag was recorded with other torque constants."""
        for (name, _), constants in zip(self.samples, self.torque_constants, strict=True):
            if constants != expected:
                raise DataError(
                    f"{name} was recorded with torque constants {constants} N m/A, the bags to identify from with "
                    f"{expected}: its torques are not comparable"
                )

    def validate(self, phi: BaseParameters, friction: CoulombFriction | None = None) -> tuple[Validation, ...]:
        """Torque errors of phi, with Coulomb friction beside it, on every bag."""
        found = []
        for (name, one), W in zip(self.samples, self.regressors, strict=True):
            found.append(Validation(name, torque_errors(one.tau, _predicted(one, W, phi, friction)), len(one)))
        return tuple(found)

    def relative_error(self, phi: BaseParameters, friction: CoulombFriction | None = None) -> float:
        """|| tau - W phi - C f || / || tau || over all bags; NaN without bags."""
        if not self.samples:
            return float("nan")
        tau = np.concatenate([one.tau for _, one in self.samples])
        pairs = zip(self.samples, self.regressors, strict=True)
        tau_hat = np.concatenate([_predicted(one, W, phi, friction) for (_, one), W in pairs])
        return float(np.linalg.norm(tau - tau_hat) / np.linalg.norm(tau))

    def direct_fit(self, *, with_friction: bool = True) -> tuple[BaseParameters, CoulombFriction | None]:
        """The least-squares fit to the held-out bags themselves: no set of this structure predicts them better.

        Args:
            with_friction: Coulomb friction too, where the settings say that it is estimated.
        """
        tau = np.concatenate([one.tau.ravel() for _, one in self.samples])
        W, p, v = np.concatenate(self.regressors), len(self.names), self.coulomb.transition_rad_s
        if not with_friction or self.coulomb.treatment != "estimated":
            return BaseParameters(self.names, np.linalg.lstsq(W, tau, rcond=None)[0]), None
        shape = np.concatenate([one.seen(lambda _, dq, __: friction_shape(dq, v)) for _, one in self.samples])
        n = shape.shape[1]
        columns = (shape[:, :, None] * np.eye(n)).reshape(-1, n)
        lower = np.concatenate([np.full(p, -np.inf), np.zeros(n)])
        found = lsq_linear(np.concatenate([W, columns], axis=1), tau, (lower, np.inf)).x
        return BaseParameters(self.names, found[:p]), CoulombFriction(np.maximum(found[p:], 0.0), v)


def _predicted(one: Samples, W: FloatArray, phi: BaseParameters, friction: CoulombFriction | None) -> FloatArray:
    tau_hat = (W @ phi.values).reshape(one.tau.shape)
    return tau_hat if friction is None else tau_hat + seen_friction(one, friction)
