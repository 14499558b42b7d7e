"""A model from a recording, refined by simulation in a loop that holds the arm on the recorded motion.

The drives' control law is known only in part, so their logged torque is used. The simulated arm receives the logged
torque minus friction and springs, and an additional control loop holds it near the logged motion:

    M(q) ddq + h(q, dq) + F_v dq = tau_log - tau_friction - tau_spring + K_p (q_log - q) + K_v (dq_log - dq)

A correct model needs no torque of this loop, so the refinement minimises that torque (closed-loop input error, paper
eq. 9). The links' regressor is computed at simulated states, so noise of accelerations enters only through the loop.
Friction and springs keep their estimates and are computed on the logged motion. The loop's bandwidth is the frequency
up to which the model must explain the torque.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky

from dynid.control.controller import ControllerSettings
from dynid.errors import DataError
from dynid.identification.closed_loop.clie import ClieOptions, refine_loop
from dynid.identification.closed_loop.loop_data import ClosedLoopData
from dynid.identification.closed_loop.simulation import ClosedLoop
from dynid.identification.data.curves import curves_through
from dynid.identification.feasibility.consistent import consistent_projection
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.model.springs import without_springs
from dynid.recording.log import Log
from dynid.robot import FloatArray, Robot
from dynid.runtime.model import Model

CYCLE_S, SAMPLE_S = 0.001, 0.02
EDGE_S = 0.5  # omitted time at both ends, where the loop starts and the splines end [s]
EPS_KG_M2 = 1e-4  # smallest allowed eigenvalue of M(q) on the path [kg m^2]
STRIDE = 2  # cycles per step of the Jacobian
VELOCITY_FILTER_CYCLES = 0.25


@dataclass(frozen=True, eq=False)
class Refined:
    """Result of a refinement; friction and springs are those of the start.

    Attributes:
        bandwidth_hz: bandwidth of the loop [Hz].
        reason: reason why the refinement ended.
        cost: sum of squares relative to that of the start.
        path: model whose M(q) is positive definite on the path.
        consistent: model of least cost within the robot's physical bounds, by a quadratic model of the cost that holds
            near the refinement's end.
    """

    bandwidth_hz: float
    reason: str
    cost: float
    path: Model
    consistent: Model


def refined(robot: Robot, log: Log, start: Model, slow_rad_s: float, bandwidth_hz: float) -> Refined:
    """Return the consistent model of a log, refined by simulation.

    Args:
        log: log from which the model was identified, without gaps.
        start: model to refine, with its springs and friction.
        slow_rad_s: speed below which a joint may stick [rad/s].
        bandwidth_hz: bandwidth of the loop that holds the arm on the logged motion [Hz].

    Raises:
        DataError: the log has no torques.
        InfeasibleError: the loop cannot be simulated, or no model is consistent.
    """
    mount = start.mount
    whole, phi0 = ArmModel.of(robot, mount=mount), start.base.values
    viscous = robot.file.structure.model_copy(update={"coulomb_friction": False})
    core = ArmModel.of(without_springs(robot), mount=mount, structure=viscous)
    columns = np.array([whole.names.index(name) for name in core.names])
    # torques in units of the largest limit: a large arm's gains would exceed the bounds of the controller's settings
    unit = float(robot.torque_limits.max())
    motion = _Motion.of(core, columns, log, start)
    law = motion.law(bandwidth_hz, unit)
    loop = ClosedLoop(core, law, motion.data(law, slow_rad_s, unit))
    options = ClieOptions(coarse_stride=STRIDE, fine_stride=STRIDE, eps=EPS_KG_M2 / unit)
    found = refine_loop(loop, BaseParameters(core.names, phi0[columns] / unit), options)
    path = phi0.copy()
    path[columns] = unit * found.base.values
    J = loop.weighted(loop.jacobian(found.simulation, found.base, STRIDE))
    hessian = loop.normal_equations(J, np.zeros(J.shape[:2]))[0].sum(axis=0)
    # Coulomb friction and springs are not part of the loop; the largest weight keeps their values
    metric = np.diag(np.full(len(path), np.sqrt(np.diag(hessian).max())))
    metric[np.ix_(columns, columns)] = cholesky(hessian)
    bounds = robot.file.physical_bounds
    bounded = consistent_projection(whole, BaseParameters(whole.names, path), bounds, metric=metric)
    models = (
        Model(robot, BaseParameters(whole.names, phi), start.friction_law, mount) for phi in (path, bounded.base.values)
    )
    return Refined(bandwidth_hz, found.reason, found.cost / found.start_cost, *models)


@dataclass(frozen=True, eq=False)
class _Motion:
    """The logged motion on the loop's grid.

    Attributes:
        time: times of the grid, (K,) [s].
        q, dq, ddq: logged positions, velocities and accelerations, (K, n) [rad, rad/s, rad/s^2].
        tau: logged torques, (K, n) [N m].
        beside: part of the torques due to Coulomb friction and springs, (K, n) [N m].
        inertia: median inertia of every joint on the motion, (n,) [kg m^2].
    """

    time: FloatArray
    q: FloatArray
    dq: FloatArray
    ddq: FloatArray
    tau: FloatArray
    beside: FloatArray
    inertia: FloatArray

    @classmethod
    def of(cls, core: ArmModel, columns: NDArray[np.int64], log: Log, start: Model) -> "_Motion":
        """Return the motion of a log; `columns` are the core's base parameters among those of the start."""
        if log.tau is None:
            raise DataError(f"{log.name} holds no torques; a model cannot be refined from positions alone")
        motion, torques = curves_through(log.time, log.q), curves_through(log.torque_time, log.tau)
        time = np.arange(max(motion.begin, torques.begin), min(motion.end, torques.end), CYCLE_S)
        q, dq, ddq = motion.states(time)
        phi = start.base.values[columns]
        beside = start.torques(q, dq, ddq) - core.regressor(q, dq, ddq) @ phi
        M = core.inertia_matrix(q[:: round(SAMPLE_S / CYCLE_S)], BaseParameters(core.names, phi))
        inertia = np.median(np.einsum("kii->ki", M), axis=0)
        return cls(time, q, dq, ddq, torques.states(time)[0], beside, inertia)

    def law(self, bandwidth_hz: float, unit: float) -> ControllerSettings:
        """Return the torque of the loop's law, in multiples of `inertia` [N m]."""
        omega, n = 2.0 * np.pi * bandwidth_hz, len(self.inertia)
        return ControllerSettings(
            schema_version=1,
            proportional_gain_1_s2=(omega**2,) * n,
            velocity_gain_1_s=(2.0 * omega,) * n,
            inertia_kg_m2=tuple((self.inertia / unit).tolist()),
            damping_nm_s_rad=(0.0,) * n,
            pseudo_differentiation_s=VELOCITY_FILTER_CYCLES * CYCLE_S,
        )

    def data(self, law: ControllerSettings, slow_rad_s: float, unit: float) -> ClosedLoopData:
        """Return the data for the simulation of the loop."""
        feedforward = np.array(law.inertia_kg_m2) * self.ddq  # feed-forward of the law
        edge = round(EDGE_S / CYCLE_S)
        chosen = np.arange(edge, len(self.time) - edge, round(SAMPLE_S / CYCLE_S))
        size = np.sqrt(np.mean(self.tau**2, axis=0))
        return ClosedLoopData(
            q_ref=self.q,
            dq_ref=self.dq,
            ddq_ref=self.ddq,
            sample_times=(self.time - self.time[0])[chosen],
            tau=feedforward[chosen],
            initial_state=np.stack([self.q[0], self.dq[0]]),
            cycle_s=CYCLE_S,
            external=(self.tau - self.beside) / unit - feedforward,
            weights=(np.abs(self.dq[chosen]) > slow_rad_s) * size.max() / size,
            delay_cycles=0,
        )
