"""One model from all bags at once: pooled least squares, and the joint refinement in the closed loop.

A campaign refines every bag by itself and chooses one of the models. Here one phi must explain all bags: the sum of
their closed-loop input errors (paper eq. 9), each axis divided by the deviation of its residuals, under the same cuts
and bounds. Friction is that of the pooled fit, as load on the simulated joints.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dynid.errors import DataError
from dynid.identification.campaign.campaign import campaign_gears
from dynid.identification.campaign.run import ESTIMATOR, Runner, clie_options
from dynid.identification.closed_loop.clie import ClieResult, refine_loop
from dynid.identification.closed_loop.friction_history import KnownFriction
from dynid.identification.closed_loop.many_loops import ManyLoops
from dynid.identification.closed_loop.recorded_loop import closed_loop_data, recorded_controller
from dynid.identification.closed_loop.simulation import ClosedLoop
from dynid.identification.data.preprocessing import preprocess_recording
from dynid.identification.data.sample_sets import join
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.table import estimator
from dynid.identification.settings import IdentificationSettings
from dynid.model.parameters import BaseParameters
from dynid.recording.recording import load_recording
from dynid.robot import Robot


@dataclass(frozen=True, eq=False)
class JointRefinement:
    """One model of many bags.

    Attributes:
        pooled: the estimate of all samples together.
        start: where the refinement began: the pooled estimate, or its projection where that is not positive definite.
        refined: the refinement.
    """

    pooled: Estimate
    start: BaseParameters
    refined: ClieResult


def refine_jointly(
    robot: Robot, bags: Sequence[Path], settings: IdentificationSettings, interval_s: float
) -> JointRefinement:
    """Pooled least squares and joint closed-loop refinement of bags of one mount.

    Args:
        interval_s: sampling interval of both.

    Raises:
        DataError: bags of different mounts or torque constants, or a bag without what a refinement needs.
        InfeasibleError: no model satisfies bounds and cuts.
    """
    recordings = [load_recording(bag, robot) for bag in bags]
    if not recordings:
        raise DataError("no bags to refine from: name at least one")
    if len({(one.hardware.mount, one.hardware.torque_constants_nm_per_a) for one in recordings}) > 1:
        raise DataError("the bags are of different mounts or torque constants: refine them separately")
    gears = campaign_gears(robot, bags, settings)
    runner = Runner(robot, settings, recordings[0].hardware.mount, gears)
    samples = join([preprocess_recording(one, robot, settings, interval_s=interval_s) for one in recordings])
    pooled = estimator(ESTIMATOR).estimate(runner.model, samples, settings.coulomb_friction, gears)
    friction = None if pooled.friction is None else KnownFriction(runner.model, pooled.base, pooled.friction)
    loops = [
        ClosedLoop(runner.model, recorded_controller(one), closed_loop_data(one, robot, settings, interval_s, friction))
        for one in recordings
    ]
    regression = pooled.regression
    residual = regression.residual(pooled.base.values, regression.friction_given(pooled.base.values))
    start = pooled.base
    if runner.audit(start).lambda_min < settings.projection.rescue_margin_kg_m2:
        start = runner.project(start, min(settings.projection.ladder_kg_m2)).base
    together = ManyLoops(loops, regression.axis_sigma(residual))
    return JointRefinement(pooled, start, refine_loop(together, start, clie_options(settings), runner.auditor))
