"""A campaign's representative on its way to the accepted model: rescue, consistent projection, acceptance.

Two ways lead to a feasible model. The campaign's refinement keeps M(q) positive definite over the audit domain in every
step. The paper refines without that and rescues afterwards (eq. 12); that way is gone too, so that the size of the
rescue can be compared (Table VI). The result is the consistent model nearest to the former in torque.
"""

from dataclasses import dataclass

import numpy as np

from dynid.errors import DynidError
from dynid.identification.audit import AuditResult, audit
from dynid.identification.campaign_run import FRESH_SEED, RESCUE_SEED, Runner, RunRecord, phi_of, rescue
from dynid.identification.clie import ClieOptions, refine
from dynid.identification.closed_loop_data import closed_loop_data, recorded_controller
from dynid.identification.coulomb import CoulombFriction
from dynid.identification.estimator import Estimate, TorqueErrors, estimator
from dynid.identification.feasibility import ConsistentModel, consistent_projection
from dynid.identification.friction_checks import friction_checks
from dynid.identification.friction_history import KnownFriction
from dynid.identification.held_out import HeldOutSet, Validation
from dynid.identification.pipeline import nominal_standard
from dynid.identification.preprocessing import preprocess_recording
from dynid.identification.settings import IdentificationSettings
from dynid.identification.torque_source import other_source, torque_source_check
from dynid.identification.verdict import Check, Verdict
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.recording.recording import Recording
from dynid.robot import Robot

DIRECT_FIT_RATIO = 1.05


@dataclass(frozen=True, eq=False)
class PathRescue:
    """The paper's way: refined with M(q) positive definite on the path alone, then rescued; each with its audit."""

    clie: BaseParameters
    clie_audit: AuditResult
    rescued: BaseParameters
    rescued_audit: AuditResult


@dataclass(frozen=True, eq=False)
class RepresentativeStudy:
    """The representative and what became of it.

    Attributes:
        run: the chosen run.
        model: its geometry, structure and mount.
        final: the run's feasible set, from the refinement or its rescue.
        path_rescue: the paper's way from the same start; a sentence where it failed.
        consistent: the consistent model nearest to `final`, which is the result.
        audit: of the result, on fresh poses.
        fit: torque errors of the result on the run's own samples.
        friction: Coulomb friction that fits to the result; None where it is ignored.
        held_out: torque errors on held-out bags by set: "CLIE", "rescue" (the paper's way), "result", "direct fit" and,
            without Coulomb friction, "direct fit of base parameters".
        verdict: checks that accept the result.
    """

    run: RunRecord
    model: ArmModel
    final: BaseParameters
    path_rescue: PathRescue | str
    consistent: ConsistentModel
    audit: AuditResult
    fit: TorqueErrors
    friction: CoulombFriction | None
    held_out: dict[str, tuple[Validation, ...]]
    verdict: Verdict


def study_representative(
    robot: Robot, settings: IdentificationSettings, run: RunRecord, recording: Recording, held_out: HeldOutSet
) -> RepresentativeStudy:
    """Bring the chosen run to a consistent model and judge it.

    Args:
        robot, settings: of the campaign.
        run: the chosen run.
        recording: its bag.
        held_out: held-out bags; may be empty.

    Raises:
        InfeasibleError: no consistent model within the robot's physical bounds.
    """
    runner = Runner(robot, settings, run.mount)
    model = runner.model
    samples = preprocess_recording(recording, robot, settings, interval_s=run.interval_s)
    estimate = estimator(settings.estimator).estimate(model, samples, settings.coulomb_friction)
    regression = estimate.regression
    assert run.final is not None and run.clie is not None
    final = phi_of(run.final, model.names)
    consistent = consistent_projection(
        model, final, robot.file.physical_bounds, prior=nominal_standard(robot, model),
        metric=estimate.metric,
    )  # fmt: skip
    audited = audit(
        model, consistent.base, robot.audit_lower, robot.audit_upper, limit=settings.acceptance.lambda_min_kg_m2,
        poses=settings.acceptance.fresh_poses, seed=settings.audit.seed + RESCUE_SEED + 1,
    )  # fmt: skip
    way = _paper_way(runner, run, recording, _known_friction(model, estimate))
    sets = {"CLIE": phi_of(run.clie, model.names), "result": consistent.base}
    if isinstance(way, PathRescue):
        sets |= {"path CLIE": way.clie, "rescue": way.rescued}
    errors = {name: held_out.validate(phi, regression.friction_model(phi.values)) for name, phi in sets.items()}
    if held_out.samples:
        errors["direct fit"] = held_out.validate(*held_out.direct_fit())
        errors["direct fit of base parameters"] = held_out.validate(*held_out.direct_fit(with_friction=False))
    fit, friction = regression.errors(consistent.base.values), regression.friction_model(consistent.base.values)
    checks = [
        *friction_checks(regression, settings.acceptance, robot.joint_names),
        *_checks(robot, settings, run, consistent, audited, fit),
    ]
    if recording.applied is not None:
        source = other_source(settings.torque_source)
        other = preprocess_recording(recording, robot, settings, interval_s=run.interval_s, torque_source=source)
        checks.append(torque_source_check(model, settings, regression, other))
    checks += _held_out_checks(settings, held_out, consistent.base, friction)
    return RepresentativeStudy(
        run, model, final, way, consistent, audited, fit, friction, errors, Verdict((*samples.quality.checks, *checks))
    )


