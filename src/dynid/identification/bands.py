"""How much predicted torques may be off: from the parameters' covariance, and from what the fit leaves at such speeds.

    var(tau) = x' C x + s^2(|dq|)

x are the prediction's derivatives by all that was estimated, friction's shape included, and C its covariance. s is the
root mean square of what the model leaves of the torques it was identified from, of each axis by classes of speed:
near standstill most of it is sticking, which no model predicts from motion alone.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.gear_rows import predicted_torques
from dynid.identification.estimators.regression import Regression
from dynid.identification.prediction import Motion
from dynid.identification.settings import CoulombSettings
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import TorqueDeviations
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

CLASSES = (0.5, 1.0, 2.0, 4.0, 10.0)  # bounds of speed, in units of that below which joints may stick
FEWEST = 30  # samples of a class; else all of the axis count


@dataclass(frozen=True, eq=False)
class TorqueBands:
    """Deviations of predicted torques of one identified model.

    Attributes:
        model: the arm that was identified.
        estimate: before the consistent projection.
        samples: that it is from.
        base, friction: the result.
        coulomb: how friction is treated.
    """

    model: ArmModel
    estimate: Estimate
    samples: Samples
    base: BaseParameters
    friction: FrictionLaw | None
    coulomb: CoulombSettings

    @cached_property
    def _covariance(self) -> FloatArray:
        regression = self.estimate.regression
        return regression.whole_spread(regression.solve())

    @cached_property
    def _left(self) -> FloatArray:
        """Root mean square of the residual by class and axis, (classes, n) [N m]."""
        residual = self.samples.tau - predicted_torques(self.model, self.samples, self.base, self.friction)
        classes = self._class_of(self.samples)
        found = np.tile(np.sqrt(np.mean(residual**2, axis=0)), (len(CLASSES) + 1, 1))
        for k in range(len(found)):
            for axis in range(residual.shape[1]):
                own = residual[classes[:, axis] == k, axis]
                if len(own) >= FEWEST:
                    found[k, axis] = np.sqrt(np.mean(own**2))
        return found

    def _class_of(self, samples: Samples) -> NDArray[np.int64]:
        return np.searchsorted(np.array(CLASSES) * max(self.coulomb.slow_rad_s, 1e-3), np.abs(samples.dq))

    def table(self) -> TorqueDeviations:
        """What model.yaml states: root mean squares of the deviations over the samples of each class of speed."""
        squares, classes = self.deviations(self.model, self.samples) ** 2, self._class_of(self.samples)
        found = np.tile(squares.mean(axis=0), (len(CLASSES) + 1, 1))
        for k, axis in np.ndindex(found.shape):
            own = squares[classes[:, axis] == k, axis]
            found[k, axis] = own.mean() if len(own) >= FEWEST else found[k, axis]
        slow = max(self.coulomb.slow_rad_s, 1e-3)
        return TorqueDeviations(
            speeds_rad_s=tuple(slow * bound for bound in CLASSES),
            deviations_nm=tuple(tuple(row) for row in np.sqrt(found).tolist()),
        )

    def beside(self, motion: Motion, model: ArmModel, samples: Samples) -> Motion:
        """A predicted motion of these samples with deviations."""
        return replace(motion, deviations=self.deviations(model, samples))

    def deviations(self, model: ArmModel, samples: Samples) -> FloatArray:
        """Standard deviations of torques that the model predicts for samples of an arm with its mount, (N, n) [N m]."""
        rows = self.estimate.regression
        if samples is not self.samples or model is not self.model:
            known = None if rows.beside is None else rows.beside.fit.known
            rows = Regression.stack(model, samples, self.coulomb, known)
        x = rows.W.reshape(len(samples), model.axes, -1) if rows.beside is None else rows.beside.judged_columns()
        own = np.einsum("knp,pq,knq->kn", x, self._covariance, x, optimize=True)
        left = np.take_along_axis(self._left, self._class_of(samples), axis=0)
        return np.asarray(np.sqrt(np.maximum(own, 0.0) + left**2))
