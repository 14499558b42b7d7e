"""From bags to an accepted model: preprocess, estimate, project to a consistent model, audit, validate, judge.

Each stage is a module of its own; this file only joins them and collects what they say into one verdict.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dynid import __version__
from dynid.errors import DataError
from dynid.identification.audit import AuditResult, audit
from dynid.identification.coulomb import CoulombFriction, with_friction
from dynid.identification.estimator import Estimate, TorqueErrors, estimator
from dynid.identification.feasibility import ConsistentModel, consistent_projection
from dynid.identification.held_out import HeldOut, Validation, validate_bags
from dynid.identification.model_file import ModelFile, accepted_by, friction_block, parameter_rows, save_model
from dynid.identification.preprocessing import Samples, preprocess_recording
from dynid.identification.regression import Regression
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.identification.torque_source import other_source, torque_source_check
from dynid.identification.verdict import Check, Verdict
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.model.standard import load_standard, to_file
from dynid.recording.recording import Recording, load_recording
from dynid.resources import whole_folder
from dynid.robot import FloatArray, Robot
from dynid.simulation.export import write_exports

Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Identification:
    """Everything one identification found.

    Attributes:
        robot: the robot.
        model: geometry, structure and mount that the parameters belong to.
        estimate: the unconstrained estimate.
        consistent: the consistent model, which is the result.
        audit: lambda_min of the result's inertia matrix on fresh poses.
        friction: Coulomb friction beside the result's base parameters; None where it is ignored.
        fit: torque errors of the result on the data it was identified from.
        validations: torque errors on held-out bags.
        verdict: named checks; the conjunction decides on acceptance.
        settings: what it ran with.
        sources: bags and their hashes.
        notes: what a reader of the result should know, in words.
    """

    robot: Robot
    model: ArmModel
    estimate: Estimate
    consistent: ConsistentModel
    audit: AuditResult
    friction: CoulombFriction | None
    fit: TorqueErrors
    validations: tuple[Validation, ...]
    verdict: Verdict
    settings: IdentificationSettings
    sources: tuple[tuple[str, str], ...]
    mount: str
    torque_constants: tuple[float, ...]
    notes: tuple[str, ...]

    @property
    def base(self) -> BaseParameters:
        """The resulting base parameters."""
        return self.consistent.base

    @property
    def standard(self) -> StandardParameters:
        """The resulting standard parameters."""
        return with_friction(self.consistent.standard, self.friction)

    def model_file(self) -> ModelFile:
        """The result as the content of model.yaml."""
        source = f"identified by '{self.estimate.method}' with consistent projection"
        return ModelFile(
            robot=self.robot.name,
            structure_hash=self.model.structure_hash,
            mount=self.mount,
            torque_constants_nm_per_a=self.torque_constants,
            feasibility="consistent",
            source=source,
            parameters=parameter_rows(self.model, self.base),
            coulomb_friction=friction_block(self.friction),
            standard=to_file(self.standard, self.model.mdh, self.robot.name, self.robot.joint_names, source),
            provenance={
                "dynid_version": __version__,
                "bags": [{"path": path, "sha256": sha} for path, sha in self.sources],
                "settings": self.settings.model_dump(mode="json"),
                "unconstrained": {row.name: row.value for row in parameter_rows(self.model, self.estimate.base)},
                "notes": list(self.notes),
            },
            **accepted_by(self.verdict),
        )

    def verdict_json(self) -> str:
        """The verdict as one JSON object."""
        checks = [check.model_dump(mode="json") | {"passed": check.passed} for check in self.verdict.checks]
        return json.dumps({"accepted": self.verdict.accepted, "checks": checks})


def _load(robot: Robot, bags: Sequence[Path], progress: Progress) -> list[Recording]:
    """The recordings, which must agree on mount and torque constants."""
    recordings = []
    for bag in bags:
        progress(f"reading {bag.name}")
        recordings.append(load_recording(bag, robot))
    for recording in recordings[1:]:
        first, other = recordings[0].hardware, recording.hardware
        if (first.mount, first.torque_constants_nm_per_a) != (other.mount, other.torque_constants_nm_per_a):
            raise DataError(
                f"{recordings[0].source} and {recording.source} differ in mount or torque constants "
                f"({first.mount} and {other.mount}); identify from bags of one setting"
            )
    return recordings


def _join(parts: Sequence[Samples]) -> Samples:
    """Samples of several bags one after the other; time starts anew with each, the settings are the first one's."""
    return replace(
        parts[0],
        time=np.concatenate([one.time for one in parts]),
        q=np.concatenate([one.q for one in parts]),
        dq=np.concatenate([one.dq for one in parts]),
        ddq=np.concatenate([one.ddq for one in parts]),
        tau=np.concatenate([one.tau for one in parts]),
        quality=Verdict(tuple(check for one in parts for check in one.quality.checks)),
    )


