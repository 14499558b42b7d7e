"""From recordings to an accepted model: preprocess, estimate, project to a consistent model, audit, validate, judge.

Each stage is a module of its own; this file only joins them and collects what they say into one verdict.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynid import __version__
from dynid.errors import DataError
from dynid.identification.audit import AuditResult, audit
from dynid.identification.coulomb import CoulombFriction, with_friction
from dynid.identification.estimator import Estimate, TorqueErrors, estimator
from dynid.identification.feasibility import ConsistentModel, consistent_projection
from dynid.identification.friction_checks import friction_checks
from dynid.identification.held_out import (
    HeldOut,
    Validation,
    pooled_relative_errors,
    predict,
    relative_errors,
    validate_bags,
)
from dynid.identification.model_file import ModelFile, accepted_by, friction_block, parameter_rows, save_model
from dynid.identification.preprocessing import Samples
from dynid.identification.quick_audit import MOST_POSES, quick_audit
from dynid.identification.sample_sets import hold_out, join
from dynid.identification.settings import IdentificationSettings, load_identification
from dynid.identification.sources import Source, load_sources, torque_sentence
from dynid.identification.torque_source import other_source, torque_source_check
from dynid.identification.verdict import Check, Verdict
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.model.standard import load_standard, to_file
from dynid.recording.csv_mapping import CsvMapping
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
                "torques": self.torque_sentence,
                "unconstrained": {row.name: row.value for row in parameter_rows(self.model, self.estimate.base)},
                "notes": list(self.notes),
            },
            **accepted_by(self.verdict),
        )

    @property
    def torque_sentence(self) -> str:
        """Which torque constants the result rests on, in words."""
        return torque_sentence(self.torque_constants, self.robot.joint_names)

    def verdict_json(self) -> str:
        """The verdict as one JSON object."""
        checks = [check.model_dump(mode="json") | {"passed": check.passed} for check in self.verdict.checks]
        return json.dumps({"accepted": self.verdict.accepted, "checks": checks})

    def summary_json(self) -> str:
        """The verdict, the relative torque errors in and out of sample, and what the result rests on, as JSON."""
        joints = self.robot.joint_names
        errors: dict[str, Any] = {"in_sample": relative_errors(self.fit, joints), "out_of_sample": None}
        if self.validations:
            files = {one.name: relative_errors(one.errors, joints) for one in self.validations}
            errors["out_of_sample"] = pooled_relative_errors(self.validations, joints) | {"files": files}
        return json.dumps(
            json.loads(self.verdict_json())
            | {"relative_torque_error": errors, "torques": self.torque_sentence, "notes": list(self.notes)}
        )


def nominal_standard(robot: Robot, model: ArmModel) -> FloatArray | None:
    """The robot's nominal standard parameters (s,), which the second stage of the projection stays close to."""
    path = robot.folder / robot.file.simulation.standard_parameters
    return load_standard(path, model.mdh, model.regrouping.standard).values if path.is_file() else None


