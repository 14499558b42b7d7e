"""Weighted least squares with per-joint weights and essential parameters (Gautier and Venture 2013, section III).

IDIM-WLS: the rows of joint j are divided by the residual standard deviation of an ordinary least-squares fit to joint j
alone. The relative standard deviation of a parameter (their eq. 12) shows how well the motion excites it. Parameters
with a large relative standard deviation are dropped one at a time, the largest first. The remaining parameters are
estimated again each time. The last remaining ones are the essential parameters.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from dynid.errors import DataError
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.gear_fit import KnownGears
from dynid.identification.estimators.least_squares import WeightedLeastSquares
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.torque_errors import TorqueErrors, torque_errors
from dynid.identification.settings import CoulombSettings
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.numerical_regrouping import is_zero_column
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only

DEVIATION_LIMIT = 0.1  # relative standard deviation beyond which a parameter is not essential
JOINT_RANK_TOLERANCE = 1e-8  # rank tolerance of one joint's own regressor, with scaled columns
SIGMA_FLOOR = 1e-9  # smallest deviation relative to the largest joint's: noise-free data must not get infinite weights


@dataclass(frozen=True)
class Cancelled:
    """Base parameter that was dropped as not essential.

    Attributes:
        name: name of the parameter.
        relative_deviation: its relative standard deviation when it was dropped.
        left: number of parameters that remained after it was dropped.
    """

    name: str
    relative_deviation: float
    left: int


@dataclass(frozen=True, eq=False)
class EssentialParameters:
    """Essential parameters of a model; arrays are read-only.

    Attributes:
        base: all base parameters with covariance; dropped (cancelled) ones are zero.
        kept: names of the essential parameters.
        cancelled: the dropped parameters, in the order in which they were dropped.
        relative_deviations: standard deviation over value, (p,), eq. 12 of Gautier and Venture (2013); NaN for dropped
            parameters.
        sigma: standard deviation of each joint's torque residual, by which the joint's rows are divided, (n,) [N m].
        limit: largest relative standard deviation of an essential parameter.
        errors: torque errors on the samples.
    """

    base: BaseParameters
    kept: tuple[str, ...]
    cancelled: tuple[Cancelled, ...]
    relative_deviations: FloatArray
    sigma: FloatArray
    limit: float
    errors: TorqueErrors


def joint_sigma(W: FloatArray, tau: FloatArray) -> FloatArray:
    """Return the residual standard deviation of each joint's own ordinary least-squares fit, (n,) [N m].

    Args:
        W: regressor, (N, n, p).
        tau: torques, (N, n) [N m].

    Raises:
        DataError: if there are not more samples than parameters of a joint.
    """
    deviations = []
    for j in range(tau.shape[1]):
        columns = W[:, j, ~is_zero_column(W[:, j])]
        R, order = qr(columns / np.linalg.norm(columns, axis=0), mode="r", pivoting=True, check_finite=False)
        diagonal = np.abs(np.diag(R))
        rank = int((diagonal > JOINT_RANK_TOLERANCE * diagonal[0]).sum())
        if len(tau) <= rank:
            raise DataError(
                f"{len(tau)} samples do not determine the {rank} parameters of joint {j + 1}; record longer"
            )
        own = columns[:, order[:rank]]
        residual = tau[:, j] - own @ np.linalg.lstsq(own, tau[:, j], rcond=None)[0]
        deviations.append(np.sqrt(residual @ residual / (len(tau) - rank)))
    sigma = np.array(deviations)
    return np.asarray(np.maximum(sigma, max(SIGMA_FLOOR * sigma.max(), np.finfo(float).tiny)))


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Weighted equations tau = W phi, reduced to the R factor of a QR decomposition of [W tau].

    Attributes:
        R: R factor, (p + 1, p + 1).
        rows: number of equations.
    """

    R: FloatArray
    rows: int

    @classmethod
    def of(cls, W: FloatArray, tau: FloatArray, sigma: FloatArray) -> "WeightedRows":
        """Return the equations tau = W phi, each divided by its joint's residual deviation, reduced to an R factor.

        Args:
            W: regressor, (N, n, p).
            tau: torques, (N, n) [N m].
            sigma: standard deviation of each joint's torque residual, (n,) [N m].
        """
        stacked = np.concatenate([W, tau[..., None]], axis=-1) / sigma[:, None]
        flat = stacked.reshape(-1, W.shape[-1] + 1)
        R = qr(flat, mode="r", check_finite=False, overwrite_a=True)[0][: flat.shape[1]]
        return cls(np.asarray(R), len(flat))

    def solve(self, kept: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        """Return least-squares values (k,) and covariance (k, k) of selected parameters; all other parameters are zero.

        The formulas are eqs. 8, 10 and 11 of Gautier and Venture (2013).

        Args:
            kept: indices of the selected parameters, (k,).

        Raises:
            DataError: if there are not more rows than parameters, or the columns of the parameters are linearly
                dependent.
        """
        if self.rows <= len(kept):
            raise DataError(f"{self.rows} equations do not determine {len(kept)} parameters; record longer")
        factor = qr(self.R[:, [*kept, -1]], mode="r")[0]
        triangle = factor[: len(kept), : len(kept)]
        lengths = np.linalg.norm(triangle, axis=0)
        if np.abs(np.diag(triangle / lengths)).min() < JOINT_RANK_TOLERANCE:
            raise DataError("the motion cannot separate all parameters; excite more joints together")
        values = solve_triangular(triangle / lengths, factor[: len(kept), -1]) / lengths
        root = solve_triangular(triangle / lengths, np.eye(len(kept))) / lengths[:, None]
        variance = float(np.sum(factor[len(kept) :, -1] ** 2)) / (self.rows - len(kept))
        return values, variance * root @ root.T


def relative_deviations(values: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return the relative standard deviation of each parameter, (k,), eq. 12 of Gautier and Venture (2013).

    Args:
        values: parameter values, (k,); a value of zero has an infinite relative deviation.
        covariance: covariance of the values, (k, k).
    """
    deviations = np.sqrt(np.diag(covariance))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values == 0.0, np.inf, deviations / np.abs(values))


def essential_parameters(model: ArmModel, samples: Samples, limit: float = DEVIATION_LIMIT) -> EssentialParameters:
    """Return the essential base parameters, which the motion determines with a small relative standard deviation.

    Other parameters are dropped one at a time; the one with the largest relative standard deviation is dropped first.

    Args:
        model: model of the arm.
        samples: filtered states and torques.
        limit: largest relative standard deviation of an essential parameter; infinity keeps all (IDIM-WLS).

    Raises:
        DataError: if the samples do not determine the parameters, or no parameter is within the limit.
    """
    W = samples.low_passed(model.regressor)
    silent = is_zero_column(W.reshape(-1, W.shape[-1]))
    if silent.any():
        listed = ", ".join(model.names[k] for k in np.flatnonzero(silent))
        raise DataError(f"the motion does not excite {listed}: no torque depends on them; move their joints too")
    sigma = joint_sigma(W, samples.tau)
    rows = WeightedRows.of(W, samples.tau, sigma)
    kept = np.arange(len(model.names))
    cancelled: list[Cancelled] = []
    while True:
        values, covariance = rows.solve(kept)
        deviations = relative_deviations(values, covariance)
        worst = int(np.argmax(deviations))
        if deviations[worst] <= limit:
            break
        cancelled.append(Cancelled(model.names[kept[worst]], float(deviations[worst]), len(kept) - 1))
        kept = np.delete(kept, worst)
        if not len(kept):
            raise DataError(f"no parameter has a relative standard deviation within {limit:g}: the motion excites none")
    return _outcome(model, samples, W, kept, (values, covariance, deviations), sigma, tuple(cancelled), limit)


def _outcome(
    model: ArmModel,
    samples: Samples,
    W: FloatArray,
    kept: NDArray[np.int64],
    solution: tuple[FloatArray, FloatArray, FloatArray],
    sigma: FloatArray,
    cancelled: tuple[Cancelled, ...],
    limit: float,
) -> EssentialParameters:
    """Return the result of a search for essential parameters, with all base parameters in the model's order.

    Args:
        model: model of the arm.
        samples: filtered states and torques.
        W: regressor, (N, n, p).
        kept: indices of the essential parameters, (k,).
        solution: values (k,), covariance (k, k) and relative standard deviations (k,) of the essential parameters.
        sigma: standard deviation of each joint's torque residual, (n,) [N m].
        cancelled: dropped parameters.
        limit: largest relative standard deviation of an essential parameter.
    """
    size = len(model.names)
    phi, deviations, covariance = np.zeros(size), np.full(size, np.nan), np.zeros((size, size))
    phi[kept], covariance[np.ix_(kept, kept)], deviations[kept] = solution
    return EssentialParameters(
        base=BaseParameters(model.names, phi, covariance),
        kept=tuple(model.names[k] for k in kept),
        cancelled=cancelled,
        relative_deviations=read_only(deviations),
        sigma=read_only(sigma),
        limit=limit,
        errors=torque_errors(samples.tau, W @ phi),
    )


def without_friction(
    model: ArmModel, samples: Samples, coulomb: CoulombSettings | None, known: KnownGears | None = None
) -> tuple[Samples, FrictionLaw | None, Regression]:
    """Subtract friction that the base parameters do not contain; return new samples, friction law, and regression.

    The friction is estimated by weighted least squares. If the base parameters already contain Coulomb friction, or if
    friction is ignored, the torques are unchanged and the friction law is None.

    Args:
        model: model of the arm.
        samples: filtered states and torques.
        coulomb: how friction is treated; None ignores it.
        known: friction fitted to other samples; None fits friction to `samples`.
    """
    if coulomb is None or coulomb.treatment != "estimated" or model.structure.coulomb_friction:
        return samples, None, Regression.of(model, samples, coulomb, known)
    found = WeightedLeastSquares().estimate(model, samples, coulomb, known)
    if found.friction is None:
        return samples, None, found.regression
    regression, phi = found.regression, found.base
    left = regression.residual(phi.values, regression.friction_given(phi.values))[: len(samples)]
    links = samples.low_passed(lambda q, dq, ddq: model.inverse_dynamics(q, dq, ddq, phi))
    return replace(samples, tau=links + left), found.friction, regression


@dataclass(frozen=True)
class EssentialLeastSquares:
    """Estimator of essential base parameters; all other parameters are zero and have no standard deviation.

    Essential parameters are those whose relative standard deviation is within a limit.
    """

    name: str = "essential"
    limit: float = DEVIATION_LIMIT

    def estimate(
        self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None, known: KnownGears | None = None
    ) -> Estimate:
        """Return the estimate of essential base parameters; all other parameters are zero.

        Args:
            model: model of the arm, which defines the parameters.
            samples: filtered states and torques.
            coulomb: how friction is treated; None ignores it.
            known: friction fitted to other samples; None fits friction to `samples`.

        Raises:
            DataError: if the samples do not determine the parameters, or no parameter is essential.
        """
        plain, friction, regression = without_friction(model, samples, coulomb, known)
        found = essential_parameters(model, plain, self.limit)
        kappa, weakest = regression.conditioning()
        residual = plain.tau - samples.low_passed(lambda q, dq, ddq: model.inverse_dynamics(q, dq, ddq, found.base))
        return Estimate(
            base=found.base,
            errors=torque_errors(samples.tau, samples.tau - residual),
            residual_sigma=read_only(regression.axis_sigma(residual)),
            condition_number=kappa,
            weakest=weakest,
            rank=len(model.names),
            method=self.name,
            settings={
                "limit": self.limit,
                "essential": list(found.kept),
                "cancelled": [one.name for one in found.cancelled],
            },
            friction=friction,
            metric=regression.solve().metric,
            regression=regression,
        )
