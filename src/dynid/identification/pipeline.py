"""Pipeline from recordings to a checked model: preprocess, estimate, project, audit, validate and check.

The projection gives the closest physically consistent model. The audit searches for the smallest eigenvalue of the
inertia matrix over all poses. Each stage is a module of its own; this file joins them and collects their checks into
one verdict.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dynid import __version__
from dynid.errors import DataError, UndeterminedError, refuse_other_kind
from dynid.export.result_files import URDF_FILE, simulator_texts, write_exports
from dynid.hardware.safety.overload import known_droop
from dynid.identification.bands import TorqueBands
from dynid.identification.checks import (
    DATA,
    FITTED,
    FRICTION,
    HELD_OUT,
    PREDICTED,
    SETUP,
    TO_THE_END,
    Fitted,
    OneRegression,
    judge,
)
from dynid.identification.cross_validation import CrossValidation, cross_validated
from dynid.identification.data.parts import Span, parts_of
from dynid.identification.data.recordings import (
    Portion,
    Recording,
    Several,
    load_recordings,
    refuse_fitted,
    refuse_repeated,
    rows_of,
    simulated_sentence,
    torque_sentence,
)
from dynid.identification.data.repeats import repeat_note
from dynid.identification.data.row_choice import RowChoice
from dynid.identification.data.sample_sets import join
from dynid.identification.data.samples import Samples
from dynid.identification.determined import Determined
from dynid.identification.diagnosis.causes import cause_of
from dynid.identification.diagnosis.diagnosis import Diagnosis, diagnose
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.table import estimator
from dynid.identification.estimators.torque_errors import TorqueErrors
from dynid.identification.export_errors import MODEL_FILE, error_sentences, errors_of, exported_models, predicted_by
from dynid.identification.feasibility.audit import AuditResult, audit
from dynid.identification.feasibility.consistent import ConsistentModel, consistent_projection
from dynid.identification.feasibility.pull import pull_of_bounds
from dynid.identification.feasibility.quick_audit import MOST_POSES, quick_audit
from dynid.identification.goal_response import GoalResponse
from dynid.identification.held_out import validate
from dynid.identification.many.reduction import LINEAR, from_all
from dynid.identification.many.spread import kept
from dynid.identification.noisy_data import noise_sentence
from dynid.identification.nominal_prior import nominal_prior, with_prior
from dynid.identification.prediction import Motion, pooled_errors, predict, relative_errors, with_dynamics
from dynid.identification.prepared import MOST_ROWS, Prepared, prepare
from dynid.identification.row_rate import with_deviations
from dynid.identification.settings import Acceptance, IdentificationSettings, load_identification
from dynid.identification.setup import SetupEstimate
from dynid.identification.small_delay import compensated
from dynid.identification.stages import CampaignFiles, Method, Refined, Stage
from dynid.identification.steadiness.steadiness import Steadiness, steadiness, steadiness_to_the_end
from dynid.identification.undetermined_groups import undetermined, undetermined_sentence
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import (
    ExportError,
    FrictionBlock,
    ModelFile,
    TorqueDeviations,
    accepted_by,
    friction_block,
    parameter_rows,
    save_model,
    with_friction,
)
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.model.standard import load_standard, to_file
from dynid.parallel import Map
from dynid.recording.held_efforts import HELD
from dynid.recording.mapping import Mapping, mappings_of
from dynid.robot import FloatArray, Robot
from dynid.runtime.model import Model
from dynid.threads import on_one_thread
from dynid.verdict import Verdict

HOLD_OUT = "; or hold out some of the time: the robot's nominal values then fill in, if unseen torques hold"
FILLED = (
    "The robot's nominal values fill in, each as uncertain as it is large: move the arm as these recordings do, and "
    "trust no parameter that is not determined"
)
Progress = Callable[[str], None]
Refine = Callable[[ArmModel, Sequence[Recording], Estimate, IdentificationSettings], Refined]


@dataclass(frozen=True, eq=False)
class Identification:
    """Complete result of one identification.

    Attributes:
        robot: the robot.
        model: geometry, structure and mount that the parameters belong to.
        estimate: the unconstrained estimate.
        consistent: the physically consistent model, which is the result.
        audit: smallest eigenvalue of the result's inertia matrix over randomly drawn poses.
        friction: friction law in addition to the base parameters; None if such friction is ignored.
        fit: torque errors of the result on the fitted data.
        motions: measured and predicted torques of every recording, held-out or cross-validated recordings first.
        verdict: named checks, all of which must pass for acceptance.
        settings: settings of the identification.
        mount: name of the mount.
        torque_constants: torque constants of the recorded currents, (n,) [N m/A]; () if torques were recorded.
        source: description of the estimator and of the steps after it.
        diagnosis: possible faults of the data.
        steadiness: changes of the arm during the fitted part of its recordings.
        steadiness_to_the_end: changes during the whole recordings, with their held-out ends. They are only searched if
            the fitted part alone shows no change that refuses the model.
        sources: path, SHA-256 and use ("fitted" or "held out") of each recording.
        mapping_of_bags: meaning of the topics and units of bags of other software, by use ("fitted" or "held out"), as
            plain values; {} if there are none.
        notes: remarks for the reader of the result.
        simulated: names of the recordings that come from a simulated arm.
        setup: estimated unknowns of the set-up (encoder zeros, tilt of the base, torque constants, torque delay); the
            model is that of the arm after their correction.
        motion_history: segments, intermediate checks and end of an adaptive run, whose motion was planned during the
            identification; {} for other recordings.
        deviations: standard deviations of predicted torques; None if they were not computed.
        exports: held-out torque errors of model.yaml, MJCF and URDF; () if no recording was held out.
        method: name of the method.
        stages: stages of the method before the result, the unconstrained estimate first.
        rows: description of how the torque equations were made from the recordings; "" for a campaign.
        noise: sentence that names noise as the only reason of a refusal; "" without one.
        goals: response of servos in position control to their goals; None if goals were not recorded.
        refinement: description of the end of a closed-loop refinement; "" without a refinement.
        campaign: files that a campaign adds to the result; None for other methods.
    """

    robot: Robot
    model: ArmModel
    estimate: Estimate
    consistent: ConsistentModel
    audit: AuditResult
    friction: FrictionLaw | None
    fit: TorqueErrors
    motions: tuple[Motion, ...]
    verdict: Verdict
    settings: IdentificationSettings
    mount: str
    torque_constants: tuple[float, ...]
    source: str
    diagnosis: Diagnosis
    steadiness: Steadiness
    steadiness_to_the_end: Steadiness = field(default_factory=Steadiness)
    sources: tuple[tuple[str, str, str], ...] = ()
    mapping_of_bags: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    simulated: tuple[str, ...] = ()
    setup: tuple[SetupEstimate, ...] = ()
    motion_history: dict[str, Any] = field(default_factory=dict)
    deviations: TorqueDeviations | None = None
    exports: tuple[ExportError, ...] = ()
    method: Method = "regression"
    stages: tuple[Stage, ...] = ()
    rows: str = ""
    noise: str = ""
    goals: GoalResponse | None = None
    refinement: str = ""
    campaign: CampaignFiles | None = None

    def __repr__(self) -> str:
        state = "accepted" if self.verdict.accepted else "not accepted"
        return f"Identification({self.robot.name}, {state}, {len(self.base.names)} base parameters, {self.method})"

    @property
    def base(self) -> BaseParameters:
        """Base parameters of the result."""
        return self.consistent.base

    @property
    def standard(self) -> StandardParameters:
        """Standard parameters of the result, including its friction."""
        return with_friction(self.consistent.standard, self.friction)

    @property
    def determined(self) -> Determined | None:
        """Names of base parameters that the data determine within 10 %, and of all others; None without covariance."""
        return Determined.of(self.base, self.friction)

    @property
    def validations(self) -> tuple[Motion, ...]:
        """Motions of held-out recordings, on which the result is checked."""
        return tuple(one for one in self.motions if one.kind == "held out")

    @property
    def cross_validations(self) -> tuple[Motion, ...]:
        """Fitted motions, each block of time predicted by a fit to all other blocks; () if a motion was held out."""
        return tuple(one for one in self.motions if one.kind == "cross-validated")

    def model_file(self) -> ModelFile:
        """Return the content of model.yaml for this result."""
        rows, known = parameter_rows(self.model, self.estimate.base), self.determined
        stages = (*self.stages, Stage("result", self.base, self.fit.rmse, self.fit.relative, self.audit.lambda_min))
        return ModelFile(
            robot=self.robot.name,
            structure_hash=self.model.structure_hash,
            mount=self.mount,
            torque_constants_nm_per_a=self.torque_constants,
            feasibility="consistent",
            source=self.source,
            parameters=parameter_rows(self.model, self.base, known and known.determined),
            not_determined=undetermined(self.estimate.base),
            friction_law=self._friction_block(),
            torque_deviations=self.deviations,
            export_errors=self.exports,
            standard=to_file(self.standard, self.model.mdh, self.robot.name, self.robot.joint_names, self.source),
            provenance={
                "dynid_version": __version__,
                "method": self.method,
                "stages": [one.as_dict() for one in stages],
                "rows": self.rows,
                "refinement": self.refinement,
                **({"goals": self.goals.as_dict()} if self.goals else {}),
                "bags": [{"path": path, "sha256": sha, "used": used} for path, sha, used in self.sources],
                "settings": self.settings.model_dump(mode="json"),
                "torques": self.torque_sentence,
                "simulated": list(self.simulated),
                "worst_pose_rad": self.audit.pose.tolist(),
                "unconstrained": {row.name: row.value for row in rows},
                "suspicions": list(self.suspicions),
                "notes": list(self.notes),
                "setup": [asdict(one) for one in self.setup],
                **({"mapping_of_bags": self.mapping_of_bags} if self.mapping_of_bags else {}),
                **({"adaptive": self.motion_history} if self.motion_history else {}),
                **(self.campaign.provenance if self.campaign else {}),
            },
            **accepted_by(self.verdict),
        )

    def _friction_block(self) -> FrictionBlock | None:
        """Return the section of model.yaml with the friction law and the choice of its structure.

        The result is None if all friction is in the base parameters.
        """
        beside = self.estimate.regression.joint_friction
        if beside is None:
            return None
        ladder, structure = beside.ladder, beside.fit.structure
        return friction_block(
            self.friction,
            structure.name,
            () if ladder is None else ladder.left_out,
            beside.fit.point.drift if structure.drift else None,
            () if ladder is None else ladder.rungs,
        )

    @property
    def suspicions(self) -> tuple[str, ...]:
        """Sentences about possible faults of the recordings.

        Their order is:

        1. efforts that are updated less often than positions, only if the model is refused;
        2. noise, if it alone refuses the model;
        3. efforts that are not motor torques;
        4. changes of the arm that refuse the model by themselves;
        5. other faults;
        6. smaller changes of the arm, only if the model is refused. If there are none either, all changes that show
           only with the held-out ends of the recordings.
        """
        changes = self.steadiness.beyond(self.settings.acceptance.change_of_arm)
        later = self.steadiness_to_the_end.sudden.beyond(self.settings.acceptance.change_of_arm)
        found = (*self.diagnosis.of_efforts, *changes, *later, *self.diagnosis.sentences)
        if not self.verdict.accepted:
            held = (note for note in self.notes if HELD in note)
            noise = (self.noise,) if self.noise else ()
            found = (*held, *noise, *found, *self.steadiness.sentences) or self.steadiness_to_the_end.sentences
        return tuple(dict.fromkeys(found))

    @property
    def torque_sentence(self) -> str:
        """Sentence about the torque constants that the result is based on."""
        return torque_sentence(self.torque_constants, self.robot.joint_names)

    @property
    def simulated_sentence(self) -> str:
        """Sentence that names the recordings of a simulated arm; "" if there are none."""
        return simulated_sentence(self.simulated)

    def as_model(self) -> Model:
        """Return this result as a `Model`, which predicts torques."""
        return Model(
            self.robot,
            self.base,
            self.friction,
            self.mount,
            self.torque_constants,
            unconstrained=self.estimate.base.values,
            accepted=self.verdict.accepted,
            verdict=self.verdict,
            arms={self.mount: self.model},
        )

    def exported(self) -> dict[str, Model]:
        """Return the models that the exported MJCF and URDF contain, by file name."""
        return exported_models(self.robot, self.model.mdh, self.consistent.standard, self.mount, self.friction)

    @property
    def passed(self) -> bool:
        """Whether the model is accepted and, in a campaign, the campaign's own checks passed."""
        return self.verdict.accepted and (self.campaign is None or self.campaign.processing.accepted)

    def verdict_json(self) -> str:
        """Return the verdict as one JSON object."""
        return json.dumps(self.verdict.as_dict())

    def summary(self) -> dict[str, Any]:
        """Return the verdict, the relative torque errors on fitted and on unseen data, and how the model was made."""
        joints = self.robot.joint_names
        errors: dict[str, Any] = {"in_sample": relative_errors(self.fit, joints)}
        for key, judges in (("out_of_sample", self.validations), ("cross_validated", self.cross_validations)):
            files = {one.name: relative_errors(one.errors, joints) for one in judges}
            errors[key] = relative_errors(pooled_errors(judges), joints) | {"files": files} if judges else None
        rests: dict[str, Any] = {
            "method": self.method,
            "rows": self.rows,
            "refinement": self.refinement,
            "relative_torque_error": errors,
            "torques": self.torque_sentence,
            "goals": self.goals and self.goals.as_dict(),
            "determined": self.determined and self.determined._asdict(),
            "notes": list(self.notes),
        }
        rests |= {"suspicions": list(self.suspicions), "simulated": list(self.simulated)}
        rests |= {"setup": [asdict(one) for one in self.setup]}
        rests |= {"campaign": dict(self.campaign.summary)} if self.campaign else {}
        return self.verdict.as_dict() | rests


