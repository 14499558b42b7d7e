"""Least squares on the inverse-dynamics regressor (paper eqs. 4 to 7): ordinary, weighted, robust.

All three solve a row-weighted problem by QR; the normal equations of eq. 7 would square the condition number.

    ols     every row counts the same (the paper's);
    wls     rows of an axis are divided by that axis's residual deviation (IDIM-WLS), from a preceding OLS;
    huber   like wls, and rows beyond 1.345 robust deviations count linearly instead of squared (IRLS).

Standard deviations assume uncorrelated residuals, which resampling to the target grid with a cut-off near its
Nyquist frequency makes about true; unmodelled friction is not white, so they are lower bounds on a real arm.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular

from dynid.errors import DataError
from dynid.identification.estimator import Estimate, register, torque_errors
from dynid.identification.preprocessing import Samples
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only

RANK_TOLERANCE = 1e-8  # of columns scaled to unit length
HUBER_THRESHOLD = 1.345  # 95 % efficiency on normal residuals
MAD_TO_SIGMA = 1.4826  # median absolute deviation of a normal distribution
DOMINANT = 0.3  # of the largest entry of the weakest direction
ROUND_OFF = 1e-12  # of the largest parameter: noise-free data have no deviation to compare with
SIGMA_FLOOR = 1e-9  # of the largest axis's deviation: a noise-free axis must not get an infinite weight


@dataclass(frozen=True, eq=False)
class Regression:
    """Stacked rows of tau = W phi (paper eq. 5): W (N n, p), tau (N n,), rows of one sample together."""

    names: tuple[str, ...]
    axes: int
    W: FloatArray
    tau: FloatArray

    @classmethod
    def of(cls, model: ArmModel, samples: Samples) -> "Regression":
        """The regression of all samples; refuses samples that leave parameters open."""
        W = model.regressor(samples.q, samples.dq, samples.ddq).reshape(-1, len(model.names))
        if len(W) <= len(model.names):
            raise DataError(f"{len(W)} equations do not determine {len(model.names)} parameters; record longer")
        regression = cls(model.names, model.axes, W, samples.tau.ravel())
        regression.check_rank()
        return regression

    @cached_property
    def factor(self) -> FloatArray:
        """Upper triangular R (p + 1, p + 1) with R'R = [W tau]'[W tau]: all that least squares needs of the rows."""
        return _triangle(np.column_stack([self.W, self.tau]))

    def check_rank(self) -> int:
        """The rank of W, which is full.

        Raises:
            DataError: it is not; names the parameters that the motion leaves open.
        """
        R = self.factor[:-1, :-1]
        strengths = np.linalg.norm(R, axis=0)
        silent = [n for n, s in zip(self.names, strengths, strict=True) if s <= RANK_TOLERANCE * strengths.max()]
        if silent:
            raise DataError(
                f"the motion does not excite {', '.join(silent)}: no torque depends on them; move their joints too"
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

    def conditioning(self) -> tuple[float, tuple[str, ...]]:
        """kappa(W) = sigma_max / sigma_min, as in the paper's Appendix A, and the parameters that limit it.

        These are the ones that dominate the combination of parameters which the motion shows least.
        """
        _, singular, directions = np.linalg.svd(self.factor[:-1, :-1])
        weakest = np.abs(directions[-1])
        order = np.argsort(-weakest)
        named = tuple(self.names[k] for k in order if weakest[k] > DOMINANT * weakest[order[0]])
        return float(singular[0] / singular[-1]), named

    def ordinary(self) -> tuple[FloatArray, FloatArray, float]:
        """phi (p,) that minimises the squares, the inverse of its normal matrix (p, p), and the sum of squares."""
        return _solve(self.factor)

    def weighted(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """phi (p,) that minimises the weighted squares and the inverse of its normal matrix; weights (N n,)."""
        phi, inverse, _ = _solve(_triangle(np.column_stack([self.W, self.tau]) * weights[:, None]))
        return phi, inverse

    def residual(self, phi: FloatArray) -> FloatArray:
        """tau - W phi, (N, n)."""
        return (self.tau - self.W @ phi).reshape(-1, self.axes)

    def axis_sigma(self, phi: FloatArray) -> FloatArray:
        """Standard deviation of every axis's residual, (n,); the parameters' share of freedom is spread evenly."""
        residual = self.residual(phi)
        freedom = len(residual) - len(phi) / self.axes
        return np.asarray(np.sqrt((residual**2).sum(axis=0) / freedom))

    def weights(self, sigma: FloatArray) -> FloatArray:
        """Row weights 1 / sigma of each row's axis, (N n,)."""
        floor = max(SIGMA_FLOOR * float(sigma.max()), np.finfo(float).tiny)
        return np.tile(1.0 / np.maximum(sigma, floor), len(self.tau) // self.axes)

    def estimate(self, method: str, phi: FloatArray, covariance: FloatArray, settings: Mapping[str, Any]) -> Estimate:
        """The result for a solution."""
        tau = self.tau.reshape(-1, self.axes)
        kappa, weakest = self.conditioning()
        return Estimate(
            base=BaseParameters(self.names, phi, covariance),
            errors=torque_errors(tau, tau - self.residual(phi)),
            residual_sigma=read_only(self.axis_sigma(phi)),
            condition_number=kappa,
            weakest=weakest,
            rank=len(self.names),
            method=method,
            settings=settings,
        )


def _triangle(rows: FloatArray) -> FloatArray:
    """R of the QR decomposition of rows (m, k), (k, k)."""
    return np.asarray(qr(rows, mode="r", check_finite=False, overwrite_a=True)[0][: rows.shape[1]])


def _solve(factor: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """phi (p,), inverse normal matrix (p, p) and sum of squares from the factor (p + 1, p + 1) of [W tau]."""
    R = factor[:-1, :-1]
    strengths = np.linalg.norm(R, axis=0)
    scaled = R / strengths
    phi = solve_triangular(scaled, factor[:-1, -1]) / strengths
    inverse = solve_triangular(scaled, np.eye(len(phi))) / strengths[:, None]
    return phi, inverse @ inverse.T, float(factor[-1, -1] ** 2)


@dataclass(frozen=True)
class OrdinaryLeastSquares:
    """phi = argmin || tau - W phi || (paper eq. 6)."""

    name: str = "ols"

    def estimate(self, model: ArmModel, samples: Samples) -> Estimate:
        """See `Estimator.estimate`."""
        regression = Regression.of(model, samples)
        phi, inverse, squares = regression.ordinary()
        variance = squares / (len(regression.tau) - len(phi))
        return regression.estimate(self.name, phi, variance * inverse, {})


@dataclass(frozen=True)
class WeightedLeastSquares:
    """Every axis in units of its own residual deviation, so that strong joints do not drown the wrist."""

    name: str = "wls"

    def estimate(self, model: ArmModel, samples: Samples) -> Estimate:
        """See `Estimator.estimate`."""
        regression = Regression.of(model, samples)
        first, _, _ = regression.ordinary()
        sigma = regression.axis_sigma(first)
        phi, inverse = regression.weighted(regression.weights(sigma))
        # the weights are in units of the deviation, so the inverse already is the covariance
        return regression.estimate(self.name, phi, inverse, {"axis_sigma_nm": sigma.tolist()})


@dataclass(frozen=True)
class HuberLeastSquares:
    """Weighted least squares in which outliers count linearly (iteratively reweighted)."""

    name: str = "huber"
    maximum_iterations: int = 200
    scale_iterations: int = 10  # then the scale is held: a median that moves with phi need not settle
    tolerance: float = 1e-4  # of a change of phi in units of its standard deviation

    def estimate(self, model: ArmModel, samples: Samples) -> Estimate:
        """See `Estimator.estimate`."""
        regression = Regression.of(model, samples)
        phi, inverse, _ = regression.ordinary()
        for iteration in range(self.maximum_iterations):
            residual = regression.residual(phi)
            if iteration < self.scale_iterations:
                sigma = MAD_TO_SIGMA * np.median(np.abs(residual), axis=0)
                base = regression.weights(sigma)
            standardised = np.abs(residual).ravel() * base
            with np.errstate(divide="ignore"):
                soft = np.minimum(1.0, HUBER_THRESHOLD / standardised)
            previous = phi
            phi, inverse = regression.weighted(base * np.sqrt(soft))
            change = np.abs(phi - previous)
            if np.all((change < self.tolerance * np.sqrt(np.diag(inverse))) | (change < ROUND_OFF * np.abs(phi).max())):
                break
        else:
            raise DataError(
                f"the robust regression did not settle in {self.maximum_iterations} iterations; the residuals have no "
                "clear scale: use the estimator ols or wls"
            )
        outliers = float((standardised > HUBER_THRESHOLD).mean())
        covariance = inverse * _huber_inflation(standardised, soft)
        details = {"axis_sigma_nm": sigma.tolist(), "outlier_share": outliers}
        return regression.estimate(self.name, phi, covariance, details)


def _huber_inflation(standardised: FloatArray, soft: FloatArray) -> float:
    """Factor from the inverse of the weighted normal matrix to the covariance.

    Huber's covariance is E[psi^2] / E[psi']^2 (W'W)^-1, and the weighted normal matrix is about E[w] W'W.
    """
    clipped = np.minimum(standardised, HUBER_THRESHOLD)
    inside = max(float((standardised <= HUBER_THRESHOLD).mean()), np.finfo(float).eps)
    return float((clipped**2).mean() / inside**2 * soft.mean())


for _kind in (OrdinaryLeastSquares, WeightedLeastSquares, HuberLeastSquares):
    register(_kind().name, _kind)
