"""Refinement of one model from all bags together, in simulated closed loops of the recorded controllers.

A campaign refines a model for every bag separately and chooses one of the models. Here one set of parameters phi must
explain all bags. The cost is the sum over all bags of the squared differences between the torques commanded in the
recording and in the simulation (closed-loop input error, arXiv:2605.15949, eq. 9). The differences of each axis are
divided by the standard deviation of the axis's residuals. The bounds on parameters, and the conditions that keep the
inertia matrix M(q) positive definite, are those of a campaign. Friction from the fit to all bags acts as a known load
on the simulated joints.
"""

from collections.abc import Sequence

from dynid.errors import DataError
from dynid.identification.campaign.run import FRESH_SEED, Runner, clie_options, rescue
from dynid.identification.closed_loop.clie import ClieResult, refine_loop
from dynid.identification.closed_loop.friction_history import KnownFriction
from dynid.identification.closed_loop.many_loops import ManyLoops
from dynid.identification.closed_loop.recorded_loop import closed_loop_data, recorded_controller
from dynid.identification.closed_loop.simulation import ClosedLoop
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.settings import IdentificationSettings
from dynid.identification.stages import Refined, Stage, StageName
from dynid.model.parameters import BaseParameters
from dynid.recording.driver_recording import DriverRecording
from dynid.robot import Robot
from dynid.threads import on_one_thread


@on_one_thread
def refine_jointly(
    robot: Robot, recordings: Sequence[DriverRecording], settings: IdentificationSettings, pooled: Estimate
) -> Refined:
    """Refine the estimate from all recordings by simulating the closed loop of each recording; return the result.

    The inertia matrix M(q) stays positive definite over the audit domain (a box of poses) in every step. If the
    estimate itself violates this condition, it is projected before the refinement to the nearest model that satisfies
    it. After the refinement, M is checked at new poses. If M is not positive definite at one of these poses, the
    refined model is projected again (rescue, arXiv:2605.15949, eq. 12).

    Args:
        robot: the robot that was recorded.
        recordings: recordings of one mount, from which `pooled` was estimated.
        settings: settings of the identification, such as sampling interval, filter and projections.
        pooled: unconstrained least-squares estimate from all recordings.

    Raises:
        DataError: there are no recordings, the recordings differ in mount or torque constants, or a recording lacks
            data for the simulation of its closed loop.
        InfeasibleError: no model satisfies the bounds and is positive definite.
    """
    if not recordings:
        raise DataError("no bags to refine from: name at least one")
    if len({(one.hardware.mount, one.hardware.torque_constants_nm_per_a) for one in recordings}) > 1:
        raise DataError("the bags have different mounts or torque constants: refine them separately")
    runner = Runner(robot, settings, recordings[0].hardware.mount)
    together = _loops(runner, recordings, pooled)
    stages = [_stage(pooled, "ols", pooled.base, runner.audit(pooled.base).lambda_min)]
    start = pooled.base
    if (stages[0].lambda_min or 0.0) < settings.projection.rescue_margin_kg_m2:
        projected = runner.project(start, min(settings.projection.ladder_kg_m2))
        start = BaseParameters(start.names, projected.base.values)
        stages.append(_stage(pooled, "sdp", start, projected.audit.lambda_min))
    found = refine_loop(together, start, clie_options(settings), runner.auditor)
    base, lambda_min = found.base, runner.audit(found.base, FRESH_SEED).lambda_min
    stages.append(_stage(pooled, "clie", base, lambda_min, found.seconds))
    if lambda_min < settings.acceptance.lambda_min_kg_m2:
        base = rescue(runner, base)
        stages.append(_stage(pooled, "final", base, runner.audit(base, FRESH_SEED + 1).lambda_min))
    return Refined(base, tuple(stages), found.converged, _how(found, len(recordings)))


def _loops(runner: Runner, recordings: Sequence[DriverRecording], pooled: Estimate) -> ManyLoops:
    """Return the simulated closed loops of the recordings, with each axis weighted by the inverse of its noise.

    The noise is the standard deviation of the torque residuals of the estimate from all recordings.
    """
    robot, settings, model = runner.robot, runner.settings, runner.model
    friction = None if pooled.friction is None else KnownFriction(model, pooled.base, pooled.friction)
    interval = settings.sampling_interval_s
    loops = [
        ClosedLoop(model, recorded_controller(one), closed_loop_data(one, robot, settings, interval, friction))
        for one in recordings
    ]
    regression, phi = pooled.regression, pooled.base.values
    return ManyLoops(loops, regression.axis_sigma(regression.residual(phi, regression.friction_given(phi))))


def _stage(
    pooled: Estimate, name: StageName, base: BaseParameters, lambda_min: float, seconds: float | None = None
) -> Stage:
    errors = pooled.regression.errors(base.values)
    return Stage(name, base, errors.rmse, errors.relative, lambda_min, seconds)


def _how(found: ClieResult, count: int) -> str:
    """Return a text about the end of a closed-loop refinement: reason, number of steps, and reduction of the error.

    Args:
        found: result of the refinement.
        count: number of closed loops.
    """
    gain = 1.0 - (found.cost / found.start_cost) ** 0.5 if found.start_cost > 0.0 else 0.0
    bags = "one closed loop" if count == 1 else f"{count} closed loops together"
    ended = found.reason.replace("_", " ")
    return f"{ended} after {len(found.iterations)} steps over {bags}; the input error fell by {100 * gain:.2g} %"