def nominal_standard(robot: Robot, model: ArmModel) -> FloatArray | None:
    """Return the robot's nominal standard parameters (s,) [SI]; None if its folder has none.

    The second stage of the projection to physically consistent parameters keeps the result close to these values.
    """
    path = robot.folder / robot.file.simulation.standard_parameters
    return load_standard(path, model.mdh, model.regrouping.standard).values if path.is_file() else None


@on_one_thread
def identify(
    robot: Robot,
    recordings: Several,
    *,
    validation: Several = (),
    settings: IdentificationSettings | None = None,
    progress: Progress = lambda stage: None,
    mapping: Mapping = None,
    validation_mapping: Mapping = None,
    held_out_share: float = 0.0,
    setup: Sequence[str] = (),
    span: Span = Span(),
    refine: Refine | None = None,
    spread: Map = map,
    keep: Path | None = None,
) -> Identification:
    """Identify a model from one or more recorded motions by regression.

    Args:
        robot: the robot of all recordings.
        recordings: one or several of: bags, CSV files, LeRobot data sets, folders of them, recordings that were already
            read or made from arrays.
        validation: held-out recordings, on which the result is checked.
        settings: settings of the identification; None reads the robot's identification.yaml.
        progress: function that is called with the name of each stage as it starts.
        mapping: meaning of the columns of CSV files, or of the topics and units of bags and data sets. It is a mapping
            object, its content as a dict, or the path of its file; or two of these, one for CSV files and one for bags.
        validation_mapping: mapping of held-out recordings; None is `mapping`.
        held_out_share: share of each recording's time, at its end, that is not fitted and on which the fit is checked.
        setup: unknowns of the set-up to estimate: encoder zeros, tilt of the base, torque constants, torque delay. The
            words are those of `setup.choose`, such as "tilt" or "zero:JOINT"; () estimates none.
        span: time span of each recording that is used.
        refine: function that refines the estimate; the result is then the consistent model closest to the refined
            parameters.
        spread: map function, such as that of a process pool. It distributes the reading of folders. If recordings
            exceed the memory, it also distributes the computation of R factors (QR) of their equations.
        keep: folder for intermediate results of recordings that exceed the memory. An interrupted identification
            resumes from these results. None stores none.

    Raises:
        InputNotFoundError, DataError: a recording cannot be used; the message gives the reason.
        InfeasibleError: no consistent model satisfies the robot's physical bounds.
        ConfigurationError, UnknownNameError: a word of `setup` is not part of this robot's set-up, or an argument has a
            wrong type.
    """
    refuse_other_kind(robot, Robot, "the robot", "load it with dynid.load_robot first")
    if not recordings:
        raise DataError("no bag to identify from: name at least one")
    settings = settings or load_identification(robot)
    most_rows = MOST_ROWS if refine is None else None
    sources = load_recordings(recordings, robot, mapping, progress, most_rows=most_rows, spread=spread)
    refuse_repeated(sources)
    sources = parts_of(sources, span)
    its_mapping = validation_mapping or mapping
    how = partial(
        _estimated,
        robot,
        settings=settings,
        validation=validation,
        mapping=its_mapping,
        held_out_share=held_out_share,
        setup=setup,
        progress=progress,
    )
    judged = bool(validation or held_out_share) and refine is None
    used, filled, (ready, model, samples, estimate) = _with_open_parameters(robot, settings, sources, how, judged)
    if refine is None and ready.rows.kind == "filtered":
        timed = compensated(
            model, ready, estimate, held_out_share=held_out_share, mapping=its_mapping, progress=progress
        )
        ready, estimate = timed.ready, timed.estimate
        samples = join([one.samples for one in ready.fitted])
    robot, settings, fitted, ends = ready.robot, ready.settings, ready.fitted, ready.ends
    first, estimates = ready.sources[0], ready.setup
    estimate, unseen = _of_all_recordings(ready, model, estimate, held_out_share, spread, keep, progress)
    refined = None if refine is None else refine(model, ready.sources, estimate, settings)
    sources = [one.released() for one in used]
    result = conclude(
        robot,
        settings,
        model,
        fitted,
        estimate,
        None if refined is None else refined.base,
        constants=first.torque_constants,
        refined=None if refined is None else (float(refined.converged), refined.how),
        progress=progress,
    )
    progress("validating")
    predictor = result.as_model()
    slow = settings.coulomb_friction.slow_rad_s
    kept = tuple(with_dynamics(predict(predictor, one), predictor, one, slow) for one in ends)
    bands = TorqueBands(model, estimate, samples, result.base, result.friction, settings.coulomb_friction)
    kept = tuple(bands.with_deviations(motion, model, one.samples) for motion, one in zip(kept, ends, strict=True))
    files = result.exported() if ends or ready.validation else {}  # only held-out data judge exported files
    held_out = validate(
        predictor,
        ready.validation,
        settings=settings,
        mapping=its_mapping,
        bands=bands,
        fitted=samples,
        other_models=files,
    )
    by_files = {name: (*motions, *held_out.other_models[name]) for name, motions in predicted_by(files, ends).items()}
    if its_mapping == mapping:  # with different mappings, one file may hold fitted and held-out data
        refuse_fitted([(str(one.path), one.sha256) for one in sources], held_out.sources)
    later = _changes_to_the_end(result, ready)
    crossed = CrossValidation()
    if not ends and not ready.validation:
        crossed = cross_validated(result.motions, fitted, estimate.regression)
    result = replace(
        result,
        deviations=bands.table(),
        stages=_stages_of(estimate) if refined is None else refined.stages,
        rows=ready.rows.sentence,
        goals=ready.goals,
        refinement="" if refined is None else refined.how,
        motions=(*kept, *held_out.motions, *crossed.motions, *result.motions),
        exports=errors_of({MODEL_FILE: (*kept, *held_out.motions)} | by_files),
        verdict=result.verdict
        + judge(SETUP, [estimates] if setup else ())
        + judge(TO_THE_END, () if later is None else [later], settings)
        + judge(HELD_OUT, (*kept, *crossed.motions), settings)
        + held_out.verdict,
        sources=(
            *((str(one.path), one.sha256, "fitted") for one in sources),
            *((path, sha, "held out") for path, sha in held_out.sources),
        ),
        mapping_of_bags=_described(mapping, its_mapping),
        notes=(
            *undecided(robot),
            *filled,
            *unseen,
            *(_of_averages(result, ready.rows) if ready.rows.kind == "averaged" else ()),
            *result.notes,
            *(one.sentence for one in estimates),
            *((ready.goals.sentence,) if ready.goals else ()),
            *(f"{one.name}: {note}" for one in sources for note in one.notes),
            *(f"{one.name}: {one.samples.settings.selection}" for one in fitted if one.samples.settings.selection),
            *(note for one in (*result.motions, *kept) for note in one.notes),
            *(note for one in ends for note in repeat_note(f"The {one.name}", samples, one.samples)),
            *(() if later is None else later.sudden.beside(result.steadiness).notes(settings.acceptance.change_of_arm)),
            *crossed.notes,
            *held_out.notes,
        ),
        simulated=(*(one.name for one in sources if one.simulated), *held_out.simulated),
        setup=estimates,
        steadiness_to_the_end=later or Steadiness(),
    )
    if ready.rows.kind == "averaged":
        return result
    return replace(result, noise=noise_sentence(result.verdict, result.motions))


