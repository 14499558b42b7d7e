"""Least squares on the inverse-dynamics regressor (paper eqs. 4 to 7): ordinary, weighted, robust.

All three solve a row-weighted problem by QR; the normal equations of eq. 7 would square the condition number.

    ols     axes count the same (the paper's); where Coulomb friction is estimated, rows near standstill count less;
    wls     rows of an axis are divided by that axis's residual deviation (IDIM-WLS), from a preceding OLS;
    huber   like wls, and rows beyond 1.345 robust deviations count linearly instead of squared (IRLS).

Standard deviations take residuals as they are, of different size and correlated in time, and add what residuals hardly
show: play at the encoders, and friction that its law does not hold; see `uncertainty`.
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

HUBER_THRESHOLD = 1.345  # 95 % efficiency on normal residuals
MAD_TO_SIGMA = 1.4826  # median absolute deviation of a normal distribution
ROUND_OFF = 1e-12  # of the largest parameter: noise-free data have no deviation to compare with


@dataclass(frozen=True)
class OrdinaryLeastSquares:
    """phi = argmin || tau - W phi || (paper eq. 6)."""

    name: str = "ols"

    def estimate(
        self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None, known: KnownGears | None = None
    ) -> Estimate:
        """See `Estimator.estimate`, errors included."""
        regression = Regression.of(model, samples, coulomb, known)
        return estimate_from(regression, self.name, regression.solve())


@dataclass(frozen=True)
class WeightedLeastSquares:
    """Every axis in units of its own residual deviation, so that strong joints do not drown the wrist."""

    name: str = "wls"

    def estimate(
        self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None, known: KnownGears | None = None
    ) -> Estimate:
        """See `Estimator.estimate`, errors included."""
        regression = Regression.of(model, samples, coulomb, known)
        first = regression.solve()
        sigma = regression.axis_sigma(regression.residual(first.phi, first.friction))
        weights = regression.weights(sigma)
        return estimate_from(
            regression, self.name, regression.solve(weights), weights, settings={"axis_sigma_nm": sigma.tolist()}
        )


@dataclass(frozen=True)
class HuberLeastSquares:
    """Weighted least squares in which outliers count linearly (iteratively reweighted)."""

    name: str = "huber"
    maximum_iterations: int = 200
    scale_iterations: int = 10  # then the scale is held: a median that moves with phi need not settle
    tolerance: float = 1e-4  # of a change of phi in units of its standard deviation

    def estimate(
        self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None, known: KnownGears | None = None
    ) -> Estimate:
        """See `Estimator.estimate`, errors included."""
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
