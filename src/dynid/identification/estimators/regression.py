"""Regression tau = W phi of all samples (arXiv:2605.15949, eqs. 4 and 5), with or without additional friction.

Load-dependent friction makes the torques a nonlinear function of all parameters. Friction is fitted first, and its
structure (set of friction terms) is chosen (`gear_ladder`). The regression contains the torques, linearised at this
fit. So all estimators of phi use the same friction structure.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from dynid.errors import DataError, UndeterminedError
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.gear_fit import GearFit, GearFitter, KnownGears
from dynid.identification.estimators.gear_ladder import (
    LADDER,
    NO_ERROR,
    BlockJudge,
    KnownStart,
    Ladder,
    fit_until_settled,
    select_structure,
)
from dynid.identification.estimators.gear_rows import GearRows
from dynid.identification.estimators.joint_friction import JointFriction, LeftOut
from dynid.identification.estimators.lags import find_lags
from dynid.identification.estimators.play import FoundPlay, without_play
from dynid.identification.estimators.prior_rows import prior_rows, prior_unit
from dynid.identification.estimators.reduced_rows import ReducedRows, merged
from dynid.identification.estimators.sliding_rows import sliding_rows
from dynid.identification.estimators.solution import Solution, solve_triangle
from dynid.identification.estimators.torque_errors import TorqueErrors, torque_errors
from dynid.identification.estimators.triangles import bounded, triangle
from dynid.identification.estimators.uncertainty import degrees_of_freedom, whole_covariance
from dynid.identification.settings import CoulombSettings
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FB, FrictionLaw
from dynid.model.parameters import BaseParameters, physical_lower_bounds
from dynid.robot import FloatArray

RANK_TOLERANCE = 1e-8  # relative tolerance of the rank, with columns scaled to unit length
DOMINANT = 0.3  # smallest entry of a dominant parameter, relative to the largest of the weakest direction
HARDLY = 3.0  # top speed, in multiples of the slow speed, below which the arm hardly moved or a unit is wrong
SIGMA_FLOOR = 1e-9  # smallest deviation relative to the largest axis's: noise-free axes must not get infinite weights


@dataclass(frozen=True, eq=False)
class Regression:
    """Stacked equations tau = W phi + C f of all samples and axes (arXiv:2605.15949, eq. 5), sample by sample.

    phi are the base parameters, and f are the parameters of friction that phi does not contain. Each least-squares
    solution estimates phi together with f. If the torques are nonlinear in f, they are linearised.

    There are N n equations, called rows, or 2 N n if friction outside phi is fitted and states near standstill are
    masked. In the latter case, moving joints give the first N n rows, and the masked states give N n further rows.

    Attributes:
        names: names of the base parameters, (p,).
        axes: number of axes n.
        W: regressor, (rows, p).
        tau: torques, (rows,) [N m].
        interval_s: time between samples [s].
        joint_friction: friction in addition to the base parameters; None if there is none.
        trust: weights of the rows, (rows,), below 1 near standstill, where joints may stick; None for equal weights.
        moving: mask (N, n) of axes in motion, whose speed is at least `slow_rad_s` and `transition_rad_s` of the
            settings.
        measured: measured torques (N, n) [N m], if `tau` differs from them because of linearisation or masks; else
            None.
        dq: velocities, (N, n) [rad/s].
        other: torques (rows,) from the other recorded current: from the commanded current if `tau` uses the measured
            one, or vice versa. NaN in rows without the other current; None if it was not recorded at all.
        whole: regressor of all states, (N, n, p), if states near standstill are masked in W and tau because base
            parameters contain dry friction; else None.
        share: fraction of unmasked states among the states that the low-pass combines in each row, (N, n).
        row_weights: row weights of the estimator, (rows,), in addition to `trust`; they affect `friction_given` and
            `weighted_spread`. None for equal weights.
        reduced: R factors of the rows of many recordings, including the rows in W and tau; None if W and tau contain
            all rows. The parameters follow from the R factors; size and correlation time of residuals follow from W and
            tau.
        prior: prior estimate of the base parameters; None if there is none.
    """

    names: tuple[str, ...]
    axes: int
    W: FloatArray
    tau: FloatArray
    interval_s: float
    joint_friction: JointFriction | None = None
    trust: FloatArray | None = None
    moving: NDArray[np.bool_] | None = None
    measured: FloatArray | None = None
    dq: FloatArray | None = None
    other: FloatArray | None = None
    whole: FloatArray | None = None
    share: FloatArray | None = None
    row_weights: FloatArray | None = None
    reduced: ReducedRows | None = None
    prior: BaseParameters | None = None

    @classmethod
    def of(
        cls, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None, known: KnownGears | None = None
    ) -> "Regression":
        """Return the regression of all samples, after a check that they determine all parameters.

        Args:
            model: model of the arm.
            samples: states and torques.
            coulomb: how friction is treated; None ignores it.
            known: fit of friction to other samples; None fits friction to `samples`.

        Raises:
            DataError: if the samples do not determine all parameters; the message names the undetermined ones.
        """
        regression = cls.stack(model, samples, coulomb, known)
        count = len(model.names) + regression.friction_size
        if regression.trusted.sum() <= count:
            dry = coulomb is not None and regression.trust is not None
            raise _too_few(int(regression.trusted.sum()), count, samples, coulomb if dry else None)
        regression.check_rank()
        return regression

    @classmethod
    def stack(
        cls,
        model: ArmModel,
        samples: Samples,
        coulomb: CoulombSettings | None = None,
        known: KnownGears | None = None,
        like: GearRows | None = None,
        *,
        backlash: bool = True,
        widened: bool = True,
    ) -> "Regression":
        """Return the regression of all samples, without a check that they determine all parameters.

        If `samples` contains a prior estimate of the base parameters, the regression contains it, too.

        Args:
            model: model of the arm.
            samples: states and torques.
            coulomb: how friction is treated; None ignores it. It is not needed if the model's structure contains
                friction.
            known: friction fit to other samples of the same arm, whose structure and linearisation point are used. With
                a `KnownStart`, friction is fitted again, starting from its values. None fits friction to `samples`.
            like: rows of the same states with other torques, whose regressors are reused; None computes the regressors.
            backlash: whether to estimate backlash and delay, and to correct the states for backlash.
            widened: whether to widen the covariance, because the friction law may lack a part of the friction.

        `like`, `backlash` and `widened` have no effect unless friction is fitted in addition to the base parameters.
        """
        if coulomb is not None and coulomb.treatment == "estimated" and not model.structure.coulomb_friction:
            found = cls._with_friction(model, samples, coulomb, known, like, backlash, widened)
            return replace(found, prior=samples.prior)
        W = samples.low_passed(model.regressor)
        other = None if samples.other_tau is None else samples.other_tau.ravel()
        rows, interval = W.reshape(-1, len(model.names)), samples.settings.interval_s
        regression = cls(model.names, model.axes, rows, samples.tau.ravel(), interval, dq=samples.dq, other=other)
        regression = replace(regression, prior=samples.prior)
        if coulomb is None:
            return regression
        at_speed = np.abs(samples.dq) >= max(coulomb.slow_rad_s, coulomb.transition_rad_s)
        regression = replace(regression, moving=at_speed)
        sticks = coulomb.treatment == "estimated" and model.structure.coulomb_friction and samples.fine
        return regression._of_sliding_states(model, samples, coulomb, W) if sticks else regression

    def _of_sliding_states(
        self, model: ArmModel, samples: Samples, coulomb: CoulombSettings, whole: FloatArray
    ) -> "Regression":
        """Return a copy in which states near standstill are masked, because stiction balances unknown torques there.

        Args:
            model: model of the arm, whose base parameters contain dry friction.
            samples: states and torques.
            coulomb: how friction is treated.
            whole: regressor of all states, (N, n, p).
        """
        rows = sliding_rows(model, samples, coulomb.slow_rad_s)
        trust = np.where(rows.share < coulomb.sliding_share, coulomb.slow_weight, 1.0)
        other = None
        if samples.other_tau is not None:
            other = np.where(np.isfinite(samples.other_tau), rows.tau + rows.by_other_current, np.nan).ravel()
        return replace(
            self,
            W=rows.W.reshape(-1, len(self.names)),
            tau=rows.tau.ravel(),
            trust=trust.ravel(),
            measured=samples.tau,
            other=other,
            whole=whole,
            share=rows.share,
        )

    @classmethod
    def _with_friction(
        cls,
        model: ArmModel,
        samples: Samples,
        coulomb: CoulombSettings,
        known: KnownGears | None,
        like: GearRows | None,
        backlash: bool,
        widened: bool,
    ) -> "Regression":
        """Fit friction in addition to the base parameters, and return the regression linearised at this fit.

        Args:
            model: model of the arm.
            samples: states and torques.
            coulomb: how friction is treated.
            known: fit of friction to other samples; None fits friction to `samples`.
            like: rows of the same states with other torques, whose regressors are reused; None computes the regressors.
            backlash: whether to estimate backlash and delay, and to correct the states for backlash.
            widened: whether to widen the covariance, because the friction law may lack a part of the friction.
        """
        given = known is not None and not isinstance(known, KnownStart)
        rows = GearRows(model, samples, coulomb.slow_rad_s, like)
        slow = rows.sliding_share < coulomb.sliding_share if samples.fine else np.abs(samples.dq) < coulomb.slow_rad_s
        trust = np.where(slow, coulomb.slow_weight, 1.0)
        sliding = int((~slow).sum())
        if not given and sliding <= len(model.names):  # too few rows to choose a friction structure
            raise _too_few(sliding, len(model.names), samples, coulomb)
        lower = physical_lower_bounds(model.names)
        fitter = GearFitter(rows, model.gears, trust, lower, coulomb.transition_rad_s)
        fit, ladder = _chosen_fit(fitter, coulomb, known)
        play, delay = None, None
        rubs = not given and bool(fit.structure.terms)
        if backlash and rubs and samples.fine:
            play, delay = find_lags(fitter, fit)
            fitter, fit, play = _without_play(fitter, fit, play, coulomb)
            rows = fitter.rows
        left_out = LeftOut.of(fitter, fit) if widened and "km" in fit.structure.terms else None
        joint_friction = JointFriction(
            fit, fitter.with_all_states(fit), ladder, play, delay, given=given, left_out=left_out
        )
        if widened and rubs:
            joint_friction = joint_friction.with_discrepancy(fitter)
        W, tau, weight = [fit.columns[..., : len(lower)]], [joint_friction.target], [trust]
        more = [rows.by_other_current[0]]
        # without friction nothing sticks, so all states count equally
        if not fit.structure.terms and (trust >= 1.0).sum() > len(lower):
            W, tau, weight = [joint_friction.judged.columns], [joint_friction.judged.target], [np.ones_like(trust)]
            more = [np.zeros_like(samples.tau) if samples.other_tau is None else samples.other_tau - samples.tau]
        elif samples.fine:
            moved, rested = fitter.sigma(rows.target - fit.rows.tau), fitter.standing_sigma(fit.point.phi)
            ratio = np.divide(moved, rested, out=np.ones_like(rested), where=rested > 0.0)  # 0: a silent joint
            W, tau = [*W, rows.standing[0]], [*tau, rows.standing[1]]
            weight.append(np.tile(np.minimum(ratio, 1.0), (len(trust), 1)))
            more.append(rows.by_other_current[1])
        other = None
        if samples.other_tau is not None:
            known_there = np.isfinite(samples.other_tau).all(axis=1, keepdims=True)
            other = np.concatenate([np.where(known_there, a + b, np.nan) for a, b in zip(tau, more, strict=True)])
        return cls(
            model.names,
            model.axes,
            np.concatenate(W).reshape(-1, len(lower)),
            np.concatenate(tau).ravel(),
            samples.settings.interval_s,
            joint_friction,
            np.concatenate(weight).ravel(),
            np.abs(samples.dq) >= max(coulomb.slow_rad_s, coulomb.transition_rad_s),
            samples.tau,
            samples.dq,
            None if other is None else other.ravel(),
        )

    @property
    def friction_size(self) -> int:
        """Number m of friction parameters in addition to the base parameters."""
        return 0 if self.joint_friction is None else self.joint_friction.columns.shape[2]

    @property
    def torques(self) -> FloatArray:
        """Measured torques of all samples, (N, n) [N m]."""
        return self.tau.reshape(-1, self.axes) if self.measured is None else self.measured

    @property
    def freedom_of_deviations(self) -> float:
        """Degrees of freedom of the parameters' standard deviations, from the number of independent time windows."""
        return degrees_of_freedom(len(self.torques), self.interval_s)

    @property
    def of_all_states(self) -> FloatArray:
        """Regressor W of the base parameters in all states, including those near standstill, (N, n, p).

        If W has separate rows for states near standstill, the shape is (2 N, n, p): first the rows of moving joints,
        then those near standstill.
        """
        return self.W.reshape(-1, self.axes, len(self.names)) if self.whole is None else self.whole

    @cached_property
    def trusted(self) -> NDArray[np.bool_]:
        """Mask (rows,) of the regression rows whose weight `trust` was not lowered near standstill."""
        return np.ones(len(self.tau), dtype=bool) if self.trust is None else self.trust >= 1.0

    def columns(self) -> FloatArray:
        """Return the columns [C W] of friction and base parameters, (rows, m + p); only W if there is no friction."""
        if self.joint_friction is None:
            return self.W
        return np.concatenate([self._friction_columns.reshape(len(self.tau), -1), self.W], axis=1)

    @cached_property
    def _friction_columns(self) -> FloatArray:
        """Regressor C of the friction parameters, torques per unit of each parameter, (N or 2 N, n, m).

        The first N entries belong to the states of moving joints. If the states near standstill have N rows per axis of
        their own, these come last and are zero.
        """
        assert self.joint_friction is not None
        columns = self.joint_friction.columns
        more = len(self.tau) // self.axes - len(columns)
        return np.concatenate([columns, np.zeros((more, *columns.shape[1:]))]) if more else columns

    def judged_rows(self) -> FloatArray:
        """Return the rows [C W tau] of all states, (N n, m + p + 1), including states near standstill.

        The columns are those of m friction parameters, p base parameters and the torque.
        """
        if self.joint_friction is None:
            return np.column_stack([self.of_all_states.reshape(self.W.shape), self.torques.ravel()])
        return self.joint_friction.judged_rows()

    @cached_property
    def _whole_triangle(self) -> FloatArray:
        return self._triangle(None)

    @cached_property
    def _weighted_triangle(self) -> FloatArray:
        return self._whole_triangle if self.row_weights is None else self._triangle(self.row_weights)

    def _triangle(self, weights: FloatArray | None) -> FloatArray:
        """Return the R factor of the weighted rows [C W tau] (friction, base parameters, torque), including prior rows.

        The row weights `weights` (rows,) apply in addition to `trust`; None means 1.
        """
        if self.reduced is not None:
            return self.reduced.triangle(self._joint_weights(weights), self._prior_rows(weights))
        rows = np.concatenate([self.columns(), self.tau[:, None]], axis=1)
        for scale in (weights, self.trust):
            if scale is not None:
                rows *= scale[:, None]
        return triangle(rows.reshape(-1, self.axes, rows.shape[1]).swapaxes(0, 1), self._prior_rows(weights))

    def _prior_rows(self, weights: FloatArray | None) -> FloatArray | None:
        """Return rows [C W tau] that keep base parameters near their prior values; None without a prior.

        Prior rows have the unit of the other rows.

        Args:
            weights: weights of the other rows, (rows,), which are reciprocal standard deviations and make all rows
                dimensionless. If None, all rows are in N m, and the prior rows are multiplied by a likely standard
                deviation of the residuals.
        """
        if self.prior is None:
            return None
        unit = prior_unit(self.torques) if weights is None else 1.0
        return prior_rows(self.prior, unit, self.friction_size)

    def _joint_weights(self, weights: FloatArray | None) -> FloatArray:
        """Return one weight per joint, (n,), from row weights (rows,) that are equal for all rows of a joint.

        If `weights` is None, all weights are 1.
        """
        return np.ones(self.axes) if weights is None else weights[: self.axes]

    def joint_triangles(self) -> FloatArray:
        """Return the R factor of each joint's weighted rows [C W S tau], (n, k, k).

        The columns are those of friction parameters (C), base parameters (W), and uncertain parameters that are not
        estimated (S), such as the shape of friction. The torque is last.
        """
        rows = np.column_stack([self._all_columns[0], self.tau])
        if self.trust is not None:
            rows *= self.trust[:, None]
        own = rows.reshape(-1, self.axes, rows.shape[1]).swapaxes(0, 1)
        return merged(own, np.zeros((self.axes, 0, rows.shape[1])))

    @property
    def _coulomb_columns(self) -> NDArray[np.bool_]:
        """Mask (m + p,) of the Coulomb friction parameters among the friction parameters and base parameters."""
        own = [name.rstrip("0123456789") == "FC" for name in self.names]
        moving = [False] * self.friction_size
        if self.joint_friction is not None:
            moving[: len(self.joint_friction.parameters)] = [one.term == FB for one in self.joint_friction.parameters]
        return np.array(moving + own)

    @cached_property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of friction and base parameters, (m + p,) each.

        The only bounded base parameters are those of Coulomb friction, which are at least 0.
        """
        lower = np.where(self._coulomb_columns, 0.0, -np.inf)
        upper = np.full(len(lower), np.inf)
        if self.joint_friction is not None:
            lower[: self.friction_size], upper[: self.friction_size] = self.joint_friction.bounds
        return lower, upper

    @cached_property
    def _plain(self) -> Solution:
        return self._bounded(self._whole_triangle)

    @cached_property
    def weighted_solution(self) -> Solution:
        """Least-squares solution with the row weights of the estimator, `row_weights`."""
        return self._plain if self.row_weights is None else self._bounded(self._weighted_triangle)

    def _bounded(self, whole: FloatArray) -> Solution:
        return solve_triangle(whole, self.friction_size, *self.bounds)

    def check_rank(self) -> int:
        """Check that the data determine all p base parameters, and return the rank of the regressor, p.

        With a prior, all parameters are determined, so the data are not checked.

        Raises:
            UndeterminedError: if the rank is not full; the message names the undetermined parameters.
        """
        if self.prior is not None:
            return len(self.names)
        plain = np.linalg.norm(self.W, axis=0)
        silence = plain <= RANK_TOLERANCE * plain.max()
        moved = np.linalg.norm(self.of_all_states, axis=(0, 1)) > RANK_TOLERANCE * plain.max()
        if slow := self._named(silence & moved):
            raise UndeterminedError(
                f"the motion is too slow for {slow}: joints slower than coulomb_friction.slow_rad_s may stick, so what "
                "their torque then gives no information; move their joints faster"
            )
        if silent := self._named(silence):
            raise UndeterminedError(
                f"the motion does not excite {silent}: no torque depends on them; move their joints too"
            )
        count = self.friction_size
        R = self._whole_triangle[count:-1, count:-1]
        strengths = np.linalg.norm(R, axis=0)
        if hidden := self._named(strengths <= RANK_TOLERANCE * plain):
            raise UndeterminedError(
                f"the motion cannot separate {hidden} from friction: move these joints faster, at several speeds"
            )
        pivoted, order = qr(R / strengths, mode="r", pivoting=True, check_finite=False)
        diagonal = np.abs(np.diag(pivoted))
        rank = int((diagonal > RANK_TOLERANCE * diagonal[0]).sum())
        if rank < len(self.names):
            open_ones = ", ".join(self.names[k] for k in order[rank:])
            raise UndeterminedError(
                f"the motion determines only {rank} of {len(self.names)} parameters; it cannot separate {open_ones} "
                "from the others: excite more joints together, or at other postures"
            )
        return rank

    def _named(self, which: NDArray[np.bool_]) -> str:
        return ", ".join(name for name, one in zip(self.names, which, strict=True) if one)

    @property
    def has_coulomb_friction(self) -> bool:
        """Whether Coulomb friction is estimated, as base parameters or in addition to them."""
        return bool(self._coulomb_columns.any())

    def independence_from_coulomb(self) -> dict[str, float]:
        """Return for each base parameter the fraction of its column that Coulomb friction cannot reproduce, 0 to 1.

        The keys are parameter names; Coulomb friction itself is not included. A column contains the torques per unit of
        the parameter. It is projected onto the orthogonal complement of all Coulomb friction columns; the fraction is
        the length of the projected column divided by the length of the column.
        """
        coulomb, count = self._coulomb_columns, self.friction_size
        own = np.flatnonzero(~coulomb[count:]) + count
        chosen = np.concatenate([np.flatnonzero(coulomb), own])
        R = np.atleast_2d(qr(self._whole_triangle[:, :-1][:, chosen], mode="r", check_finite=False)[0])
        R, first = R[:, -len(own) :], int(coulomb.sum())
        shares = np.linalg.norm(R[first:], axis=0) / np.linalg.norm(R, axis=0)
        return dict(zip([self.names[k - count] for k in own], shares.tolist(), strict=True))

    def conditioning(self) -> tuple[float, tuple[str, ...]]:
        """Return the condition number of W and the names of the parameters that limit it.

        The condition number is kappa(W) = sigma_max / sigma_min, as in Appendix A of arXiv:2605.15949. With a prior, W
        includes the prior rows. The named parameters dominate the least excited combination of parameters.
        """
        rows = self.W
        if self.prior is not None:
            rows = np.concatenate([rows, prior_rows(self.prior, prior_unit(self.torques), 0)[:, :-1]])
        R = qr(rows, mode="r", check_finite=False)[0][: len(self.names)]
        _, singular, directions = np.linalg.svd(R)
        weakest = np.abs(directions[-1])
        order = np.argsort(-weakest)
        named = tuple(self.names[k] for k in order if weakest[k] > DOMINANT * weakest[order[0]])
        return float(singular[0] / singular[-1]), named

    def of_other_current(self) -> "Regression":
        """Return a copy of the regression with torques from the other recorded current.

        A recording may contain a measured and a commanded current; this regression uses one of them. Rows for which the
        other current was not recorded get zero weight. Friction stays linearised at the fit to this regression's
        torques.

        Raises:
            DataError: if the other current was not recorded.
        """
        if self.other is None:
            raise DataError("the samples hold the torques of one current only: record the other one, too")
        there = np.repeat(np.isfinite(self.other.reshape(-1, self.axes)).all(axis=1), self.axes)
        trust = np.where(there, 1.0 if self.trust is None else self.trust, 0.0)
        return replace(self, tau=np.where(there, self.other, 0.0), trust=trust, other=None, reduced=None)

    def solve(self, weights: FloatArray | None = None) -> Solution:
        """Return the weighted least-squares solution.

        Args:
            weights: row weights (rows,), which are multiplied by the weights `trust` of this regression; None means 1.
        """
        return self._plain if weights is None else self._bounded(self._triangle(weights))

    def friction_given(self, phi: FloatArray) -> FloatArray | None:
        """Return the friction parameters (m,) that fit best for given base parameters phi (p,), within their bounds.

        The result is None if no friction outside the base parameters is estimated.
        """
        count = self.friction_size
        if not count or self.joint_friction is None:
            return None
        R = self._weighted_triangle[:count]
        left = R[:, -1] - R[:, count:-1] @ phi
        return bounded(np.column_stack([R[:, :count], left]), *self.joint_friction.bounds)

    def friction_model(self, phi: FloatArray) -> FrictionLaw | None:
        """Return the friction law that fits best for given base parameters phi (p,).

        The standard deviations in the law also contain the uncertainty of phi: they come from the fit that estimates
        friction and phi together. The result is None if the regression contains no friction outside the base
        parameters.
        """
        if self.joint_friction is None:
            return None
        values = self.friction_given(phi)
        solution = self.weighted_solution
        deviations = self.friction_deviations(solution, self.spread(solution, self.row_weights))
        return self.joint_friction.law(np.zeros(0) if values is None else values, deviations)

    @cached_property
    def weighted_spread(self) -> FloatArray:
        """Covariance (k, k) of all uncertain parameters at the solution with the row weights `row_weights`.

        The parameters are friction parameters, base parameters, and uncertain parameters that are not estimated, such
        as the shape of friction (Stribeck velocity and exponent), in this order.
        """
        return self.whole_spread(self.weighted_solution, self.row_weights)

    def friction_deviations(self, solution: Solution, spread: FloatArray) -> FloatArray:
        """Return the standard deviations of the friction parameters, (m,); zero for parameters at a bound.

        Args:
            solution: least-squares solution.
            spread: covariance of the friction parameters that are not at a bound, and of the base parameters.
        """
        deviations, count = np.zeros(self.friction_size), int(solution.sliding.sum())
        deviations[solution.sliding] = np.sqrt(np.diag(spread)[:count])
        return deviations

    def spread(self, solution: Solution, weights: FloatArray | None = None, inflation: float = 1.0) -> FloatArray:
        """Return the covariance (q, q) of the friction parameters that are not at a bound and of the base parameters.

        The friction parameters come first.

        Args:
            solution: least-squares solution.
            weights: row weights (rows,) of the solution, which are multiplied by `trust`; None means 1.
            inflation: factor by which the inverse normal matrix is multiplied; 1 for least squares.

        Raises:
            DataError: if there are too few equations, not counting those with a lower weight near standstill.
        """
        count = self.friction_size
        kept = np.flatnonzero(np.concatenate([solution.sliding[:count], np.ones(len(self.names), dtype=bool)]))
        known = solution is self.weighted_solution and inflation == 1.0
        whole = self.weighted_spread if known else self.whole_spread(solution, weights, inflation)
        return np.asarray(whole[np.ix_(kept, kept)])

    def whole_spread(self, solution: Solution, weights: FloatArray | None = None, inflation: float = 1.0) -> FloatArray:
        """Return the covariance (k, k) of friction parameters, base parameters and parameters that are not estimated.

        Parameters that are not estimated, such as the shape of friction (Stribeck velocity and exponent), have only a
        prior. Friction parameters at a bound are included.

        Args:
            solution: least-squares solution.
            weights: row weights (rows,) of the solution, in addition to `trust`; None means 1.
            inflation: factor by which the inverse normal matrix is multiplied; 1 for least squares.

        Raises:
            DataError: if there are too few equations, not counting those with a lower weight near standstill.
        """
        scale = np.ones(len(self.tau))
        for one in (weights, self.trust):
            scale = scale if one is None else scale * one
        columns, known = self._all_columns
        rows, count = int(self.trusted.sum()), int(solution.sliding.sum()) + len(self.names)
        states = len(self.tau) // self.axes
        if rows <= count:
            raise DataError(f"{rows} trusted equations do not determine {count} parameters; record longer")

        def weighted(values: FloatArray) -> FloatArray:
            return np.asarray((values * scale[:, None]).reshape(states, self.axes, values.shape[1]))

        residual = weighted(self.residual(solution.phi, solution.friction).reshape(-1, 1))[..., 0]
        effects = weighted(self._effects)
        whole = whole_covariance(weighted(columns), residual, known, self.interval_s, inflation, effects)
        if self.reduced is None:
            return whole
        noise = whole_covariance(weighted(columns), residual, known, self.interval_s, inflation)
        return self._of_all_recordings(self.reduced, solution, whole, noise, self._joint_weights(weights))

    def _of_all_recordings(
        self, reduced: ReducedRows, solution: Solution, whole: FloatArray, noise: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """Return the covariance (q, q) of parameters fitted to all recordings, from that of the recordings in memory.

        The part of the covariance due to noise decreases with the number of rows. The part due to unmodelled torques
        does not. If groups of recordings differ more than the resulting standard deviations suggest, these standard
        deviations are increased, see `ReducedRows.wider`.

        Args:
            reduced: R factors of the rows of all recordings.
            solution: least-squares solution of all rows.
            whole: covariance from the rows in memory, (q, q).
            noise: the same covariance without the part due to unmodelled torques (such as backlash), (q, q).
            weights: weights of the joints, (n,).
        """
        share = min(1.0, float(self.trusted.sum() / max(reduced.rows.sum(), 1.0)))
        found = whole - (1.0 - share) * noise
        kept = np.flatnonzero(np.append(solution.sliding[: self.friction_size], np.ones(len(self.names), dtype=bool)))
        wider = np.ones(len(found))
        wider[kept] = reduced.wider(solution, weights, np.sqrt(np.maximum(np.diag(found)[kept], 0.0)))
        return np.asarray(found * np.outer(wider, wider))

    @property
    def _all_columns(self) -> tuple[FloatArray, FloatArray]:
        """Torques (rows, k) per unit of all uncertain parameters, and the parameters' prior standard deviations, (k,).

        The parameters are friction parameters, base parameters, and parameters that are not estimated but uncertain,
        such as the shape of friction (Stribeck velocity and exponent).
        """
        own, base = self.columns(), np.full(len(self.names), np.inf)
        if self.prior is not None and self.prior.standard_deviations is not None:
            base = self.prior.standard_deviations
        if self.joint_friction is None:
            return own, base
        more, known = self.joint_friction.shape_columns
        known = np.concatenate([self.joint_friction.known, base, known])
        return np.concatenate([own, self._padded(more)], axis=1), known

    @property
    def _effects(self) -> FloatArray:
        """Torques of k effects that no parameter describes, each at its standard deviation, (rows, k) [N m].

        An example is the backlash that remains after the correction of the states for backlash.
        """
        if self.joint_friction is None or self.joint_friction.effects is None:
            return np.zeros((len(self.tau), 0))
        return self._padded(self.joint_friction.effects)

    def _padded(self, columns: FloatArray) -> FloatArray:
        """Return columns (N, n, k), any unit, as a matrix with as many rows as W, filled up with zeros.

        The rows of zeros belong to the additional equations of states near standstill, which come last.
        """
        stacked = columns.reshape(columns.shape[0] * self.axes, columns.shape[2])
        return np.concatenate([stacked, np.zeros((len(self.tau) - len(stacked), columns.shape[2]))])

    def errors(self, phi: FloatArray) -> TorqueErrors:
        """Return the torque errors on all samples for base parameters phi (p,), with the friction that fits best."""
        return torque_errors(self.torques, self.torques - self.misfit(phi, self.friction_given(phi)), self.dq)

    def misfit(self, phi: FloatArray, friction: FloatArray | None = None) -> FloatArray:
        """Return measured minus predicted torques in all states, (N, n) [N m], including states masked in the fit.

        Args:
            phi: base parameters, (p,).
            friction: friction parameters, (m,); None means zero.
        """
        if self.joint_friction is None:
            return np.asarray(self.torques - self.of_all_states @ phi)
        return self.joint_friction.misfit(phi, np.zeros(self.friction_size) if friction is None else friction)

    def residual(self, phi: FloatArray, friction: FloatArray | None = None) -> FloatArray:
        """Return the residual tau - W phi - C f of the fitted rows, (rows / n, n) [N m].

        Args:
            phi: base parameters, (p,).
            friction: friction parameters f, (m,); None means zero.
        """
        left = (self.tau - self.W @ phi).reshape(-1, self.axes)
        return left if friction is None or self.joint_friction is None else left - self._friction_columns @ friction

    @property
    def known_start(self) -> KnownStart | None:
        """Friction fit at which a new fit may start, after position zeros or a delay of the recordings were corrected.

        The value is None if friction was not fitted.
        """
        found = self.joint_friction
        return None if found is None else KnownStart(found.fit.structure, found.fit.point, found.ladder)

    def axis_sigma(self, residual: FloatArray) -> FloatArray:
        """Return the standard deviation of every axis's residual, (n,) [N m].

        Rows with a lower weight near standstill are used only for an axis that has no others. The degrees of freedom of
        an axis are the number of its used rows minus p / n, for p base parameters and n axes.

        Args:
            residual: residual of the samples, (N, n) [N m]; residuals of additional rows near standstill may follow.
        """
        trusted = self.trusted.reshape(-1, self.axes)[: len(residual)].copy()
        trusted[:, ~trusted.any(axis=0)] = True  # all rows of an axis that hardly moves and so has no trusted row
        count = trusted.sum(axis=0)
        freedom = np.maximum(count - len(self.names) / self.axes, 1.0)
        return np.asarray(np.sqrt((residual**2 * trusted).sum(axis=0) / freedom))

    def weights(self, sigma: FloatArray) -> FloatArray:
        """Return row weights (rows,): the reciprocal of the standard deviation sigma (n,) [N m] of each row's axis."""
        floor = max(SIGMA_FLOOR * float(sigma.max()), np.finfo(float).tiny)
        return np.tile(1.0 / np.maximum(sigma, floor), len(self.tau) // self.axes)


def _chosen_fit(
    fitter: GearFitter, coulomb: CoulombSettings, known: KnownGears | None
) -> tuple[GearFit, Ladder | None]:
    """Return the fit of friction, and the comparison of friction structures by which its structure was chosen.

    The comparison is None if the settings or `known` prescribe the structure; a `KnownStart` may contain a comparison.

    Args:
        fitter: fitter of the rows.
        coulomb: settings, whose `structure` is the name of a friction structure, or "auto" for a choice by comparison.
        known: friction fit to other samples. With a `KnownStart`, friction is fitted again, starting from its values.
            Any other known fit is used unchanged. None fits friction to the rows.
    """
    if isinstance(known, KnownStart):
        return fit_until_settled(fitter, fitter.fit(known.structure, known.point)), known.ladder
    if known is not None:
        return fitter.linearised(known), None
    if coulomb.structure == "auto":
        ladder = select_structure(fitter)
        return ladder.fit, ladder
    chosen = next(one for one in LADDER if one.name == coulomb.structure)
    return fit_until_settled(fitter, fitter.fit(chosen)), None


def _without_play(
    fitter: GearFitter, fit: GearFit, play: FoundPlay, coulomb: CoulombSettings
) -> tuple[GearFitter, GearFit, FoundPlay]:
    """Return fitter, friction fit and backlash after a correction of the joints' states for backlash.

    The correction of a joint is kept only if it reduces the joint's error on held-out blocks of time. The attribute
    `taken` of the returned backlash contains the corrections that were kept.

    Args:
        fitter: fitter of the uncorrected rows.
        fit: fit of these rows.
        play: estimated backlash.
        coulomb: how friction is treated.
    """
    sigma, taken = fitter.sigma(fitter.rows.target - fit.rows.tau, NO_ERROR), play.significant
    before = BlockJudge(fitter, sigma).of_axes(fit).sum(axis=0)
    while taken.any():
        rows = GearRows(fitter.rows.model, without_play(fitter.rows.samples, taken), coulomb.slow_rad_s)
        other = GearFitter(rows, fitter.gears, fitter.trust, fitter.lower, fitter.transition_rad_s)
        found = fit_until_settled(other, other.fit(fit.structure, fit.point))
        worse = (taken > 0.0) & (BlockJudge(other, sigma).of_axes(found).sum(axis=0) >= before)
        if not worse.any():
            return other, found, replace(play, taken=taken)
        taken = np.where(worse, 0.0, taken)
    return fitter, fit, replace(play, taken=taken)


def _too_few(equations: int, parameters: int, samples: Samples, coulomb: CoulombSettings | None) -> DataError:
    """Return the error about too few equations for a number of parameters.

    If `coulomb` is given, the message states that only states faster than its `slow_rad_s` were counted.
    """
    slow, advice = "", "record longer"
    if coulomb is not None:
        slow, top = f" faster than {coulomb.slow_rad_s} rad/s", float(np.abs(samples.dq).max(initial=0.0))
        if top < HARDLY * coulomb.slow_rad_s:
            advice = (
                f"the fastest joint reaches {top:.2g} rad/s: if it moved faster than that, correct the unit of "
                "positions or times; else move faster, or record longer"
            )
    return DataError(f"{equations} equations{slow} do not determine {parameters} parameters; {advice}")