def _changes_to_the_end(result: Identification, ready: Prepared) -> Steadiness | None:
    """Return changes of the arm during whole recordings.

    None is returned if nothing is held out, or if a change in the fitted part already refuses the model.

    Args:
        result: the result of the fitted portions.
        ready: the recordings, with their fitted portions and their held-out ends.
    """
    settings = result.settings
    if not ready.ends or result.steadiness.beyond(settings.acceptance.change_of_arm):
        return None
    names, regression = [one.name for one in ready.sources], result.estimate.regression
    return steadiness_to_the_end(result.robot, result.model, ready.fitted, ready.ends, names, regression, settings)


def _estimated(
    robot: Robot, sources: Sequence[Recording], *, settings: IdentificationSettings, progress: Progress, **how: Any
) -> tuple[Prepared, ArmModel, Samples, Estimate]:
    """Return the prepared recordings, the model of the arm, the samples, and the estimate of the parameters.

    Preparation may estimate joint zeros, torque scales, gravity direction and torque delay (the set-up of the arm). The
    recordings are then corrected by them, and the model has this direction of gravity.

    Args:
        robot: the robot.
        sources: the recordings.
        settings: settings of the identification.
        progress: function that is called with the name of each stage as it starts.
        how: further arguments of `prepare`.

    Raises:
        UndeterminedError: the recordings do not determine all parameters.
    """
    ready = prepare(robot, sources, settings, progress=progress, **how)
    model = ArmModel.of(ready.robot, mount=ready.sources[0].mount)
    samples = join([one.samples for one in ready.fitted])
    progress("estimating")
    chosen = estimator(ready.settings.estimator)
    return ready, model, samples, chosen.estimate(model, samples, ready.settings.coulomb_friction)


