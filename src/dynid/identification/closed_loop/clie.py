"""Closed-loop input error refinement (arXiv:2605.15949, section IV-C, eq. 9).

    phi = argmin sum_k || w_k (tau_m(t_k) - tau_s(t_k; phi)) ||^2

tau_m is the recorded command torque at the time t_k, and tau_s the command torque of the simulated control loop. The
weight w_k is 1, or less near standstill if Coulomb friction is estimated. The optimiser is Levenberg-Marquardt with the
Jacobian from the variational equations. Every step satisfies the bounds of the parameters and the positive-definiteness
cuts (linear conditions that keep the inertia matrix M positive definite), because a simulation with an indefinite M
fails. The Jacobian is integrated with long time steps far from the solution (coarse), and with shorter ones near it
(fine).
"""

import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, eigvalsh

from dynid.control.controller import ControllerSettings
from dynid.errors import DataError, InfeasibleError
from dynid.identification.closed_loop.curvature import ResidualCurvature
from dynid.identification.closed_loop.cuts import CutSet
from dynid.identification.closed_loop.loop_data import ClosedLoopData
from dynid.identification.closed_loop.many_loops import ManyLoops
from dynid.identification.closed_loop.projection import project
from dynid.identification.closed_loop.simulation import ClosedLoop, LoopOptions, LoopSimulation
from dynid.identification.estimators.uncertainty import sandwich
from dynid.identification.feasibility.audit import Auditor, AuditResult
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters, physical_lower_bounds
from dynid.robot import FloatArray, NonNegative, Positive, Strict, read_only

Reason = Literal["converged", "no_progress", "iteration_limit"]
PATH_STEP = 16  # number of control cycles between the checked poses of the path
CUT_ROUNDS = 30
ROUND_OFF = 1e-18  # cost over the sum of squared torques, below which the cost is rounding error
SMALLEST_SIZE = 1e-4  # smaller initial parameters [SI] count as this size for the bounds
FIRST_DAMPING, MOST_DAMPING = 1e-4, 1e6


class ClieOptions(Strict):
    """Options of the closed-loop refinement.

    maximum_iterations: largest number of tried steps.
    tolerance: predicted relative decrease of the cost by a further step, below which the refinement ends.
    deviation_share: the refinement also ends if a further step changes every linear combination of parameters by less
        than this fraction of its standard deviation. The standard deviation assumes independent residuals; 0 disables
        this condition.
    coarse_tolerance: predicted relative decrease of the cost by a step, below which the fine Jacobian is used.
    coarse_stride, fine_stride: control cycles per integration step of the coarse and of the fine Jacobian (even).
    bound_factor: largest permitted |parameter| / |initial value| (100 in arXiv:2605.15949).
    eps: smallest permitted eigenvalue of the inertia matrix M [kg m^2]. It applies on the simulated path and, if the
        refinement is called with an auditor, in the box of poses that the auditor searches.
    loop: options of the simulation of the control loop.
    """

    maximum_iterations: int = 40
    tolerance: Positive = 1e-7
    deviation_share: NonNegative = 0.1
    coarse_tolerance: Positive = 1e-4
    coarse_stride: int = 8
    fine_stride: int = 4
    bound_factor: Positive = 100.0
    eps: NonNegative = 1e-4
    loop: LoopOptions = LoopOptions()


@dataclass(frozen=True)
class Iteration:
    """Record of one tried step of the refinement.

    A step that makes the inertia matrix M positive definite again, after an audit has found poses where it is not, is
    accepted even if its cost is higher.

    Attributes:
        cost: sum of squared residuals before the step [N^2 m^2].
        promised: prediction of the cost after the step, by the quadratic model of the cost [N^2 m^2].
        found: cost after the step [N^2 m^2]; inf if the simulation failed.
        accepted: whether the step was accepted.
        damping: Levenberg-Marquardt damping, as a fraction of each diagonal element of J'J, with the Jacobian J [-].
        stride: control cycles per step of the Jacobian's integration.
        cuts: number of positive-definiteness cuts (linear conditions that keep M positive definite) when the step was
            tried.
        outcome: "completed" if the loop could be simulated after the step, else the reason of the failure:
            "indefinite" (M not positive definite on the path) or "out_of_range" (a position too large, or NaN).
    """

    cost: float
    promised: float
    found: float
    accepted: bool
    damping: float
    stride: int
    cuts: int
    outcome: str


