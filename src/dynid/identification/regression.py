"""The regression tau = W phi of all samples (paper eqs. 4 and 5), with or without Coulomb friction beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from dynid.errors import DataError
from dynid.identification.coulomb import CoulombFriction, friction_shape, row_weights
from dynid.identification.estimator import Estimate, TorqueErrors, torque_errors
from dynid.identification.preprocessing import Samples
from dynid.identification.settings import CoulombSettings
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only

RANK_TOLERANCE = 1e-8  # of columns scaled to unit length
DOMINANT = 0.3  # of the largest entry of the weakest direction
SIGMA_FLOOR = 1e-9  # of the largest axis's deviation: a noise-free axis must not get an infinite weight


@dataclass(frozen=True, eq=False)
class Solution:
    """A least-squares solution: phi (p,), the inverse of its normal matrix (p, p), and Coulomb friction (n,) or None.

    `variances` are those of the friction, in units of a row's variance, like `inverse`.
    """

    phi: FloatArray
    inverse: FloatArray
    friction: FloatArray | None = None
    variances: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Regression:
    """Stacked rows of tau = W phi + C f (paper eq. 5), rows of one sample together.

    W is (N n, p), tau (N n,). Coulomb friction f is there where `shape` is: its torque per unit, (N, n); it is
    eliminated first, so that all that is said of phi holds for any f. `trust` (N n,) weighs the rows.
    """

    names: tuple[str, ...]
    axes: int
    W: FloatArray
    tau: FloatArray
    shape: FloatArray | None = None
    trust: FloatArray | None = None
    transition_rad_s: float = 0.0

    @classmethod
    def of(cls, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None) -> "Regression":
        """The regression of all samples, after a look at whether they determine everything.

        Raises:
            DataError: they leave parameters open; names them.
        """
        regression = cls.stack(model, samples, coulomb)
        count = len(model.names) + (0 if regression.shape is None else model.axes)
        if regression.trusted.sum() <= count:
            slow = "" if coulomb is None or regression.trust is None else f" faster than {coulomb.slow_rad_s} rad/s"
            raise DataError(
                f"{regression.trusted.sum()} equations{slow} do not determine {count} parameters; record longer"
            )
        regression.check_rank()
        return regression

    @classmethod
    def stack(cls, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None) -> "Regression":
        """The regression of all samples.

        Args:
            model: the arm.
            samples: states and torques.
            coulomb: how friction is treated; None ignores it. A structure that holds it needs no such treatment.
        """
        W = model.regressor(samples.q, samples.dq, samples.ddq).reshape(-1, len(model.names))
        regression = cls(model.names, model.axes, W, samples.tau.ravel())
        if coulomb is not None and coulomb.treatment == "estimated" and not model.structure.coulomb_friction:
            regression = replace(
                regression, shape=friction_shape(samples.dq, coulomb.transition_rad_s),
                trust=row_weights(samples.dq, coulomb).ravel(), transition_rad_s=coulomb.transition_rad_s,
            )  # fmt: skip
        return regression

    @cached_property
    def trusted(self) -> NDArray[np.bool_]:
        """Which rows have full weight, (N n,)."""
        return np.ones(len(self.tau), dtype=bool) if self.trust is None else self.trust >= 1.0

    @cached_property
    def sliding(self) -> NDArray[np.bool_]:
        """Which axes have Coulomb friction: those for which it does not come out negative, (n,)."""
        return self._unconstrained_axes(None)[0]

    def _unconstrained_axes(self, weights: FloatArray | None) -> tuple[NDArray[np.bool_], Solution]:
        active = np.full(self.axes, self.shape is not None)
        while True:
            found = self._solve(weights, active)
            if found.friction is None or not (found.friction < 0.0).any():
                return active, found
            active = active & (found.friction >= 0.0)

    @cached_property
    def factor(self) -> FloatArray:
        """Upper triangular R (p + 1, p + 1) with R'R = [W tau]'[W tau], friction being eliminated."""
        count = int(self.sliding.sum())
        return self._triangle(None, self.sliding)[count:, count:]

    def _triangle(self, weights: FloatArray | None, active: NDArray[np.bool_]) -> FloatArray:
        """R of the QR decomposition of the weighted rows [C W tau], C of the active axes."""
        columns = [self.W, self.tau[:, None]]
        if self.shape is not None and active.any():
            friction = np.zeros((len(self.shape), self.axes, self.axes))
            friction[:, range(self.axes), range(self.axes)] = self.shape
            columns.insert(0, friction.reshape(len(self.tau), -1)[:, active])
        rows = np.concatenate(columns, axis=1)
        for scale in (weights, self.trust):
            if scale is not None:
                rows *= scale[:, None]
        return np.asarray(qr(rows, mode="r", check_finite=False, overwrite_a=True)[0][: rows.shape[1]])

    def _solve(self, weights: FloatArray | None, active: NDArray[np.bool_]) -> Solution:
        R = self._triangle(weights, active)
        strengths = np.linalg.norm(R[:-1, :-1], axis=0)
        scaled = R[:-1, :-1] / strengths
        values = solve_triangular(scaled, R[:-1, -1]) / strengths
        root = solve_triangular(scaled, np.eye(len(values))) / strengths[:, None]
        inverse, count = root @ root.T, int(active.sum())
        if self.shape is None:
            return Solution(values, inverse)
        friction, variances = np.zeros(self.axes), np.zeros(self.axes)
        friction[active], variances[active] = values[:count], np.diag(inverse)[:count]
        return Solution(values[count:], inverse[count:, count:], friction, variances)

    def check_rank(self) -> int:
        """The rank of W, which is full.

        Raises:
            DataError: it is not; names the parameters that the motion leaves open.
        """
        plain = np.linalg.norm(self.W, axis=0)
        if silent := self._named(plain <= RANK_TOLERANCE * plain.max()):
            raise DataError(f"the motion does not excite {silent}: no torque depends on them; move their joints too")
        everything = np.full(self.axes, self.shape is not None)
        count = int(everything.sum())
        R = self._triangle(None, everything)[count:-1, count:-1]
        strengths = np.linalg.norm(R, axis=0)
        if hidden := self._named(strengths <= RANK_TOLERANCE * plain):
            raise DataError(
                f"the motion cannot tell {hidden} from Coulomb friction: move these joints faster, at several speeds"
            )
        pivoted, order = qr(R / strengths, mode="r", pivoting=True, check_finite=False)
        diagonal = np.abs(np.diag(pivoted))
        rank = int((diagonal > RANK_TOLERANCE * diagonal[0]).sum())
        if rank < len(self.names):
            open_ones = ", ".join(self.names[k] for k in order[rank:])
            raise DataError(
                f"the motion determines only {rank} of {len(self.names)} parameters; it cannot tell {open_ones} from "
                "the others: excite more joints together, or at other postures"
            )
        return rank

    def _named(self, which: NDArray[np.bool_]) -> str:
        return ", ".join(name for name, one in zip(self.names, which, strict=True) if one)

    def conditioning(self) -> tuple[float, tuple[str, ...]]:
        """kappa(W) = sigma_max / sigma_min, as in the paper's Appendix A, and the parameters that limit it.

        These are the ones that dominate the combination of parameters which the motion shows least.
        """
        R = qr(self.W, mode="r", check_finite=False)[0][: len(self.names)]
        _, singular, directions = np.linalg.svd(R)
        weakest = np.abs(directions[-1])
        order = np.argsort(-weakest)
        named = tuple(self.names[k] for k in order if weakest[k] > DOMINANT * weakest[order[0]])
        return float(singular[0] / singular[-1]), named

    def solve(self, weights: FloatArray | None = None) -> Solution:
        """What minimises the (weighted) squares; weights (N n,) are of rows, beside `trust`."""
        return self._unconstrained_axes(weights)[1]

    def friction_given(self, phi: FloatArray) -> FloatArray | None:
        """Coulomb friction that fits best to given phi (p,): (n,) [N m], not negative; None without."""
        if self.shape is None or self.trust is None:
            return None
        left = (self.trust * (self.tau - self.W @ phi)).reshape(-1, self.axes)
        seen = self.trust.reshape(-1, self.axes) * self.shape
        return np.maximum(np.sum(seen * left, axis=0) / np.maximum(np.sum(seen**2, axis=0), np.finfo(float).tiny), 0.0)

    def friction_model(self, phi: FloatArray) -> CoulombFriction | None:
        """`friction_given` as friction, with the deviations of the unconstrained fit; None without."""
        values, free = self.friction_given(phi), self.solve()
        if values is None or free.variances is None:
            return None
        variance = self.variance(self.residual(free.phi, free.friction))
        return CoulombFriction(values, self.transition_rad_s, np.sqrt(variance * free.variances))

    def errors(self, phi: FloatArray) -> TorqueErrors:
        """Torque errors of phi (p,) on all rows, with the Coulomb friction that fits to it."""
        tau = self.tau.reshape(-1, self.axes)
        return torque_errors(tau, tau - self.residual(phi, self.friction_given(phi)))

    @property
    def metric(self) -> FloatArray:
        """R (p, p): || R (phi - phi_ols) || is the weighted torque error that phi adds to the fit [N m]."""
        return self.factor[:-1, :-1]

    def residual(self, phi: FloatArray, friction: FloatArray | None = None) -> FloatArray:
        """tau - W phi - C f, (N, n)."""
        left = (self.tau - self.W @ phi).reshape(-1, self.axes)
        return left if friction is None or self.shape is None else left - self.shape * friction

    def axis_sigma(self, residual: FloatArray) -> FloatArray:
        """Standard deviation of every axis's residual (N, n) on trusted rows, (n,), freedom being spread evenly."""
        trusted = self.trusted.reshape(residual.shape).copy()
        trusted[:, ~trusted.any(axis=0)] = True  # an axis that hardly moves has no better rows
        count = trusted.sum(axis=0)
        freedom = np.maximum(count - len(self.names) / self.axes, 1.0)
        return np.asarray(np.sqrt((residual**2 * trusted).sum(axis=0) / freedom))

    def variance(self, residual: FloatArray) -> float:
        """Variance of a trusted row."""
        freedom = int(self.trusted.sum()) - len(self.names) - int(self.sliding.sum())
        return float(np.sum(residual.ravel()[self.trusted] ** 2) / freedom)

    def weights(self, sigma: FloatArray) -> FloatArray:
        """Row weights 1 / sigma of each row's axis, (N n,)."""
        floor = max(SIGMA_FLOOR * float(sigma.max()), np.finfo(float).tiny)
        return np.tile(1.0 / np.maximum(sigma, floor), len(self.tau) // self.axes)

    def estimate(
        self, method: str, solution: Solution, variance: float = 1.0, settings: Mapping[str, Any] | None = None
    ) -> Estimate:
        """The result for a solution whose rows, weighted, have this variance."""
        tau = self.tau.reshape(-1, self.axes)
        residual = self.residual(solution.phi, solution.friction)
        kappa, weakest = self.conditioning()
        friction = None
        if solution.friction is not None and solution.variances is not None:
            deviations = np.sqrt(variance * solution.variances)
            friction = CoulombFriction(solution.friction, self.transition_rad_s, deviations)
        return Estimate(
            base=BaseParameters(self.names, solution.phi, variance * solution.inverse),
            errors=torque_errors(tau, tau - residual),
            residual_sigma=read_only(self.axis_sigma(residual)),
            condition_number=kappa,
            weakest=weakest,
            rank=len(self.names),
            method=method,
            settings=settings or {},
            friction=friction,
        )