def _with_open_parameters(
    robot: Robot, settings: IdentificationSettings, sources: Sequence[Recording], how: Callable[..., Any], judged: bool
) -> tuple[Sequence[Recording], tuple[str, ...], tuple[Prepared, ArmModel, Samples, Estimate]]:
    """Return the estimate from recordings; nominal values may replace parameters that slow recordings do not determine.

    Args:
        robot: the robot.
        settings: settings of the identification.
        sources: the recordings.
        how: function that returns the result of `_estimated` for recordings.
        judged: whether the result is checked on held-out torques. Nominal values are used only in this case.

    Returns:
        The recordings, with a prior of nominal values if it was needed; notes about this; and the result of `how`.

    Raises:
        UndeterminedError: the recordings do not determine all parameters, and nominal values may not replace them.
    """
    try:
        return sources, (), how(sources)
    except UndeterminedError as refusal:
        prior = nominal_prior(robot, ArmModel.of(robot, mount=sources[0].mount))
        averaged = rows_of(sources, settings).kind == "averaged"
        if not averaged or prior is None or not judged:
            raise UndeterminedError(f"{refusal}{HOLD_OUT if averaged and prior is not None else ''}") from refusal
        sources = with_prior(sources, prior)
        return sources, (f"{refusal}. {FILLED}",), how(sources)