@dataclass(frozen=True, eq=False)
class ClieResult:
    """Outcome of a closed-loop refinement; arrays are read-only.

    Attributes:
        base: refined base parameters with covariance, which includes the uncertainty of external torques that the data
            contain, such as friction.
        start: parameters at the start, after a projection if they were not feasible.
        cost: sum of squared residuals at `base` [N^2 m^2].
        start_cost: sum of squared residuals at `start` [N^2 m^2].
        reason: reason why the refinement ended: "converged" (a further step would hardly change the cost or the
            parameters), "no_progress" (steps were rejected even with the largest damping) or "iteration_limit".
        iterations: all tried steps.
        cuts: final number of positive-definiteness cuts (linear conditions that keep the inertia matrix M positive
            definite).
        simulation: simulation of the loop with `base`.
        rmse: root mean square torque error per axis, (n,) [N m].
        audit: audit of the eigenvalues of M in the auditor's box of poses, for `base` if the refinement converged, else
            for the parameters that were audited last; None if no parameters were audited, as without an auditor.
        seconds: computing time [s].
    """

    base: BaseParameters
    start: BaseParameters
    cost: float
    start_cost: float
    reason: Reason
    iterations: tuple[Iteration, ...]
    cuts: int
    simulation: LoopSimulation
    rmse: FloatArray
    audit: AuditResult | None
    seconds: float

    @property
    def converged(self) -> bool:
        """Whether the refinement ended because a further step would hardly change the cost or the parameters."""
        return self.reason == "converged"


def refine(
    model: ArmModel,
    settings: ControllerSettings,
    data: ClosedLoopData,
    phi0: BaseParameters,
    options: ClieOptions | None = None,
    auditor: Auditor | None = None,
) -> ClieResult:
    """Refine base parameters so that the simulated control loop commands the recorded torques.

    Args:
        model: the arm.
        settings: settings of the control law of the experiment.
        data: reference motion and recorded command torques.
        phi0: initial parameters, from ordinary least squares, or from the projection of these to a positive-definite M.
        options: options of the refinement; None uses the defaults.
        auditor: searches a box of poses for those at which the inertia matrix M has an eigenvalue below eps. With an
            auditor, M >= eps I must hold in the whole box; with None, only on the simulated path.

    Raises:
        InfeasibleError: if the loop cannot be simulated with phi0, or no model within the bounds has M >= eps I at all
            checked poses.
        DataError: if the data do not determine all parameters, or data or phi0 do not belong to the model.
        ConfigurationError: if the settings are for another number of joints, or the model has Coulomb friction.
    """
    chosen = options or ClieOptions()
    return refine_loop(ClosedLoop(model, settings, data, chosen.loop), phi0, chosen, auditor)


def refine_loop(
    loop: ClosedLoop | ManyLoops,
    phi0: BaseParameters,
    options: ClieOptions | None = None,
    auditor: Auditor | None = None,
) -> ClieResult:
    """Refine base parameters so that one simulated loop, or several of the same arm, command the recorded torques.

    Args:
        loop: the loop or loops.
        phi0: initial parameters, from ordinary least squares, or from the projection of these to a positive-definite M.
        options: options of the refinement; its field `options.loop` has no effect here. None uses the defaults.
        auditor: searches a box of poses for those at which the inertia matrix M has an eigenvalue below eps. With an
            auditor, M >= eps I must hold in the whole box; with None, only on the simulated path.

    Raises:
        InfeasibleError: if a loop cannot be simulated with phi0, or no model within the bounds has M >= eps I at all
            checked poses.
        DataError: if the data do not determine all parameters, or phi0 does not belong to the loop's model.
    """
    begin = time.perf_counter()
    search = _Refinement(loop, phi0, options or ClieOptions(), auditor)
    reason = search.run()
    base = BaseParameters(loop.model.names, search.phi, search.covariance())
    residual = loop.data.tau - search.simulation.tau
    return ClieResult(
        base=base,
        start=search.start,
        cost=search.cost,
        start_cost=search.start_cost,
        reason=reason,
        iterations=tuple(search.iterations),
        cuts=search.cuts.count,
        simulation=search.simulation,
        rmse=read_only(np.sqrt(np.mean(residual**2, axis=0))),
        audit=search.audit,
        seconds=time.perf_counter() - begin,
    )


