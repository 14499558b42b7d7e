"""Recursive regression for a growing recording: each piece of samples is added once, by a QR update.

The state consists of R factors of QR decompositions, because a normal matrix would lose half of the digits:

    R of the rows [C W tau] of moving joints,    R_j of axis j's rows [W tau] near standstill,

with columns C of friction, columns W of base parameters and the torque tau. The state also contains sums that determine
the weights of the R_j. Torques are linearised at known friction (`KnownGears`). Up to rounding, the
estimate equals that of `Regression.stack` for all pieces at once, with the same linearisation. A better linearisation
point, the shape of friction, other nonlinear parameters and the covariance cannot be computed from the state: they need
the samples again.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import qr

from dynid.identification.data.preprocessing import Samples
from dynid.identification.data.sample_sets import counted_from
from dynid.identification.estimators.gear_fit import (
    NO_ERROR,
    GearFit,
    GearFitter,
    KnownGears,
    Parameter,
    with_parameters,
)
from dynid.identification.estimators.gear_rows import GearRows
from dynid.identification.estimators.joint_friction import JointFriction
from dynid.identification.estimators.solution import Solution, solve_triangle
from dynid.identification.settings import CoulombSettings
from dynid.model.dynamics import ArmModel
from dynid.model.friction import TERMS, FrictionLaw
from dynid.model.parameters import physical_lower_bounds
from dynid.robot import FloatArray


@dataclass(frozen=True, eq=False)
class RecursiveRegression:
    """State of the recursive regression: R factors and sums that represent all samples so far.

    Attributes:
        model: model of the arm.
        coulomb: how friction is treated.
        known: structure of friction, and the parameter values at which torques are linearised.
        sliding: R factor of the rows of moving joints, (k + 1, k + 1). The columns are those of friction parameters,
            base parameters, and the torque.
        standing: R factor of each axis's rows near standstill, (n, p + 1, p + 1). The columns are those of the p base
            parameters, and the torque.
        sums: four sums over the samples for each axis, (4, n): of squared row weights, of squared weighted residuals,
            of squared weighted torques, and of the fractions of states near standstill.
        samples: number of samples so far.
        origin_s: time at which the drift of friction is zero, on the recording's time axis [s].
        weights: weights of each axis's rows, (n,).
        bounds: lower and upper bounds of all parameters, (k,) each.
        with_standing: whether states near standstill are used. Only a long recording determines their weight, so they
            should not be used with a short recording.
    """

    model: ArmModel
    coulomb: CoulombSettings
    known: KnownGears
    sliding: FloatArray
    standing: FloatArray
    sums: FloatArray
    samples: int
    origin_s: float
    weights: FloatArray
    bounds: tuple[FloatArray, FloatArray]
    with_standing: bool = True

    @classmethod
    def begin(
        cls,
        model: ArmModel,
        coulomb: CoulombSettings,
        known: KnownGears,
        origin_s: float = 0.0,
        weights: FloatArray | None = None,
    ) -> "RecursiveRegression":
        """Return a recursive regression for a known friction structure, to which no samples have been added yet.

        Args:
            model: model of the arm.
            coulomb: how friction is treated.
            known: structure of friction, with at least one term, and the parameter values at which torques are
                linearised.
            origin_s: time at which the drift of friction is zero [s].
            weights: weights of the axes' rows, (n,); None weighs all equally, as `Regression` does.
        """
        p, n = len(model.names), model.axes
        parameters = [one for one in known.structure.parameters(model.gears) if TERMS[one.term].kind != "shape"]
        lower = np.array([one.lower for one in parameters] + [-1.0] * known.structure.drift)
        upper = np.array([one.upper for one in parameters] + [1.0] * known.structure.drift)
        bounds = np.concatenate([lower, np.full(p, -np.inf)]), np.concatenate([upper, np.full(p, np.inf)])
        size = len(lower) + p + 1
        nothing = np.zeros((size, size)), np.zeros((n, p + 1, p + 1)), np.zeros((4, n))
        return cls(model, coulomb, known, *nothing, 0, origin_s, np.ones(n) if weights is None else weights, bounds)

    @property
    def friction_size(self) -> int:
        """Number m of friction parameters, including the drift of friction if it is a parameter."""
        return len(self.sliding) - 1 - len(self.model.names)

    def updated(self, piece: Samples) -> "RecursiveRegression":
        """Return a copy of the recursive regression to which another piece of the same recording has been added."""
        rows = GearRows(self.model, counted_from(piece, self.origin_s), self.coulomb.slow_rad_s)
        slow = rows.sliding_share < self.coulomb.sliding_share
        trust = np.where(slow, self.coulomb.slow_weight, 1.0)
        lower, transition = physical_lower_bounds(self.model.names), self.coulomb.transition_rad_s
        fit = GearFitter(rows, self.model.gears, trust, lower, transition).linearised(self.known)
        more = np.concatenate([_columns(fit), _target(fit)[..., None]], axis=2) * (trust * self.weights)[..., None]
        left = rows.target - fit.rows.tau
        sums = [trust**2, (left * trust) ** 2, (rows.target * trust) ** 2, np.clip(1.0 - rows.sliding_share, 0.0, 1.0)]
        W, tau = rows.standing
        held = np.concatenate([W, tau[..., None]], axis=2)
        return replace(
            self,
            sliding=_appended(self.sliding, more.reshape(-1, more.shape[2])),
            standing=np.stack([_appended(R, held[:, j]) for j, R in enumerate(self.standing)]),
            sums=self.sums + np.array([one.sum(axis=0) for one in sums]),
            samples=self.samples + len(piece),
        )

    def with_prior(self, phi: FloatArray, deviations: FloatArray, friction: FloatArray) -> "RecursiveRegression":
        """Return a copy of the regression with prior knowledge of base parameters and friction.

        The prior values of the friction parameters are those at which torques are linearised; that of the drift is 0.
        The prior has its correct weight only if the regression's `weights` are the reciprocal standard deviations of
        the residuals.

        Args:
            phi: prior base parameters, (p,).
            deviations: standard deviations of the prior base parameters, (p,).
            friction: prior standard deviations of the friction parameters, (m,); that of drift, if any, is last.
        """
        law = self.known.point.law
        own = [float(law.values[one.term, one.axes[0]]) for one in self.parameters]
        own += [0.0] * (self.friction_size - len(own))
        rows = np.diag(1.0 / np.concatenate([friction, deviations]))
        target = rows @ np.concatenate([own, phi])
        return replace(self, sliding=_appended(self.sliding, np.column_stack([rows, target])))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Friction parameters of the structure, except shape parameters (Stribeck velocity and exponent) and drift."""
        found = self.known.structure.parameters(self.model.gears)
        return tuple(one for one in found if TERMS[one.term].kind != "shape")

    @cached_property
    def triangle(self) -> FloatArray:
        """R factor (k + 1, k + 1) of all weighted rows [C W tau], including rows near standstill if they are used.

        C and W are the torques per unit of friction and base parameters, and tau is the torque.
        """
        if not self.with_standing:
            return self.sliding
        count, left, size, _ = self.sums
        most = np.maximum(count, 1.0)
        sigma = np.maximum(np.maximum(np.sqrt(left / most), NO_ERROR * np.sqrt(size / most)), np.finfo(float).tiny)
        weights = self.weights * np.minimum(sigma / np.maximum(self.standing_sigma, sigma), 1.0)
        rows = np.zeros((*self.standing.shape[:2], len(self.sliding)))
        rows[..., self.friction_size :] = weights[:, None, None] * self.standing
        return _appended(self.sliding, rows.reshape(-1, rows.shape[2]))

    @property
    def standing_sigma(self) -> FloatArray:
        """Root mean square of measured minus predicted torques near standstill, (n,) [N m].

        The prediction uses the base parameters at which torques are linearised, without friction.
        """
        off = self.standing[..., :-1] @ self.known.point.phi - self.standing[..., -1]
        return np.asarray(np.sqrt(np.sum(off**2, axis=1) / np.maximum(self.sums[3], 1.0)))

    def solve(self) -> Solution:
        """Return the least-squares solution for all samples so far.

        The solution is meaningless until the samples determine all parameters.
        """
        return solve_triangle(self.triangle, self.friction_size, *self.bounds)

    def law(self, solution: Solution) -> FrictionLaw:
        """Return the friction law with the parameters of a least-squares solution of this regression."""
        assert solution.friction is not None
        return with_parameters(self.known.point.law, self.parameters, solution.friction[: len(self.parameters)])


def _columns(fit: GearFit) -> FloatArray:
    """Return torques per unit of friction and base parameters, linearised at a fit, (N, n, k).

    The shape parameters of friction (Stribeck velocity and exponent) have no column.
    """
    joint_friction = JointFriction(fit, fit)
    return np.concatenate([joint_friction.columns, fit.rows.W], axis=2)


def _target(fit: GearFit) -> FloatArray:
    return JointFriction(fit, fit).target


def _appended(R: FloatArray, rows: FloatArray) -> FloatArray:
    """Update an R factor R (k, k) by further rows (N, k), and return the new R factor (k, k)."""
    both = np.concatenate([R, rows])
    return np.asarray(qr(both, mode="r", check_finite=False, overwrite_a=True)[0][: len(R)])
