"""Closed-loop input error refinement (paper IV-C, eq. 9).

    phi = argmin sum_k || w_k (tau_m(t_k) - tau_s(t_k; phi)) ||^2

tau_s being the torque that the simulated loop commands, and w_k = 1 except near standstill where Coulomb friction is
estimated. Levenberg-Marquardt with the Jacobian of the variational equations; the positive-definiteness cuts and the
bounds are part of every step, so no trial leaves the models that can be simulated. Far from the solution a coarse
Jacobian steers, near it a fine one.
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
PATH_STEP = 16  # cycles between the poses of the path that are looked at
CUT_ROUNDS = 30
ROUND_OFF = 1e-18  # of the sum of squared torques: a cost below it is no longer one
SMALLEST_SIZE = 1e-4  # SI: parameters that begin near zero may become this many times bound_factor
FIRST_DAMPING, MOST_DAMPING = 1e-4, 1e6


class ClieOptions(Strict):
    """How the refinement runs.

    maximum_iterations: steps tried.
    tolerance: of the decrease that a further step promises, relative to the cost.
    deviation_share: the end, too, where a further step moves no parameter, and no linear combination of them, by more
        than this share of its standard deviation, residuals taken as independent; 0 leaves it to `tolerance`.
    coarse_tolerance: below this promise the fine Jacobian takes over.
    coarse_stride, fine_stride: control cycles per step of the Jacobian's integration, even.
    bound_factor: parameters stay within this many times their first values (the paper's +-100).
    eps: smallest eigenvalue of M to be kept on the path and, with an auditor, in its domain [kg m^2].
    loop: how the loop is simulated.
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
    """One step tried: cost before, cost that the linear model promised, cost found (inf where the loop failed).

    A step that restores feasibility, after an audit has found new cuts, is accepted at a higher cost too.
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
    """Outcome of a refinement; arrays are read-only.

    Attributes:
        base: refined parameters with their covariance; see `uncertainty`. Known friction's own deviation is in it.
        start: the parameters that it began with, after a projection if they were not feasible.
        cost: sum of squares at `base` [N^2 m^2].
        start_cost: at `start`.
        reason: why it ended.
        iterations: every step tried.
        cuts: positive-definiteness cuts in use at the end.
        simulation: of the loop with `base`.
        rmse: root mean square torque error per axis, (n,) [N m].
        audit: of the domain at the end; None without an auditor.
        seconds: time taken.
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
        """Whether a further step promises less than the tolerance."""
        return self.reason == "converged"


def refine(
    model: ArmModel,
    settings: ControllerSettings,
    data: ClosedLoopData,
    phi0: BaseParameters,
    options: ClieOptions | None = None,
    auditor: Auditor | None = None,
) -> ClieResult:
    """Refine base parameters by their closed-loop input error.

    Args:
        model: the arm.
        settings: of the control law that the experiment ran with.
        data: reference and measured torque.
        phi0: parameters to start from, from OLS or its projection.
        options: how it runs.
        auditor: of the domain in which M stays at least eps; None keeps it on the path only.

    Raises:
        InfeasibleError: the loop cannot be simulated with phi0, or no model satisfies bounds and cuts.
        DataError, ConfigurationError: arguments that do not fit together.
    """
    chosen = options or ClieOptions()
    return refine_loop(ClosedLoop(model, settings, data, chosen.loop), phi0, chosen, auditor)


def refine_loop(
    loop: ClosedLoop | ManyLoops,
    phi0: BaseParameters,
    options: ClieOptions | None = None,
    auditor: Auditor | None = None,
) -> ClieResult:
    """As `refine`, of a loop, or of many loops that one phi must explain; `options.loop` is not used."""
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
    """State of one refinement: the current phi with its simulation, and the linear model around it."""

    def __init__(
        self, loop: ClosedLoop | ManyLoops, phi0: BaseParameters, options: ClieOptions, auditor: Auditor | None
    ) -> None:
        loop.model.values_of(phi0)  # of this model, or refused
        self.loop, self.options = loop, options
        self.cuts = CutSet(loop.model, options.eps, auditor, _fixed_bounds(phi0, options))
        self.audit: AuditResult | None = None
        self.iterations: list[Iteration] = []
        self.damping = FIRST_DAMPING
        self.stride = options.coarse_stride
        self.curvature = ResidualCurvature(len(phi0.values))
        freedom = max(loop.data.tau.size - len(phi0.values), 1)
        # a step s has s' J'J s = promise * cost, and one deviation of any direction cost / freedom of it
        self.enough = max(options.tolerance, options.deviation_share**2 / freedom)
        self.expected, self.last_promise = np.inf, np.inf  # relative decreases that steps promise
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
        """Jacobian and normal equations at the current phi, once per phi and stride."""
        self.jacobian = self.loop.weighted(self.loop.jacobian(self.simulation, self.phi, self.stride))
        hessians, gradients = self.loop.normal_equations(self.jacobian, self.residual)
        self.hessian, self.gradient = hessians.sum(axis=0), gradients.sum(axis=0)
        lengths = np.sqrt(np.diag(self.hessian))
        if not np.isfinite(lengths).all() or lengths.min() <= 1e-12 * lengths.max():
            names = [n for n, v in zip(self.loop.model.names, lengths, strict=True) if not v > 1e-12 * lengths.max()]
            raise DataError(
                f"the simulated torques do not depend on {', '.join(names)}, so this motion cannot determine them"
            )
        self.curvature.look(self.phi, self.jacobian, self.residual, self.stride)
        self.scale, self.linearised = 1.0 / lengths, True

    def _bent(self) -> FloatArray:
        """The Hessian that steps are made with, (p, p): with the residual's curvature while that helps."""
        plain = np.asarray(self.hessian)
        if not self.curvature.trusted:
            return plain
        whole = plain + self.curvature.matrix
        lowest = float(eigvalsh(whole * np.outer(self.scale, self.scale), subset_by_index=[0, 0])[0])
        return whole if lowest > 0.0 else plain

    def _trial(self) -> tuple[FloatArray, float]:
        """The minimiser of the damped linear model within the cuts, and the cost that the model promises there."""
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
            # near the end and at the boundary: an audit now is cheaper than a step that it would undo
            audit = self.cuts.audit(self.start.with_values(trial))
            if audit is None or audit.passed:
                break
        step = trial - self.phi
        promised = self.cost - 2.0 * self.gradient @ step + step @ hessian @ step
        return trial, float(promised)

    def run(self) -> Reason:
        """Iterate to the end."""
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
        """Whether the audit of the domain finds nothing; what it finds becomes cuts, and the search goes on."""
        self.expected = np.inf
        self.audit = self.cuts.audit(BaseParameters(self.loop.model.names, self.phi))
        self.restoring = self.audit is not None and not self.audit.passed
        return not self.restoring

    def _try(self, trial: FloatArray, promised: float, promise: float) -> bool:
        """Simulate a trial and take it if it is better; False once damping cannot help any more."""
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
            # Gauss-Newton converges linearly: where the promises fall and are kept, the next one is foreseeable
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
            elif gain < 0.4 and not self.restoring:  # the residual bends the cost more than J'J says: shorter steps
                self.damping = max(10.0 * self.damping, FIRST_DAMPING)
            self.restoring = False
            return True
        self.damping = max(10.0 * self.damping, FIRST_DAMPING)
        return self.damping <= MOST_DAMPING

    def covariance(self) -> FloatArray:
        """Of phi, (p, p), with the last Jacobian: the sandwich of its scores, and what the load's deviations add."""
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
        if data.load_deviation is not None:  # an axis's load known wrongly by one deviation moves phi by a column
            load = self.loop.weighted(data.load_deviation)
            moved = inverse @ np.einsum("knp,kn->pn", J, load)
            found += moved @ moved.T
        return found


def _fixed_bounds(phi0: BaseParameters, options: ClieOptions) -> tuple[FloatArray, FloatArray]:
    """+-bound_factor times the first values, positive rotor inertias and no negative friction, as rows and bounds."""
    p = len(phi0.names)
    size = options.bound_factor * np.maximum(np.abs(phi0.values), SMALLEST_SIZE)
    lower = np.maximum(-size, physical_lower_bounds(phi0.names))
    return np.concatenate([np.eye(p), -np.eye(p)]), np.concatenate([lower, -size])


def _feasible_start(phi0: BaseParameters, options: ClieOptions, auditor: Auditor | None) -> BaseParameters:
    """phi0, or the nearest model that keeps M >= eps in the domain."""
    lower = physical_lower_bounds(phi0.names)
    if auditor is None:
        return phi0.with_values(np.maximum(phi0.values, lower))
    return project(auditor, phi0, options.eps, lower=lower).base
