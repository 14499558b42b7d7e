"""The regression tau = W phi of all samples (paper eqs. 4 and 5), with or without Coulomb friction beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular
from scipy.optimize import lsq_linear

from dynid.errors import DataError
from dynid.identification.coulomb import CoulombFriction, friction_shape, row_weights
from dynid.identification.estimator import Estimate, TorqueErrors, torque_errors
from dynid.identification.preprocessing import Samples
from dynid.identification.settings import CoulombSettings
from dynid.identification.uncertainty import sandwich
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only

RANK_TOLERANCE = 1e-8  # of columns scaled to unit length
DOMINANT = 0.3  # of the largest entry of the weakest direction
SIGMA_FLOOR = 1e-9  # of the largest axis's deviation: a noise-free axis must not get an infinite weight


@dataclass(frozen=True, eq=False)
class Solution:
    """A least-squares solution.

    Attributes:
        phi: base parameters, (p,).
        inverse: of the normal matrix of (f, phi), friction of the `sliding` axes first.
        triangle: R of the weighted rows [C W tau], to which it belongs.
        friction: Coulomb friction, (n,) [N m]; None where there is none in the problem.
        sliding: axes whose friction is not held at zero, (n,).
    """

    phi: FloatArray
    inverse: FloatArray
    triangle: FloatArray
    friction: FloatArray | None
    sliding: NDArray[np.bool_]

    @property
    def metric(self) -> FloatArray:
        """R (p, p): || R (phi - self.phi) || is the weighted torque error that phi adds to the fit."""
        count = int(self.sliding.sum())
        return self.triangle[count:-1, count:-1]


@dataclass(frozen=True, eq=False)
class Regression:
    """Stacked rows of tau = W phi + C f (paper eq. 5), rows of one sample together.

    W is (N n, p), tau (N n,). Coulomb friction f is there where `shape` is: its torque per unit, (N, n); it is
    eliminated first, so that all that is said of phi holds for any f. `trust` (N n,) weighs the rows. Samples are
    `interval_s` apart; `moving` (N, n) says which axes were faster than the settings' limit.
    """

    names: tuple[str, ...]
    axes: int
    W: FloatArray
    tau: FloatArray
    interval_s: float
    shape: FloatArray | None = None
    trust: FloatArray | None = None
    transition_rad_s: float = 0.0
    moving: NDArray[np.bool_] | None = None

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
        W = samples.seen(model.regressor).reshape(-1, len(model.names))
        regression = cls(model.names, model.axes, W, samples.tau.ravel(), samples.settings.interval_s)
        if coulomb is not None:
            at_speed = np.abs(samples.dq) >= max(coulomb.slow_rad_s, coulomb.transition_rad_s)
            regression = replace(regression, moving=at_speed)
        if coulomb is not None and coulomb.treatment == "estimated" and not model.structure.coulomb_friction:
            regression = replace(
                regression, shape=samples.seen(lambda _, dq, __: friction_shape(dq, coulomb.transition_rad_s)),
                trust=row_weights(samples.dq, coulomb).ravel(), transition_rad_s=coulomb.transition_rad_s,
            )  # fmt: skip
        return regression

    @cached_property
    def trusted(self) -> NDArray[np.bool_]:
        """Which rows have full weight, (N n,)."""
        return np.ones(len(self.tau), dtype=bool) if self.trust is None else self.trust >= 1.0

    def _columns(self) -> FloatArray:
        """[C W], (N n, n + p), or W alone where there is no friction."""
        if self.shape is None:
            return self.W
        friction = np.zeros((len(self.shape), self.axes, self.axes))
        friction[:, range(self.axes), range(self.axes)] = self.shape
        return np.concatenate([friction.reshape(len(self.tau), -1), self.W], axis=1)

    @cached_property
    def _whole_triangle(self) -> FloatArray:
        return self._triangle(None)

    def _triangle(self, weights: FloatArray | None) -> FloatArray:
        """R of the QR decomposition of the weighted rows [C W tau]."""
        rows = np.concatenate([self._columns(), self.tau[:, None]], axis=1)
        for scale in (weights, self.trust):
            if scale is not None:
                rows *= scale[:, None]
        return np.asarray(qr(rows, mode="r", check_finite=False, overwrite_a=True)[0][: rows.shape[1]])

    @property
    def _coulomb_columns(self) -> NDArray[np.bool_]:
        """Which columns of [C W] are Coulomb friction: beside the base parameters, or among them."""
        own = [name.rstrip("0123456789") == "FC" for name in self.names]
        return np.array(([] if self.shape is None else [True] * self.axes) + own)

    @cached_property
    def _plain(self) -> Solution:
        return self._bounded(self._whole_triangle)

    def _bounded(self, whole: FloatArray) -> Solution:
        """The least squares with friction that is not negative, from R of all columns."""
        friction_columns = 0 if self.shape is None else self.axes
        bounded = self._coulomb_columns
        free = np.ones(whole.shape[1] - 1, dtype=bool)
        if bounded.any():
            scale = np.linalg.norm(whole[:, :-1], axis=0)
            lower = np.where(bounded, 0.0, -np.inf)
            found = lsq_linear(whole[:, :-1] / scale, whole[:, -1], (lower, np.inf), method="bvls", tol=1e-14)
            free = found.active_mask == 0
        R = qr(whole[:, np.append(free, True)], mode="r", check_finite=False)[0][: free.sum() + 1]
        strengths = np.linalg.norm(R[:-1, :-1], axis=0)
        scaled = R[:-1, :-1] / strengths
        values = np.zeros(len(free))
        values[free] = solve_triangular(scaled, R[:-1, -1]) / strengths
        root = solve_triangular(scaled, np.eye(len(strengths))) / strengths[:, None]
        friction = np.maximum(values[:friction_columns], 0.0) if friction_columns else None  # round-off
        sliding = free[: self.axes] if friction_columns else np.zeros(self.axes, dtype=bool)
        return Solution(values[friction_columns:], root @ root.T, R, friction, sliding)

    def check_rank(self) -> int:
        """The rank of W, which is full.

        Raises:
            DataError: it is not; names the parameters that the motion leaves open.
        """
        plain = np.linalg.norm(self.W, axis=0)
        if silent := self._named(plain <= RANK_TOLERANCE * plain.max()):
            raise DataError(f"the motion does not excite {silent}: no torque depends on them; move their joints too")
        count = 0 if self.shape is None else self.axes
        R = self._whole_triangle[count:-1, count:-1]
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

    @property
    def has_coulomb_friction(self) -> bool:
        """Whether Coulomb friction is estimated, beside the base parameters or among them."""
        return bool(self._coulomb_columns.any())

    def beside_friction(self) -> dict[str, float]:
        """The share of every parameter's column that no Coulomb friction can imitate, 0 to 1."""
        coulomb = self._coulomb_columns
        order = np.argsort(~coulomb, kind="stable")
        whole, count = self._whole_triangle[:-1, :-1][:, order], int(coulomb.sum())
        R = np.atleast_2d(qr(whole, mode="r", check_finite=False)[0])[:, count:]
        shares = np.linalg.norm(R[count:], axis=0) / np.linalg.norm(R, axis=0)
        names = [name for name in self.names if name.rstrip("0123456789") != "FC" or self.shape is not None]
        return dict(zip(names, shares.tolist(), strict=True))

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
        return self._plain if weights is None else self._bounded(self._triangle(weights))

    def friction_given(self, phi: FloatArray) -> FloatArray | None:
        """Coulomb friction that fits best to given phi (p,): (n,) [N m], not negative; None without."""
        if self.shape is None or self.trust is None:
            return None
        left = (self.trust * (self.tau - self.W @ phi)).reshape(-1, self.axes)
        seen = self.trust.reshape(-1, self.axes) * self.shape
        return np.maximum(np.sum(seen * left, axis=0) / np.maximum(np.sum(seen**2, axis=0), np.finfo(float).tiny), 0.0)

    def friction_model(self, phi: FloatArray) -> CoulombFriction | None:
        """`friction_given` as friction, with the deviations of the unconstrained fit; None without."""
        values = self.friction_given(phi)
        if values is None:
            return None
        return CoulombFriction(
            values, self.transition_rad_s, self._friction_deviations(self._plain, self._plain_spread)
        )

    @cached_property
    def _plain_spread(self) -> FloatArray:
        return self.spread(self._plain)

    def _friction_deviations(self, solution: Solution, spread: FloatArray) -> FloatArray:
        """Deviations of the friction, (n,) [N m], from the covariance of (f, phi); zero of one held at zero."""
        deviations, count = np.zeros(self.axes), int(solution.sliding.sum())
        deviations[solution.sliding] = np.sqrt(np.diag(spread)[:count])
        return deviations

    def spread(self, solution: Solution, weights: FloatArray | None = None, inflation: float = 1.0) -> FloatArray:
        """Covariance of (f, phi) of a solution with these row weights (N n,), its inverse inflated; see `uncertainty`.

        Raises:
            DataError: too few trusted equations.
        """
        residual = self.residual(solution.phi, solution.friction).ravel()
        for scale in (weights, self.trust):
            residual = residual if scale is None else residual * scale**2
        columns = self._columns()
        count = columns.shape[1] - len(self.names)
        stacked = columns.reshape(-1, self.axes, columns.shape[1])
        scores = np.einsum("knp,kn->kp", stacked, residual.reshape(-1, self.axes))
        kept = np.concatenate([solution.sliding[:count], np.ones(len(self.names), dtype=bool)])
        rows = int(self.trusted.sum())
        if rows <= kept.sum():
            raise DataError(f"{rows} trusted equations do not determine {kept.sum()} parameters; record longer")
        return sandwich(inflation * solution.inverse, scores[:, kept], self.interval_s, rows / (rows - kept.sum()))

    def errors(self, phi: FloatArray) -> TorqueErrors:
        """Torque errors of phi (p,) on all rows, with the Coulomb friction that fits to it."""
        tau = self.tau.reshape(-1, self.axes)
        return torque_errors(tau, tau - self.residual(phi, self.friction_given(phi)))

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

    def weights(self, sigma: FloatArray) -> FloatArray:
        """Row weights 1 / sigma of each row's axis, (N n,)."""
        floor = max(SIGMA_FLOOR * float(sigma.max()), np.finfo(float).tiny)
        return np.tile(1.0 / np.maximum(sigma, floor), len(self.tau) // self.axes)

    def estimate(
        self, method: str, solution: Solution, weights: FloatArray | None = None, inflation: float = 1.0,
        settings: Mapping[str, Any] | None = None,
    ) -> Estimate:  # fmt: skip
        """The result for a solution with these row weights; `inflation` as in `spread`."""
        tau = self.tau.reshape(-1, self.axes)
        residual = self.residual(solution.phi, solution.friction)
        kappa, weakest = self.conditioning()
        friction, count = None, int(solution.sliding.sum())
        spread = self.spread(solution, weights, inflation)
        if solution.friction is not None:
            deviations = self._friction_deviations(solution, spread)
            friction = CoulombFriction(solution.friction, self.transition_rad_s, deviations)
        return Estimate(
            base=BaseParameters(self.names, solution.phi, spread[count:, count:]),
            errors=torque_errors(tau, tau - residual),
            residual_sigma=read_only(self.axis_sigma(residual)),
            condition_number=kappa,
            weakest=weakest,
            rank=len(self.names),
            method=method,
            settings=settings or {},
            friction=friction,
            metric=read_only(solution.metric),
            regression=self,
        )