def _of_all_recordings(
    ready: Prepared,
    model: ArmModel,
    estimate: Estimate,
    held_out_share: float,
    spread: Map,
    keep: Path | None,
    progress: Progress,
) -> tuple[Estimate, tuple[str, ...]]:
    """Return the estimate from all recordings, including those that do not fit in memory, and notes about it.

    The standard deviations include the uncertainty due to a low sampling rate of the recordings, see `row_rate`.

    Args:
        ready: prepared recordings, as many as fit in memory.
        model: the arm.
        estimate: estimate from the prepared recordings.
        held_out_share: share of each recording's time, at its end, that is not fitted.
        spread: map function, such as that of a process pool, that reads the recordings and computes R factors of their
            equations.
        keep: folder for intermediate results, to resume an interrupted computation; None stores none.
        progress: function that is called with the name of each stage as it starts.
    """
    more, notes = (None, ()) if ready.halved is None else ready.halved.change(model, estimate, ready.settings)
    if ready.every and estimate.method not in LINEAR:
        used, given = len(ready.sources), len(ready.every)
        part = f"{used} of {given} recordings are used" if used < given else "part of the time is used"
        notes = (*notes, f"{part}: the estimator {estimate.method} takes no more than memory holds; ols and wls do.")
    elif ready.every:
        progress("reducing all recordings")
        mapper = spread if keep is None else kept(spread, keep)
        known = ready.every, ready.found, ready.settings, held_out_share, mapper, progress
        estimate, told = from_all(estimate, model, *known)
        notes = (*notes, *told)
    return estimate if more is None else with_deviations(estimate, more), notes


