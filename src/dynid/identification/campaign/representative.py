"""Computation and check of a campaign's final model from the one run that was chosen to represent all runs.

A run is the identification from one bag at one sampling interval. The chosen run is called the representative run. This
module handles three models:

1. The parameters at the end of the representative run. Its closed-loop refinement keeps the inertia matrix M(q)
   positive definite over the audit domain, a box of poses, in every step. If an audit with new poses nevertheless finds
   a pose at which M(q) is not positive definite, the run ends with a rescue: the refined parameters are projected to
   the nearest ones with positive-definite M(q) (eq. 12 of arXiv:2605.15949).
2. The result of the campaign. It is the physically consistent model whose torques are nearest to those of model 1.
3. A model for comparison, by the method of that paper. This method refines without the constraint over the audit
   domain, and always ends with a rescue (Table VI).
"""

from dataclasses import dataclass, replace

from dynid.errors import DynidError
from dynid.identification.bands import TorqueBands
from dynid.identification.campaign.checks import DIRECT_FIT, DirectFit
from dynid.identification.campaign.held_out_set import HeldOutSet
from dynid.identification.campaign.run import ESTIMATOR, FRESH_SEED, RESCUE_SEED, Runner, RunRecord, phi_of, rescue
from dynid.identification.checks import DATA_TO_PREDICT, HELD_OUT, judge
from dynid.identification.closed_loop.clie import ClieOptions, refine
from dynid.identification.closed_loop.friction_history import KnownFriction
from dynid.identification.closed_loop.recorded_loop import closed_loop_data, recorded_controller
from dynid.identification.conclusion import conclude
from dynid.identification.cross_validation import cross_validated
from dynid.identification.data.preprocessing import preprocess_recording
from dynid.identification.data.recordings import Portion
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.gear_fit import KnownGears
from dynid.identification.estimators.table import estimator
from dynid.identification.export_errors import MODEL_FILE, errors_of, predicted_by
from dynid.identification.feasibility.audit import AuditResult
from dynid.identification.prediction import Motion, pooled_errors, with_dynamics
from dynid.identification.result import Identification
from dynid.identification.settings import IdentificationSettings
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.recording.driver_recording import DriverRecording
from dynid.robot import Robot

JUDGED_SETS = ("result", "direct fit", "direct fit of base parameters")


@dataclass(frozen=True, eq=False)
class PathRescue:
    """Result of the method of arXiv:2605.15949: refinement with M(q) > 0 on the simulated path only, then a rescue.

    A rescue projects the refined model to the nearest one whose M(q) is positive definite in a whole box of poses.

    Attributes:
        clie: refined parameters.
        clie_audit: smallest eigenvalue of the inertia matrix M over the box of poses, for the refined parameters.
        rescued: parameters after the rescue.
        rescued_audit: smallest eigenvalue of the inertia matrix M over the box of poses, for the parameters after the
            rescue.
    """

    clie: BaseParameters
    clie_audit: AuditResult
    rescued: BaseParameters
    rescued_audit: AuditResult


@dataclass(frozen=True, eq=False)
class RepresentativeStudy:
    """Run that was chosen to represent all runs of a campaign, and the final model computed from it.

    Attributes:
        run: the chosen run, an identification from one bag at one sampling interval.
        final: the run's feasible parameters, from the closed-loop refinement (CLIE) or from a rescue after it. A rescue
            projects parameters to the nearest ones whose inertia matrix is positive definite.
        path_rescue: refinement and rescue by the method of arXiv:2605.15949, from the initial parameters of the run's
            own refinement; an error text if they failed.
        result: the physically consistent model nearest to `final`, with its checks.
        held_out: predicted torques of the held-out bags, by name of the parameter set. "CLIE" is the refined set of
            the run, and "result" the set of the model `result`. "path CLIE" and "rescue" are the refined and the
            rescued set of `path_rescue`. "direct fit" is fitted to the held-out bags, and "direct fit of base
            parameters" is such a fit without friction.
    """

    run: RunRecord
    final: BaseParameters
    path_rescue: PathRescue | str
    result: Identification
    held_out: dict[str, tuple[Motion, ...]]


