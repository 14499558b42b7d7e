"""End of every identification: projection to a physically consistent model, audit, diagnosis and checks."""

from collections.abc import Callable, Sequence

import numpy as np

from dynid.hardware.safety.overload import known_droop
from dynid.identification.checks import DATA, FITTED, FRICTION, PREDICTED, Fitted, OneRegression, judge
from dynid.identification.data.recordings import Portion
from dynid.identification.data.sample_sets import join
from dynid.identification.diagnosis.causes import cause_of
from dynid.identification.diagnosis.diagnosis import diagnose
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.torque_errors import TorqueErrors
from dynid.identification.feasibility.audit import audit
from dynid.identification.feasibility.consistent import consistent_projection
from dynid.identification.feasibility.pull import pull_of_bounds
from dynid.identification.feasibility.quick_audit import MOST_POSES, quick_audit
from dynid.identification.nominal_prior import nominal_prior, nominal_standard
from dynid.identification.prediction import Motion
from dynid.identification.result import Identification
from dynid.identification.settings import Acceptance, IdentificationSettings
from dynid.identification.steadiness.steadiness import steadiness
from dynid.identification.undetermined_groups import undetermined, undetermined_sentence
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import Robot
from dynid.verdict import Verdict


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
    progress: Callable[[str], None] = lambda stage: None,
) -> Identification:
    """Return the physically consistent model closest to given parameters, with its audit and checks on the fitted data.

    Args:
        robot: the robot.
        settings: settings of the identification.
        model: model of the arm, with the mount (orientation of its base) of the recordings.
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
    bounds, nominal = robot.file.physical_bounds, nominal_standard(robot, model)
    target = start or estimate.base
    prior = None if nominal is None else nominal.values  # the second stage of the projection stays close to it
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
    verdict = _judge_data(fitted, settings)
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


def _judge_data(fitted: Sequence[Portion], settings: IdentificationSettings) -> Verdict:
    """Return the checks of the data of each fitted portion; of several portions, their names carry the portion's."""
    verdict = Verdict(())
    for one in fitted:
        verdict += judge(DATA, one.samples.quality, settings, of=one.name if len(fitted) > 1 else "")
    return verdict


def _doubtful(fit: TorqueErrors, limits: Acceptance) -> bool:
    """Return whether a relative torque error in motion exceeds half of its limit in the acceptance checks.

    The error of all joints together has one limit, and the error of each single joint another one.
    """
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
