"""Second-order information of a least-squares problem from the steps taken: a structured secant.

The Hessian of half the cost is J'J + S with S = - sum_i r_i (second derivative of the simulated torque i). Gauss-Newton
leaves S out and creeps along curved valleys at a linear rate. S is estimated from how J changes over accepted steps
[Dennis, Gay and Welsch 1981], sized so that it shrinks where residuals do, and counts only while it foretells the
costs of steps better than Gauss-Newton does.
"""

import numpy as np

from dynid.robot import FloatArray

LEAST_CURVATURE = 1e-12  # of |step| |change of gradient|: below it the secant equation says nothing


class ResidualCurvature:
    """The secant estimate of S, in the parameters' own units.

    Attributes:
        matrix: S, (p, p), symmetric; zeros at first.
        trusted: whether the last step was foretold better with S than without.
    """

    def __init__(self, size: int) -> None:
        self.matrix: FloatArray = np.zeros((size, size))
        self.trusted = False
        self._phi: FloatArray | None = None
        self._jacobian = np.zeros((0, size))
        self._gradient = np.zeros(size)
        self._stride = 0

    def look(self, phi: FloatArray, jacobian: FloatArray, residual: FloatArray, stride: int) -> None:
        """Learn from a new linearisation at phi (p,): weighted jacobian (S, n, p), residual (S, n), Jacobian's stride.

        Jacobians of different strides differ by more than the curvature, so nothing is learned between them.
        """
        rows, errors = jacobian.reshape(-1, len(phi)), residual.ravel()
        gradient = -(rows.T @ errors)
        if self._phi is not None and stride == self._stride:
            self._update(phi - self._phi, self._jacobian.T @ errors + gradient, gradient - self._gradient)
        self._phi, self._jacobian, self._gradient, self._stride = np.array(phi), rows, gradient, stride

    def _update(self, step: FloatArray, wanted: FloatArray, change: FloatArray) -> None:
        """Make S step = wanted, with the least change in the metric of the secant; `change` is of the gradient."""
        along = float(change @ step)
        if along <= LEAST_CURVATURE * float(np.linalg.norm(step) * np.linalg.norm(change)):
            return
        before = self.matrix @ step
        own = abs(float(step @ before))
        sized = min(1.0, abs(float(step @ wanted)) / own) if own > 0.0 else 1.0
        off = wanted - sized * before
        outer = np.outer(off, change)
        correction = (outer + outer.T) / along - (off @ step) / along**2 * np.outer(change, change)
        self.matrix = sized * self.matrix + correction

    def compare(self, step: FloatArray, promised: float, found: float) -> None:
        """Judge S by an accepted step: the cost that Gauss-Newton promised there, and the one found."""
        added = float(step @ self.matrix @ step)
        self.trusted = added != 0.0 and abs(promised + added - found) < abs(promised - found)