class _Refinement:
    """State of one closed-loop refinement: present parameters phi, simulation with phi, and linear model about phi."""

    def __init__(
        self, loop: ClosedLoop | ManyLoops, phi0: BaseParameters, options: ClieOptions, auditor: Auditor | None
    ) -> None:
        loop.model.values_of(phi0)  # raises an error for parameters of another model
        self.loop, self.options = loop, options
        self.cuts = CutSet(loop.model, options.eps, auditor, _fixed_bounds(phi0, options))
        self.audit: AuditResult | None = None
        self.iterations: list[Iteration] = []
        self.damping = FIRST_DAMPING
        self.stride = options.coarse_stride
        self.curvature = ResidualCurvature(len(phi0.values))
        freedom = max(loop.data.tau.size - len(phi0.values), 1)
        # a step s has s' J'J s = promise * cost; a step of one standard deviation in any direction has cost / freedom
        self.enough = max(options.tolerance, options.deviation_share**2 / freedom)
        self.expected, self.last_promise = np.inf, np.inf  # promised relative decreases
        self.floor = ROUND_OFF * float(np.sum(loop.data.tau**2))
        self.restoring = False  # whether the current phi violates cuts that an audit has found
        self.start = _feasible_start(phi0, options, auditor)
        self.phi = np.array(self.start.values)
        self.simulation = loop.simulate(self.phi)
        if not self.simulation.completed:
            raise InfeasibleError(
                f"the closed loop cannot be simulated with the initial parameters: {self.simulation.sentence()}; first "
                "project them to a positive-definite model"
            )
        self._accept(self.phi, self.simulation)
        self.start_cost = self.cost

    def _accept(self, phi: FloatArray, simulation: LoopSimulation) -> None:
        self.phi, self.simulation = phi, simulation
        self.residual = self.loop.weighted(self.loop.data.tau - simulation.tau)
        self.cost = float(np.sum(self.residual**2))
        self.cuts.follow(simulation.motion[0, ::PATH_STEP])
        self.linearised = False

    def _linearise(self) -> None:
        """Compute the Jacobian of the simulated torques and the normal equations at the present phi.

        Raises:
            DataError: if the simulated torques do not depend on a parameter.
        """
        self.jacobian = self.loop.weighted(self.loop.jacobian(self.simulation, self.phi, self.stride))
        hessians, gradients = self.loop.normal_equations(self.jacobian, self.residual)
        self.hessian, self.gradient = hessians.sum(axis=0), gradients.sum(axis=0)
        lengths = np.sqrt(np.diag(self.hessian))
        if not np.isfinite(lengths).all() or lengths.min() <= 1e-12 * lengths.max():
            names = [n for n, v in zip(self.loop.model.names, lengths, strict=True) if not v > 1e-12 * lengths.max()]
            raise DataError(
                f"the simulated torques do not depend on {', '.join(names)}, so this motion cannot determine them"
            )
        self.curvature.update(self.phi, self.jacobian, self.residual, self.stride)
        self.scale, self.linearised = 1.0 / lengths, True

    def _bent(self) -> FloatArray:
        """Return the Hessian of half the cost for the next step, (p, p) [SI].

        The Hessian is J'J for the Jacobian J, or J'J + S with the estimated second-order part S (`ResidualCurvature`).
        S is used if it made the prediction of the cost after the last accepted step more accurate, and if J'J + S is
        positive definite.
        """
        plain = np.asarray(self.hessian)
        if not self.curvature.trusted:
            return plain
        whole = plain + self.curvature.matrix
        lowest = float(eigvalsh(whole * np.outer(self.scale, self.scale), subset_by_index=[0, 0])[0])
        return whole if lowest > 0.0 else plain

    def _trial(self) -> tuple[FloatArray, float]:
        """Return the parameters (p,) [SI] after a damped Gauss-Newton step, and the cost predicted for them.

        The parameters minimise the damped quadratic model of the cost, subject to the parameters' bounds and all cuts
        (linear conditions that keep the inertia matrix M positive definite).
        """
        p = len(self.phi)
        hessian = self._bent()
        scaled = hessian * np.outer(self.scale, self.scale) + self.damping * np.eye(p)
        step = self.scale * cho_solve(cho_factor(scaled), self.scale * self.gradient)
        target = self.phi + step
        metric = cholesky(scaled) / self.scale
        trial = target
        for _ in range(CUT_ROUNDS):
            trial = self.cuts.nearest(target, metric, self.scale)
            if self.cuts.add_violated(trial):
                continue
            if not (self.cuts.count and self.stride == self.options.fine_stride):
                break
            # near convergence with active cuts, an audit is cheaper than a step that a later audit would reject
            audit = self.cuts.audit(self.start.with_values(trial))
            if audit is None or audit.passed:
                break
        step = trial - self.phi
        promised = self.cost - 2.0 * self.gradient @ step + step @ hessian @ step
        return trial, float(promised)

    def run(self) -> Reason:
        """Take steps until the refinement ends, and return the reason: converged, no progress or limit of steps."""
        while len(self.iterations) < self.options.maximum_iterations:
            done = self.expected < self.enough or self.cost <= self.floor
            if done and not self.restoring and self._settled():
                return "converged"
            if not self.linearised:
                self._linearise()
            trial, promised = self._trial()
            promise = (self.cost - promised) / self.cost if self.cost > 0.0 else 0.0
            if self.restoring:
                promise = np.inf
            if promise < self.options.coarse_tolerance and self.stride != self.options.fine_stride:
                self.stride, self.linearised = self.options.fine_stride, False
                continue
            if promise < self.enough:
                if self._settled():
                    return "converged"
                continue
            if not self._try(trial, promised, promise):
                return "no_progress"
        return "iteration_limit"

    def _settled(self) -> bool:
        """Audit the present phi: return whether M(q; phi) >= eps I at all poses q that the auditor examines in its box.

        For every pose that violates this condition, linear conditions on phi (cuts) are added for the next steps. If
        there is no auditor, the result is True.
        """
        self.expected = np.inf
        self.audit = self.cuts.audit(BaseParameters(self.loop.model.names, self.phi))
        self.restoring = self.audit is not None and not self.audit.passed
        return not self.restoring

    def _try(self, trial: FloatArray, promised: float, promise: float) -> bool:
        """Simulate the loop with the parameters of a trial step, and accept them if the cost decreases.

        If an audit of the present parameters has found poses at which M is not positive definite, a higher cost is
        accepted, too.

        Args:
            trial: parameters after the step, (p,) [SI].
            promised: cost that the quadratic model of the cost predicts for `trial` [N^2 m^2].
            promise: predicted decrease of the cost, relative to the present cost [-].

        Returns:
            False if the step was rejected and more damping cannot help, else True.
        """
        simulation = self.loop.simulate(trial)
        found = np.inf
        if simulation.completed:
            found = float(np.sum(self.loop.weighted(self.loop.data.tau - simulation.tau) ** 2))
        accepted = found < self.cost or (self.restoring and simulation.completed)
        self.iterations.append(
            Iteration(
                self.cost, promised, found, accepted, self.damping, self.stride, self.cuts.count, simulation.outcome
            )
        )
        gain = 0.0 if self.restoring else (self.cost - found) / (self.cost - promised)
        if accepted:
            # Gauss-Newton converges linearly: if predicted decreases shrink and are accurate, the next is predictable
            if self.linearised:
                step = trial - self.phi
                plain = self.cost - 2.0 * self.gradient @ step + step @ self.hessian @ step
                self.curvature.compare(step, float(plain), found)
            foreseeable = self.stride == self.options.fine_stride and abs(gain - 1.0) < 0.2 and self.last_promise < 1.0
            self.expected = promise * min(promise / self.last_promise, 1.0) if foreseeable else np.inf
            self.last_promise = promise
            self._accept(trial, simulation)
            if gain > 0.75:
                self.damping /= 10.0
            elif gain < 0.4 and not self.restoring:  # the residual's curvature is large: shorten the steps
                self.damping = max(10.0 * self.damping, FIRST_DAMPING)
            self.restoring = False
            return True
        self.damping = max(10.0 * self.damping, FIRST_DAMPING)
        return self.damping <= MOST_DAMPING

    def covariance(self) -> FloatArray:
        """Return the covariance matrix of the refined base parameters phi, (p, p) [SI], from the Jacobian at phi.

        This is a sandwich covariance, which takes into account that residuals of successive samples are correlated. The
        simulation may contain known external torques at the joints, such as friction; their uncertainty is added.

        Raises:
            DataError: if the number of torque samples with weight 1 does not exceed the number of parameters.
        """
        if not self.linearised:
            self._linearise()
        data, J = self.loop.data, self.jacobian
        outer = np.outer(self.scale, self.scale)
        inverse = np.linalg.inv(self.hessian * outer) * outer
        trusted = self.residual.size if data.weights is None else int((data.weights >= 1.0).sum())
        if trusted <= len(self.phi):
            raise DataError(f"{trusted} torques at speed do not determine {len(self.phi)} parameters; record longer")
        freedom = trusted / (trusted - len(self.phi))
        scores = np.einsum("knp,kn->kp", J, self.residual)
        found = sandwich(inverse, scores, float(np.median(np.diff(data.sample_times))), freedom)
        if data.load_deviation is not None:  # column of phi's changes per axis for one standard deviation of its load
            load = self.loop.weighted(data.load_deviation)
            moved = inverse @ np.einsum("knp,kn->pn", J, load)
            found += moved @ moved.T
        return found