def study_representative(
    robot: Robot,
    settings: IdentificationSettings,
    run: RunRecord,
    recording: DriverRecording,
    held_out: HeldOutSet,
    gears: KnownGears | None = None,
) -> RepresentativeStudy:
    """Return the physically consistent model nearest to the chosen run's model, with all checks.

    Args:
        robot: the robot.
        settings: settings of the campaign.
        run: the chosen run.
        recording: recording of the run's bag.
        held_out: held-out bags for the checks; may be empty.
        gears: friction that was fitted to one bag and is used in all runs, see `campaign_gears`; None means that
            friction is fitted to this run.

    Raises:
        InfeasibleError: there is no physically consistent model within the robot's bounds, such as those of masses.
    """
    runner = Runner(robot, settings, run.mount, gears)
    model = runner.model
    samples = preprocess_recording(recording, robot, settings, interval_s=run.interval_s)
    estimate = estimator(ESTIMATOR).estimate(model, samples, settings.coulomb_friction, gears)
    regression = estimate.regression
    assert run.final is not None and run.clie is not None
    final = phi_of(run.final, model.names)
    portion = Portion(recording.source.name, "fitted", recording.sha256, run.mount, samples, run.simulated)
    result = conclude(
        robot,
        settings,
        model,
        [portion],
        estimate,
        final,
        constants=run.torque_constants_nm_per_a,
        refined=(float(run.clie_reason == "converged"), f"{run.clie_reason} after {run.clie_steps} steps"),
        seed=RESCUE_SEED + 1,
    )
    way = _paper_way(runner, run, recording, _known_friction(model, estimate))
    sets = {"CLIE": phi_of(run.clie, model.names), "result": result.base}
    if isinstance(way, PathRescue):
        sets |= {"path CLIE": way.clie, "rescue": way.rescued}
    motions = {name: held_out.validate(phi, regression.friction_given(phi.values)) for name, phi in sets.items()}
    pairs, slow = zip(motions["result"], held_out.portions, strict=True), settings.coulomb_friction.slow_rad_s
    motions["result"] = tuple(with_dynamics(motion, result.as_model(), one, slow) for motion, one in pairs)
    verdict = result.verdict
    bands = TorqueBands(model, estimate, samples, result.base, result.friction, settings.coulomb_friction)
    if held_out.portions:
        motions["direct fit"] = held_out.validate(*held_out.direct_fit())
        motions["direct fit of base parameters"] = held_out.validate(*held_out.direct_fit(with_friction=False))
        pooled = [pooled_errors(motions[name]).relative for name in JUDGED_SETS]
        for one in held_out.portions:
            verdict += judge(DATA_TO_PREDICT, one.samples.quality, settings, of=one.name)
        verdict += judge(HELD_OUT, motions["result"], settings) + judge(DIRECT_FIT, [DirectFit(*pooled)])
    else:
        crossed = cross_validated(result.motions, [portion], regression)
        verdict += judge(HELD_OUT, crossed.motions, settings)
        result = replace(result, motions=(*crossed.motions, *result.motions), notes=(*result.notes, *crossed.notes))
    judged = tuple(
        bands.with_deviations(motion, ArmModel.of(robot, mount=one.mount), one.samples)
        for motion, one in zip(motions["result"], held_out.portions, strict=True)
    )
    errors = errors_of({MODEL_FILE: judged} | predicted_by(result.exported(), held_out.portions))
    result = replace(
        result, deviations=bands.table(), motions=(*judged, *result.motions), exports=errors, verdict=verdict
    )
    return RepresentativeStudy(run, final, way, result, motions)


def _known_friction(model: ArmModel, estimate: Estimate) -> KnownFriction | None:
    """Return the friction law that acts as a known load in the refinement; None if friction is not estimated.

    The law was fitted together with the unconstrained base parameters.
    """
    return None if estimate.friction is None else KnownFriction(model, estimate.base, estimate.friction)


def _paper_way(
    runner: Runner, run: RunRecord, recording: DriverRecording, friction: KnownFriction | None
) -> PathRescue | str:
    """Execute the method of arXiv:2605.15949 and return its result, or an error text if it fails.

    This method keeps M(q) positive definite only on the simulated path during the refinement; a projection (rescue)
    follows.

    Args:
        runner: executor of runs.
        run: record of the run that represents the campaign, with the initial parameters of its refinement.
        recording: recording of the run's bag.
        friction: friction that acts as a known load on the joints; None without friction.
    """
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
    audits = [runner.audit(phi, FRESH_SEED) for phi in (clie, rescued)]
    return PathRescue(clie, audits[0], rescued, audits[1])