def _known_friction(model: ArmModel, estimate: Estimate) -> KnownFriction | None:
    """Coulomb friction as the run's refinement took it: beside the unconstrained parameters."""
    return None if estimate.friction is None else KnownFriction(model, estimate.base, estimate.friction)


def _paper_way(
    runner: Runner, run: RunRecord, recording: Recording, friction: KnownFriction | None
) -> PathRescue | str:
    """Refinement that looks at the path alone, then the rescue; or why it failed."""
    start = run.sdp or run.ols
    assert start is not None
    try:
        data = closed_loop_data(recording, runner.robot, runner.settings, run.interval_s, friction)
        names = runner.model.names
        clie = refine(
            runner.model, recorded_controller(recording), data, phi_of(start, names), ClieOptions(eps=0.0)
        ).base
        rescued = rescue(runner, clie)
    except DynidError as error:
        return str(error)
    effort = runner.settings.audit
    audits = [
        runner.auditor.audit(phi, poses=effort.poses, searches=effort.searches, seed=effort.seed + FRESH_SEED)
        for phi in (clie, rescued)
    ]
    return PathRescue(clie, audits[0], rescued, audits[1])


def _checks(
    robot: Robot, settings: IdentificationSettings, run: RunRecord, consistent: ConsistentModel,
    audited: AuditResult, fit: TorqueErrors,
) -> list[Check]:  # fmt: skip
    """Checks of the result without held-out bags."""
    limits = settings.acceptance
    margin = robot.file.physical_bounds.pseudo_inertia_margin
    kappa = float("nan") if run.kappa is None else run.kappa
    return [
        Check(name="condition number of the regressor", value=kappa, limit=limits.condition_number),
        Check(
            name="closed-loop refinement converged", value=float(run.clie_reason == "converged"), limit=1.0,
            sense="at least", detail=f"{run.clie_reason} after {run.clie_steps} steps",
        ),
        Check(name="smallest pseudo-inertia eigenvalue", value=consistent.margin, limit=margin, sense="at least"),
        Check(
            name=f"smallest eigenvalue of M(q) over {audited.poses_checked} fresh poses", value=audited.lambda_min,
            limit=limits.lambda_min_kg_m2, sense="at least", unit="kg m^2",
        ),
        Check(name="relative torque error, identification", value=fit.relative, limit=limits.relative_torque_error),
    ]  # fmt: skip


def _held_out_checks(
    settings: IdentificationSettings, held_out: HeldOutSet, phi: BaseParameters, friction: CoulombFriction | None
) -> list[Check]:
    """Checks of the result on held-out bags; none without such bags."""
    if not held_out.samples:
        return []
    limit = settings.acceptance.relative_torque_error
    checks = [
        Check(name=f"relative torque error, {one.name}", value=one.errors.relative, limit=limit)
        for one in held_out.validate(phi, friction)
    ]
    best = held_out.relative_error(*held_out.direct_fit())
    without = held_out.relative_error(*held_out.direct_fit(with_friction=False))
    ratio = held_out.relative_error(phi, friction) / best if best > 0 else np.inf
    checks.append(
        Check(
            name="held-out torque error over that of a fit to the held-out bags",
            value=ratio,
            limit=DIRECT_FIT_RATIO,
            detail=f"the fit's own relative error is {best:.3g}, without Coulomb friction {without:.3g}",
        )
    )
    return checks