def _fixed_bounds(phi0: BaseParameters, options: ClieOptions) -> tuple[FloatArray, FloatArray]:
    """Return bounds on single parameters as linear conditions A phi >= b, with A (m, p) and b (m,) [SI].

    The bounds of a parameter are plus and minus `bound_factor` times its absolute initial value; for this, smaller
    values count as `SMALLEST_SIZE` in the parameter's SI unit. Negative rotor inertias and negative friction are also
    excluded.

    Args:
        phi0: initial parameters.
        options: options of the refinement.
    """
    p = len(phi0.names)
    size = options.bound_factor * np.maximum(np.abs(phi0.values), SMALLEST_SIZE)
    lower = np.maximum(-size, physical_lower_bounds(phi0.names))
    return np.concatenate([np.eye(p), -np.eye(p)]), np.concatenate([lower, -size])


def _feasible_start(phi0: BaseParameters, options: ClieOptions, auditor: Auditor | None) -> BaseParameters:
    """Return the initial parameters, projected so that the inertia matrix is at least eps I in a box of poses.

    Without an auditor, only the physical lower bounds of single parameters are enforced.

    Args:
        phi0: the initial parameters.
        options: options of the refinement, with eps.
        auditor: searches the box for poses at which the inertia matrix has an eigenvalue below eps; None for no box.
    """
    lower = physical_lower_bounds(phi0.names)
    if auditor is None:
        return phi0.with_values(np.maximum(phi0.values, lower))
    return project(auditor, phi0, options.eps, lower=lower).base
