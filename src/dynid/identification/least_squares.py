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

    @property
    def strengths(self) -> FloatArray:
        """Length of every column, (p,)."""
        return np.asarray(np.linalg.norm(self.W, axis=0))

    def check_rank(self) -> int:
        """The rank of W, which is full.

        Raises:
            DataError: it is not; names the parameters that the motion leaves open.
        """
        strengths = self.strengths
        silent = [n for n, s in zip(self.names, strengths, strict=True) if s <= RANK_TOLERANCE * strengths.max()]
        if silent:
            raise DataError(
                f"the motion does not excite {', '.join(silent)}: no torque depends on them; move their joints too"
            )
        R, order = qr(self.W / strengths, mode="r", pivoting=True, check_finite=False)
        diagonal = np.abs(np.diag(R))
        rank = int((diagonal > RANK_TOLERANCE * diagonal[0]).sum())
        if rank < len(self.names):
            open_ones = ", ".join(self.names[k] for k in order[rank:])
            raise DataError(
                f"the motion determines only {rank} of {len(self.names)} parameters; it cannot tell {open_ones} from "
                "the others: excite more joints together, or at other postures"
            )
        return rank

    @property
    def condition_number(self) -> float:
        """kappa(W) = sigma_max / sigma_min, as in the paper's Appendix A."""
        return float(np.linalg.cond(np.linalg.qr(self.W, mode="r")))

    def solve(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """phi (p,) that minimises the weighted squares and the inverse of its normal matrix (p, p); weights (N n,)."""
        strengths = self.strengths
        Q, R = qr(self.W * (weights[:, None] / strengths), mode="economic", check_finite=False)
        phi = solve_triangular(R, Q.T @ (weights * self.tau)) / strengths
        inverse = solve_triangular(R, np.eye(len(phi))) / strengths[:, None]
        return phi, inverse @ inverse.T

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
        return Estimate(
            base=BaseParameters(self.names, phi, covariance),
            errors=torque_errors(tau, tau - self.residual(phi)),
            residual_sigma=read_only(self.axis_sigma(phi)),
            condition_number=self.condition_number,
            rank=len(self.names),
            method=method,
            settings=settings,
        )


@dataclass(frozen=True)
class OrdinaryLeastSquares:
    """phi = argmin || tau - W phi || (paper eq. 6)."""

    name: str = "ols"

    def estimate(self, model: ArmModel, samples: Samples) -> Estimate:
        """See `Estimator.estimate`."""
        regression = Regression.of(model, samples)
        phi, inverse = regression.solve(np.ones(len(regression.tau)))
        freedom = len(regression.tau) - len(phi)
        variance = float((regression.residual(phi) ** 2).sum()) / freedom
        return regression.estimate(self.name, phi, variance * inverse, {})


@dataclass(frozen=True)
class WeightedLeastSquares:
    """Every axis in units of its own residual deviation, so that strong joints do not drown the wrist."""

    name: str = "wls"

    def estimate(self, model: ArmModel, samples: Samples) -> Estimate:
        """See `Estimator.estimate`."""
        regression = Regression.of(model, samples)
        first, _ = regression.solve(np.ones(len(regression.tau)))
        sigma = regression.axis_sigma(first)
        phi, inverse = regression.solve(regression.weights(sigma))
        # the weights are in units of the deviation, so the inverse already is the covariance
        return regression.estimate(self.name, phi, inverse, {"axis_sigma_nm": sigma.tolist()})


@dataclass(frozen=True)
class HuberLeastSquares:
    """Weighted least squares in which outliers count linearly (iteratively reweighted)."""

    name: str = "huber"
    maximum_iterations: int = 50
    tolerance: float = 1e-8  # of a change of phi in units of its standard deviation

    def estimate(self, model: ArmModel, samples: Samples) -> Estimate:
        """See `Estimator.estimate`."""
        regression = Regression.of(model, samples)
        phi, inverse = regression.solve(np.ones(len(regression.tau)))
        for _ in range(self.maximum_iterations):
            residual = regression.residual(phi)
            sigma = MAD_TO_SIGMA * np.median(np.abs(residual), axis=0)
            base = regression.weights(sigma)
            standardised = np.abs(residual).ravel() * base
            with np.errstate(divide="ignore"):
                soft = np.minimum(1.0, HUBER_THRESHOLD / standardised)
            previous = phi
            phi, inverse = regression.solve(base * np.sqrt(soft))
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
