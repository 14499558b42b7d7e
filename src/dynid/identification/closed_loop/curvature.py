"""Estimation of second derivatives of a least-squares problem from accepted steps: a structured secant method.

The Hessian of half the cost is J'J + S with S = - sum_i r_i (second derivative of the simulated torque i). J is the
Jacobian of the simulated torques, and r_i are the residuals, measured minus simulated torques. Gauss-Newton ignores S
and converges only linearly along curved valleys. S is estimated from the changes of J over accepted steps [Dennis, Gay
and Welsch 1981] and scaled down as the residuals shrink. S is used only while it predicts the cost of steps better than
Gauss-Newton does.
"""

import numpy as np

from dynid.robot import FloatArray

LEAST_CURVATURE = 1e-12  # smallest step' change / (|step| |change|), for which the secant equation is used


class ResidualCurvature:
    """Secant estimate of the matrix S, the residual's contribution to the Hessian of half the cost.

    Attributes:
        matrix: S, (p, p) [SI], symmetric; zeros at first.
        trusted: whether S improved the prediction of the cost for the last accepted step, so that the next step uses S.
    """

    def __init__(self, size: int) -> None:
        self.matrix: FloatArray = np.zeros((size, size))
        self.trusted = False
        self._phi: FloatArray | None = None
        self._jacobian = np.zeros((0, size))
        self._gradient = np.zeros(size)
        self._stride = 0

    def update(self, phi: FloatArray, jacobian: FloatArray, residual: FloatArray, stride: int) -> None:
        """Update S, the residual's contribution to the Hessian of half the cost, from a new linearisation.

        S follows from the change of the Jacobian since the previous call. At the first call, S stays unchanged; also if
        the stride has changed, because a new stride changes the Jacobian more than the curvature does.

        Args:
            phi: parameters of the linearisation, (p,) [SI].
            jacobian: weighted Jacobian of the torques, (N, n, p) [SI].
            residual: weighted residuals, (N, n) [N m].
            stride: control cycles per step of the Jacobian's integration.
        """
        rows, errors = jacobian.reshape(-1, len(phi)), residual.ravel()
        gradient = -(rows.T @ errors)
        if self._phi is not None and stride == self._stride:
            self._update(phi - self._phi, self._jacobian.T @ errors + gradient, gradient - self._gradient)
        self._phi, self._jacobian, self._gradient, self._stride = np.array(phi), rows, gradient, stride

    def _update(self, step: FloatArray, wanted: FloatArray, change: FloatArray) -> None:
        """Update the symmetric matrix S (see the class docstring) by a secant formula, so that S step = wanted.

        S first shrinks if |step' S step| exceeds |step' wanted|. It then changes as little as possible, in a norm that
        depends on `change`. S stays unchanged if step' change is not clearly positive.

        Args:
            step: step of the parameters, (p,) [SI].
            wanted: required product of the new S and the step, (p,) [SI].
            change: gradient of half the cost after the step minus gradient before the step, (p,) [SI].
        """
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
        """Decide from an accepted step whether the next step uses S, the residual's contribution to the Hessian.

        The next step uses S only if S improves the prediction of the accepted step's cost.

        Args:
            step: accepted step of the parameters, (p,) [SI].
            promised: prediction of the cost after the step by Gauss-Newton, without S [N^2 m^2].
            found: simulated cost after the step [N^2 m^2].
        """
        added = float(step @ self.matrix @ step)
        self.trusted = added != 0.0 and abs(promised + added - found) < abs(promised - found)
