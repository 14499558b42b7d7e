"""Result of an identification: the model with its verdict, and everything that its files and reports contain."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dynid import __version__
from dynid.export.result_files import URDF_FILE, simulator_texts, write_exports
from dynid.identification.data.recordings import simulated_sentence, torque_sentence
from dynid.identification.determined import Determined
from dynid.identification.diagnosis.diagnosis import Diagnosis
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.torque_errors import TorqueErrors
from dynid.identification.export_errors import error_sentences, exported_models
from dynid.identification.feasibility.audit import AuditResult
from dynid.identification.feasibility.consistent import ConsistentModel
from dynid.identification.goal_response import GoalResponse
from dynid.identification.prediction import Motion, pooled_errors, relative_errors
from dynid.identification.settings import IdentificationSettings
from dynid.identification.setup import SetupEstimate
from dynid.identification.stages import CampaignFiles, Method, Stage
from dynid.identification.steadiness.steadiness import Steadiness
from dynid.identification.undetermined_groups import undetermined
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
from dynid.model.standard import to_file
from dynid.recording.held_efforts import HELD
from dynid.robot import Robot
from dynid.runtime.model import Model
from dynid.verdict import Verdict


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
        steadiness_to_the_end: changes of the arm during the whole recordings, including their held-out ends. The search
            for them is made only if the fitted part alone shows no change that is large enough to refuse the model.
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
        6. smaller changes of the arm, only if the model is refused.

        If the model is refused and none of these sentences applies, the result consists of sentences about the changes
        that only show if the held-out ends of the recordings are included.
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
        return torque_sentence(self.torque_constants, self.robot)

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
