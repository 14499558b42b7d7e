"""A model from a log, refined by simulation in a loop that holds the arm on the logged motion.

Where the law of the drives is known in part only, its torque is taken as logged. The simulated arm gets the logged
torque, less friction and springs, and a loop of our own on top holds it near the logged motion:

    M(q) ddq + h(q, dq) + F_v dq = tau_log - tau_friction - tau_spring + K_p (q_log - q) + K_v (dq_log - dq)

A model that is right needs no help of that loop, so its torque is what is minimised (closed-loop input error, paper
eq. 9). The regressor's noise cannot bias this as it biases least squares: states are the simulation's own. The loop's
bandwidth says up to which frequency the model must explain the torque.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.closed_loop.clie import ClieOptions, refine
from benchmarks.closed_loop.loop_data import ClosedLoopData
from dynid.control.controller import ControllerSettings
from dynid.errors import DataError
from dynid.identification.feasibility.consistent import consistent_projection
from dynid.identification.logs.curves import curves_through
from dynid.identification.logs.identify import LogModel
from dynid.identification.logs.log import Log
from dynid.identification.logs.rows import Point, RowSettings, Stretch
from dynid.identification.logs.springs import log_arm
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Robot

CYCLE_S, SAMPLE_S = 0.001, 0.02
EDGE_S = 0.5  # at both ends: the loop starts, the splines end
VELOCITY_FILTER_CYCLES = 0.25


@dataclass(frozen=True, eq=False)
class Refined:
    """A refinement.

    Attributes:
        bandwidth_hz: of the loop.
        reason: why it ended.
        cost: sum of squares over that of the start.
        path: base parameters, friction and springs; M(q) is positive definite on the path.
        consistent: the same within the robot's physical bounds.
    """

    bandwidth_hz: float
    reason: str
    cost: float
    path: Point
    consistent: Point


def refined(robot: Robot, log: Log, start: LogModel, settings: RowSettings, bandwidth_hz: float) -> Refined:
    """Refine the consistent model of a log by simulation.

    Args:
        log: what the model was identified from, without gaps.
        start: the model, with its springs and friction.
        settings: whose speed below which a joint may stick is used.
        bandwidth_hz: of the loop that holds the arm on the logged motion.

    Raises:
        DataError: the log has no torques.
        InfeasibleError: the loop cannot be simulated, or no model is consistent.
    """
    whole = ArmModel.of(robot)
    core = ArmModel.of(robot, structure=robot.file.structure.model_copy(update={"coulomb_friction": False}))
    columns = np.array([whole.names.index(name) for name in core.names])
    phi0, unit = start.point.phi[: len(whole.names)], float(robot.torque_limits.max())
    data, law = _loop(log_arm(robot), core, columns, log, start.point, settings, bandwidth_hz, unit)
    begin = BaseParameters(core.names, phi0[columns] / unit)
    found = refine(core, law, data, begin, ClieOptions(coarse_stride=4, fine_stride=2))
    path = phi0.copy()
    path[columns] = unit * found.base.values
    metric = start.fit.metric(len(whole.names))
    bounded = consistent_projection(whole, BaseParameters(whole.names, path), robot.file.physical_bounds, metric=metric)
    points = (start.fit.given(path), start.fit.given(bounded.base.values))
    return Refined(bandwidth_hz, found.reason, found.cost / found.start_cost, *points)


def _loop(
    arm: ArmModel,
    core: ArmModel,
    columns: FloatArray,
    log: Log,
    point: Point,
    settings: RowSettings,
    bandwidth_hz: float,
    unit: float,
) -> tuple[ClosedLoopData, ControllerSettings]:
    """What the loop is simulated with, and its law; torques in units of so many N m, masses in as many kg."""
    if log.tau is None:
        raise DataError(f"{log.name} holds no torques; a model cannot be refined from positions alone")
    motion, torques = curves_through(log.time, log.q), curves_through(log.time, log.tau)
    time = np.arange(motion.begin, motion.end, CYCLE_S)
    q, dq, ddq = motion.states(time)
    links = core.regressor(q, dq, ddq) @ point.phi[columns]
    beside = Stretch.of(arm, (q, dq, ddq)).torques(point)[1].tm - links  # friction and springs
    M = core.inertia_matrix(q[::25], BaseParameters(core.names, point.phi[columns]))
    inertia = np.median(np.einsum("kii->ki", M), axis=0) / unit
    omega = 2.0 * np.pi * bandwidth_hz
    law = ControllerSettings(
        schema_version=1,
        proportional_gain_1_s2=(omega**2,) * core.axes,
        velocity_gain_1_s=(2.0 * omega,) * core.axes,
        inertia_kg_m2=tuple(inertia.tolist()),
        damping_nm_s_rad=(0.0,) * core.axes,
        pseudo_differentiation_s=VELOCITY_FILTER_CYCLES * CYCLE_S,
    )
    feedforward = inertia * ddq  # the law's own, which is no part of the help that the model needs
    chosen = np.arange(round(EDGE_S / CYCLE_S), len(time) - round(EDGE_S / CYCLE_S), round(SAMPLE_S / CYCLE_S))
    tau = torques.states(time)[0]
    size = np.sqrt(np.mean(tau**2, axis=0))
    data = ClosedLoopData(
        q_ref=q,
        dq_ref=dq,
        ddq_ref=ddq,
        sample_times=(time - time[0])[chosen],
        tau=feedforward[chosen],
        initial_state=np.stack([q[0], dq[0]]),
        cycle_s=CYCLE_S,
        external=(tau - beside) / unit - feedforward,
        weights=(np.abs(dq[chosen]) > settings.slow_rad_s) * size.max() / size,
        delay_cycles=0,
    )
    return data, law