def _of_averages(result: Identification, rows: RowChoice) -> tuple[str, ...]:
    """Return notes for a model that was identified from averages of slow or unevenly sampled recordings.

    The notes describe the averages, and list the parameters that the data determine.
    """
    return (rows.sentence, *((result.determined.sentence,) if result.determined else ()))


def _described(mapping: Mapping, its_mapping: Mapping) -> dict[str, dict[str, Any]]:
    """Return mappings of bags (topics and units) as plain values, by use ("fitted", "held out"); {} if there are none.

    Args:
        mapping: mapping of the fitted recordings.
        its_mapping: mapping of the held-out recordings.
    """
    bags = {"fitted": mappings_of(mapping).bag, "held out": mappings_of(its_mapping).bag}
    return {used: own.model_dump(mode="json", exclude_defaults=True) for used, own in bags.items() if own is not None}


def _stages_of(estimate: Estimate) -> tuple[Stage, ...]:
    """Return the intermediate results of an identification by regression: only the unconstrained estimate."""
    errors = estimate.regression.errors(estimate.base.values)
    return (Stage("ols", estimate.base, errors.rmse, errors.relative),)


def conclude(
    robot: Robot,
    settings: IdentificationSettings,
    model: ArmModel,
    fitted: Sequence[Portion],
    estimate: Estimate,
    start: BaseParameters | None = None,
    *,
    constants: tuple[float, ...],
    refined: tuple[float, str] | None = None,
    seed: int = 1,
    progress: Progress = lambda stage: None,
) -> Identification:
    """Return the physically consistent model closest to given parameters, with its audit and checks on the fitted data.

    Args:
        robot: the robot.
        settings: settings of the identification.
        model: the arm as it was mounted.
        fitted: recordings that the estimate is based on.
        estimate: the unconstrained estimate.
        start: parameters to project to the closest consistent model; None uses those of the estimate.
        constants: torque constants of the recorded currents, (n,) [N m/A]; () if torques were recorded.
        refined: outcome of a closed-loop refinement: 1.0 if it converged, else 0.0, and a text that describes how it
            ended. None without a refinement.
        seed: seed of the audit, which is added to that of the settings.
        progress: function that is called with the name of each stage as it starts.

    Raises:
        InfeasibleError: no consistent model satisfies the robot's physical bounds.
    """
    progress("projecting to a consistent model")
    bounds, prior = robot.file.physical_bounds, nominal_standard(robot, model)
    target = start or estimate.base
    consistent = consistent_projection(model, target, bounds, prior=prior, metric=estimate.metric)
    regression, base = estimate.regression, consistent.base
    friction = regression.friction_model(base.values)
    pull = pull_of_bounds(model, target, consistent, bounds, estimate.metric, regression.freedom_of_deviations)
    progress("auditing")
    limits = settings.acceptance
    audited = (audit if limits.fresh_poses > MOST_POSES else quick_audit)(
        model,
        base,
        robot.audit_lower,
        robot.audit_upper,
        limit=limits.lambda_min_kg_m2,
        poses=limits.fresh_poses,
        seed=settings.audit.seed + seed,
    )
    fit, samples = regression.errors(base.values), join([one.samples for one in fitted])
    margins = (consistent.margin, bounds.pseudo_inertia_margin) if refined else None
    progress("looking for faults in the data")
    names = tuple(one.name for one in fitted)
    steady = steadiness(robot, model, samples, regression, names, limits.change_of_arm)
    diagnosis = diagnose(
        model,
        samples,
        regression,
        limits.suspicion,
        settings.coulomb_friction,
        thorough=_doubtful(fit, limits),
        nominal=nominal_prior(robot, model),
    )
    droop = known_droop(robot)
    found = Fitted(model, settings, samples, estimate, audited, fit, refined, margins, diagnosis, droop, pull, steady)
    motions = _fitted_motions(fitted, estimate, base)
    verdict = judge(DATA, samples.quality, settings)
    verdict += judge(FRICTION, [OneRegression(regression, samples.joint_names)], settings)
    verdict += judge(FITTED, [found], settings) + judge(PREDICTED, motions, settings)
    cause = "" if verdict.accepted else cause_of(model, samples, regression)
    shape = "" if regression.joint_friction is None else regression.joint_friction.shape_note
    hidden = undetermined_sentence(undetermined(estimate.base))
    return Identification(
        robot=robot,
        model=model,
        estimate=estimate,
        consistent=consistent,
        audit=audited,
        fit=fit,
        friction=friction,
        motions=motions,
        settings=settings,
        mount=fitted[0].mount,
        verdict=verdict,
        torque_constants=constants,
        source=f"identified by '{estimate.method}' with consistent projection",
        diagnosis=diagnosis,
        steadiness=steady,
        notes=(
            *filter(None, (consistent.strain_sentence, cause, shape, hidden)),
            *steady.notes(limits.change_of_arm),
            *diagnosis.notes,
        ),
        simulated=tuple(one.name for one in fitted if one.simulated),
    )


