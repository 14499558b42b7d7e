"""Least squares on the inverse-dynamics regressor (arXiv:2605.15949, eqs. 4 to 7): ordinary, weighted, robust.

All three estimators solve a row-weighted problem by QR; the normal equations of eq. 7 would square the condition
number.

    ols     equal weights of all axes, as in the paper; if Coulomb friction is estimated, low weights near standstill;
    wls     rows of an axis are divided by that axis's residual standard deviation (IDIM-WLS), from a preceding OLS;
    huber   like wls, and rows beyond 1.345 robust standard deviations count linearly instead of squared (IRLS).

Standard deviations account for residuals that differ in size and are correlated in time. They also include effects that
residuals hardly show: backlash at the encoders, and friction that the friction law lacks; see `uncertainty`.
"""

from dataclasses import dataclass

import numpy as np

from dynid.errors import DataError
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.estimate import Estimate, estimate_from
from dynid.identification.estimators.gear_fit import KnownGears
from dynid.identification.estimators.regression import Regression
from dynid.identification.settings import CoulombSettings
from dynid.model.dynamics import ArmModel

HUBER_THRESHOLD = 1.345  # threshold in standard deviations, with 95 % efficiency on normal residuals
MAD_TO_SIGMA = 1.4826  # standard deviation over median absolute deviation, for a normal distribution
ROUND_OFF = 1e-12  # converged change relative to the largest parameter, for noise-free data without deviations


@dataclass(frozen=True)
class OrdinaryLeastSquares:
    """Estimator by ordinary least squares: phi = argmin || tau - W phi || (arXiv:2605.15949, eq. 6)."""

    name: str = "ols"

    def estimate(
        self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None, known: KnownGears | None = None
    ) -> Estimate:
        """Return the ordinary least-squares estimate; arguments and exceptions are those of `Estimator.estimate`."""
        regression = Regression.of(model, samples, coulomb, known)
        return estimate_from(regression, self.name, regression.solve())


@dataclass(frozen=True)
class WeightedLeastSquares:
    """Estimator by weighted least squares: the rows of each axis are divided by the axis's residual standard deviation.

    With equal weights, joints with large torques would dominate the fit of the wrist joints.
    """

    name: str = "wls"

    def estimate(
        self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None, known: KnownGears | None = None
    ) -> Estimate:
        """Return the weighted least-squares estimate; arguments and exceptions are those of `Estimator.estimate`."""
        regression = Regression.of(model, samples, coulomb, known)
        first = regression.solve()
        sigma = regression.axis_sigma(regression.residual(first.phi, first.friction))
        weights = regression.weights(sigma)
        return estimate_from(
            regression, self.name, regression.solve(weights), weights, settings={"axis_sigma_nm": sigma.tolist()}
        )


@dataclass(frozen=True)
class HuberLeastSquares:
    """Estimator by weighted least squares that tolerates outliers: large residuals count linearly instead of squared.

    The solution is found by iteratively reweighted least squares.
    """

    name: str = "huber"
    maximum_iterations: int = 200
    scale_iterations: int = 10  # afterwards the scale is fixed: a median that changes with phi need not converge
    tolerance: float = 1e-4  # converged change of phi in standard deviations

    def estimate(
        self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None, known: KnownGears | None = None
    ) -> Estimate:
        """Return the estimate by the Huber estimator, which tolerates outliers; arguments as in `Estimator.estimate`.

        Raises:
            DataError: as for `Estimator.estimate`; or if the iteration did not converge.
        """
        regression = Regression.of(model, samples, coulomb, known)
        found = regression.solve()
        for iteration in range(self.maximum_iterations):
            residual = regression.residual(found.phi, found.friction)
            if iteration < self.scale_iterations:
                sigma = MAD_TO_SIGMA * np.median(np.abs(residual), axis=0)
                base = regression.weights(sigma)
            standardised = np.abs(residual).ravel() * base
            with np.errstate(divide="ignore"):
                soft = np.minimum(1.0, HUBER_THRESHOLD / standardised)
            weights = base * np.sqrt(soft)
            previous, found = found.phi, regression.solve(weights)
            change, deviation = np.abs(found.phi - previous), np.sqrt(np.diag(found.inverse)[-len(previous) :])
            if np.all((change < self.tolerance * deviation) | (change < ROUND_OFF * np.abs(found.phi).max())):
                break
        else:
            raise DataError(
                f"the robust regression did not converge in {self.maximum_iterations} iterations; the residuals have "
                "no clear scale: use the estimator ols or wls"
            )
        outliers = float((standardised > HUBER_THRESHOLD).mean())
        details = {"axis_sigma_nm": sigma.tolist(), "outlier_share": outliers}
        # the weighted normal matrix is about E[w] W'W, the derivative of the estimating equations E[psi'] W'W
        inside = max(float((standardised <= HUBER_THRESHOLD).mean()), np.finfo(float).eps)
        return estimate_from(regression, self.name, found, weights, float(soft.mean()) / inside, details)