def nominal_standard(robot: Robot, model: ArmModel) -> FloatArray | None:
    """The robot's nominal standard parameters (s,), which the second stage of the projection stays close to."""
    path = robot.folder / robot.file.simulation.standard_parameters
    return load_standard(path, model.mdh).values if path.is_file() else None


def identify(
    robot: Robot, bags: Sequence[Path], *, validation_bags: Sequence[Path] = (),
    settings: IdentificationSettings | None = None, progress: Progress = lambda stage: None,
) -> Identification:  # fmt: skip
    """Identify a model from one or more bags.

    Args:
        robot: the robot the bags must be of.
        bags: what to identify from.
        validation_bags: held-out bags that judge the result.
        settings: None reads the robot's identification.yaml.
        progress: told the name of each stage as it begins.

    Raises:
        InputNotFoundError, DataError: a bag cannot be used; one sentence that says why.
        InfeasibleError: no consistent model within the robot's physical bounds.
    """
    if not bags:
        raise DataError("no bag to identify from: name at least one")
    settings = settings or load_identification(robot)
    recordings = _load(robot, bags, progress)
    hardware = recordings[0].hardware
    model = ArmModel.of(robot, mount=hardware.mount)
    progress("preprocessing")
    samples, other = _samples(robot, recordings, settings)
    progress("estimating")
    estimate = estimator(settings.estimator).estimate(model, samples, settings.coulomb_friction)
    regression = Regression.stack(model, samples, settings.coulomb_friction)
    progress("projecting to a consistent model")
    consistent = consistent_projection(
        model,
        estimate.base,
        robot.file.physical_bounds,
        prior=nominal_standard(robot, model),
        metric=regression.metric,
    )
    friction = regression.friction_model(consistent.base.values)
    compared = Verdict(() if other is None else (torque_source_check(model, settings, regression, other),))
    progress("auditing")
    acceptance = settings.acceptance
    audited = audit(
        model,
        consistent.base,
        robot.audit_lower,
        robot.audit_upper,
        limit=acceptance.lambda_min_kg_m2,
        poses=acceptance.fresh_poses,
        seed=settings.audit.seed + 1,
    )
    progress("validating")
    held_out = validate_bags(
        robot, validation_bags, lambda _: consistent.base, None, settings, hardware.torque_constants_nm_per_a, friction
    )
    _refuse_same(recordings, held_out)
    fit = regression.errors(consistent.base.values)
    return Identification(
        robot=robot, model=model, estimate=estimate, consistent=consistent, audit=audited, fit=fit,
        friction=friction, validations=held_out.validations, settings=settings, mount=hardware.mount,
        verdict=_judge(samples, estimate, audited, fit, settings) + compared + held_out.verdict,
        sources=(*((str(one.source), one.sha256) for one in recordings), *held_out.sources),
        torque_constants=hardware.torque_constants_nm_per_a,
        notes=(*(f"{one.source.name}: {note}" for one in recordings for note in one.notes), *held_out.notes),
    )  # fmt: skip


def _samples(
    robot: Robot, recordings: Sequence[Recording], settings: IdentificationSettings
) -> tuple[Samples, Samples | None]:
    """Samples of all recordings with the chosen current, and with the other one where it was recorded."""
    chosen = _join([preprocess_recording(one, robot, settings) for one in recordings])
    if any(one.applied is None for one in recordings):
        return chosen, None
    source = other_source(settings.torque_source)
    other = [preprocess_recording(one, robot, settings, torque_source=source) for one in recordings]
    return chosen, _join(other)


def _refuse_same(recordings: Sequence[Recording], held_out: HeldOut) -> None:
    """A bag that was identified from cannot judge the result."""
    seen = {one.sha256: one.source for one in recordings}
    for path, sha in held_out.sources:
        if sha in seen:
            raise DataError(
                f"{path} is the same data as {seen[sha]}, which was identified from: validate on another bag"
            )


def _judge(
    samples: Samples, estimate: Estimate, audited: AuditResult, fit: TorqueErrors, settings: IdentificationSettings
) -> Verdict:
    """All checks of an identification, in the order in which a reader asks.

    A rank too low and an inconsistent projection are errors of their stages; no such model gets as far as this.
    """
    limits = settings.acceptance
    return Verdict(
        (
            *samples.quality.checks,
            Check(
                name="condition number of the regressor",
                value=estimate.condition_number,
                limit=limits.condition_number,
            ),
            Check(
                name=f"smallest eigenvalue of M(q) over {audited.poses_checked} poses",
                value=audited.lambda_min,
                limit=limits.lambda_min_kg_m2,
                sense="at least",
                unit="kg m^2",
            ),
            Check(name="relative torque error, identification", value=fit.relative, limit=limits.relative_torque_error),
        )
    )


def write_result(result: Identification, folder: Path) -> None:
    """Write model.yaml, and MJCF, URDF and the URDF's side file, into a new folder: all or nothing.

    Raises:
        OutputExistsError: the folder exists.
    """
    with whole_folder(folder) as work:
        save_model(work / "model.yaml", result.model_file())
        write_exports(work, result.robot, result.model.mdh, result.standard, result.mount)