def _doubtful(fit: TorqueErrors, limits: Acceptance) -> bool:
    """Return whether the torque error in motion, of all joints or of a single joint, exceeds half of its limit."""
    joints = np.nan_to_num(fit.moving_per_axis, nan=0.0)
    return fit.moving > 0.5 * limits.relative_torque_error or bool((joints > 0.5 * limits.relative_joint_error).any())


def _fitted_motions(portions: Sequence[Portion], estimate: Estimate, base: BaseParameters) -> tuple[Motion, ...]:
    """Return the fitted portions of recordings with the torques that the result predicts.

    Args:
        portions: the fitted portions, in the order of the regression's samples.
        estimate: the unconstrained estimate, with its regression.
        base: base parameters of the result.
    """
    regression = estimate.regression
    friction = regression.friction_given(base.values)
    residual, before = (regression.misfit(phi.values, friction) for phi in (base, estimate.base))
    ends = np.cumsum([len(one.samples) for one in portions])[:-1]
    parts = zip(portions, np.split(residual, ends), np.split(before, ends), strict=True)
    return tuple(Motion.of(one, one.samples.tau - left, one.samples.tau - first) for one, left, first in parts)


def undecided(robot: Robot) -> list[str]:
    """Return a list with one note that names the undecided fields of robot.yaml; [] if there are none.

    The result of an identification is then based on the proposed values of these fields.
    """
    fields = ", ".join(robot.file.undecided)
    return [f"robot.yaml of '{robot.name}' leaves {fields} undecided; see 'dynid robot check'"] if fields else []


def exported_urdf(result: Identification) -> str:
    """Return the identified URDF as text, equal to the file that `write_model` writes."""
    texts = simulator_texts(
        result.robot,
        result.model.mdh,
        result.consistent.standard,
        result.mount,
        result.friction,
        error_sentences(result.exports),
    )
    return texts[URDF_FILE]


def write_model(folder: Path, result: Identification) -> None:
    """Write model.yaml, URDF and MJCF, and the estimate with its covariance (if the covariance is known).

    Args:
        folder: existing folder.
        result: the identification.
    """
    save_model(folder / "model.yaml", result.model_file())
    if belief := result.estimate.belief:
        belief.save(folder)
    standard = result.consistent.standard
    said = error_sentences(result.exports)
    write_exports(folder, result.robot, result.model.mdh, standard, result.mount, result.friction, said)