def identify(
    robot: Robot, bags: Sequence[Path], *, validation_bags: Sequence[Path] = (),
    settings: IdentificationSettings | None = None, progress: Progress = lambda stage: None,
    mapping: CsvMapping | None = None, validation_mapping: CsvMapping | None = None, held_out_share: float = 0.0,
) -> Identification:  # fmt: skip
    """Identify a model from one or more bags or CSV files.

    Args:
        robot: the robot the recordings must be of.
        bags: bags or CSV files to identify from.
        validation_bags: held-out bags or CSV files that judge the result.
        settings: None reads the robot's identification.yaml.
        progress: told the name of each stage as it begins.
        mapping: what the columns of CSV files are.
        validation_mapping: the same for held-out CSV files; None is `mapping`.
        held_out_share: part of each recording's time, at its end, that is kept from the fit and judges it.

    Raises:
        InputNotFoundError, DataError: a bag cannot be used; one sentence that says why.
        InfeasibleError: no consistent model within the robot's physical bounds.
    """
    if not bags:
        raise DataError("no bag to identify from: name at least one")
    settings = settings or load_identification(robot)
    sources = load_sources(bags, robot, settings, mapping, progress)
    first = sources[0]
    model = ArmModel.of(robot, mount=first.mount)
    progress("preprocessing")
    samples, other, kept = _samples(sources, settings, held_out_share)
    progress("estimating")
    estimate = estimator(settings.estimator).estimate(model, samples, settings.coulomb_friction)
    regression = estimate.regression
    progress("projecting to a consistent model")
    consistent = consistent_projection(
        model,
        estimate.base,
        robot.file.physical_bounds,
        prior=nominal_standard(robot, model),
        metric=estimate.metric,
    )
    friction = regression.friction_model(consistent.base.values)
    compared = Verdict(() if other is None else (torque_source_check(model, settings, regression, other),))
    progress("auditing")
    acceptance = settings.acceptance
    look = audit if acceptance.fresh_poses > MOST_POSES else quick_audit
    audited = look(
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
        robot, validation_bags, lambda _: consistent.base, None, settings, first.torque_constants, friction,
        validation_mapping or mapping,
    )  # fmt: skip
    if (validation_mapping or mapping) == mapping:  # other rows of one file are other data
        _refuse_same(sources, held_out)
    ends = tuple(predict(model, consistent.base, one, name, friction) for name, one in kept)
    fit = regression.errors(consistent.base.values)
    return Identification(
        robot=robot, model=model, estimate=estimate, consistent=consistent, audit=audited, fit=fit,
        friction=friction, validations=(*ends, *held_out.validations), settings=settings, mount=first.mount,
        verdict=_judge(samples, estimate, audited, fit, settings) + compared + _judge_ends(ends, settings)
        + held_out.verdict,
        sources=(*((str(one.path), one.sha256) for one in sources), *held_out.sources),
        torque_constants=first.torque_constants,
        notes=(*_undecided(robot), *(f"{one.name}: {note}" for one in sources for note in one.notes), *held_out.notes),
    )  # fmt: skip


def _undecided(robot: Robot) -> list[str]:
    """A note where robot.yaml still holds questions, for the result rests on their proposals."""
    fields = ", ".join(robot.file.undecided)
    return [f"robot.yaml of '{robot.name}' leaves {fields} undecided; see 'dynid robot check'"] if fields else []


def _samples(
    sources: Sequence[Source], settings: IdentificationSettings, share: float
) -> tuple[Samples, Samples | None, list[tuple[str, Samples]]]:
    """Samples to fit, the same with the other current where it was recorded, and the held-out ends with their names."""
    chosen, kept = [one.samples(settings) for one in sources], []
    if share:
        halves = [hold_out(one, share, settings.filter) for one in chosen]
        chosen = [fitted for fitted, _ in halves]
        ends = zip(sources, halves, strict=True)
        kept = [(f"last {100 * share:g} % of {source.name}", held) for source, (_, held) in ends]
    if share or not all(one.both_currents for one in sources):
        return join(chosen), None, kept
    other = other_source(settings.torque_source)
    return join(chosen), join([one.samples(settings, torque_source=other) for one in sources]), kept


def _judge_ends(ends: Sequence[Validation], settings: IdentificationSettings) -> Verdict:
    """Checks of the held-out ends."""
    limit = settings.acceptance.relative_torque_error
    return Verdict(
        tuple(Check(name=f"relative torque error, {one.name}", value=one.errors.relative, limit=limit) for one in ends)
    )


def _refuse_same(sources: Sequence[Source], held_out: HeldOut) -> None:
    """A recording that was identified from cannot judge the result."""
    seen = {one.sha256: one.path for one in sources}
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
            *friction_checks(estimate.regression, limits, samples.joint_names),
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
