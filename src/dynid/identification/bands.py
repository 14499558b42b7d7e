"""How much predicted torques may be off: from the parameters' covariance, and from what the fit leaves at such speeds.

    var(tau) = x' C x + s^2(|dq|)

x are the prediction's derivatives by all that was estimated, friction's shape included, and C its covariance. s is the
root mean square of what the model leaves of the torques it was identified from, of each axis by classes of speed:
near standstill most of it is sticking, which no model predicts from motion alone.

Most of s is gone a moment later. What lasts while a joint slides one way biases whoever averages, such as a scale: the
parameters' part, and the residual's covariance with itself some tenths of a second later (`lasting_variance`). Friction
that the law does not have passes with the speed, slower than noise: whoever takes it for noise that is new in every
cycle finds forces that are none (`passing_shares`).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dynid.identification.break_away import beyond_budget
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.gear_rows import predicted_torques
from dynid.identification.estimators.regression import Regression
from dynid.identification.prediction import Motion
from dynid.identification.residual_memory import FEWEST, lasting_variance, passing_shares
from dynid.identification.settings import CoulombSettings
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import TorqueDeviations
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

CLASSES = (0.5, 1.0, 2.0, 4.0, 10.0)  # bounds of speed, in units of that below which joints may stick
SLIDES = 2  # the first class whose joints do not stick between two samples


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
        return self.estimate.regression.weighted_spread

    @cached_property
    def _residual(self) -> FloatArray:
        """(N, n) [N m]."""
        return self.samples.tau - predicted_torques(self.model, self.samples, self.base, self.friction)

    @cached_property
    def _left(self) -> FloatArray:
        """Root mean square of the residual by class and axis, (classes, n) [N m]."""
        residual, classes = self._residual, self._class_of(self.samples)
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
        classes = self._class_of(self.samples)
        left = np.take_along_axis(self._left, classes, axis=0)
        own = self._own(self.model, self.samples)
        time, dq, how = self.samples.time, self.samples.dq, self.samples.settings
        kept = lasting_variance(time, self._residual, dq, classes >= SLIDES, how.interval_s)
        slow = max(self.coulomb.slow_rad_s, 1e-3)
        return TorqueDeviations(
            speeds_rad_s=tuple(slow * bound for bound in CLASSES),
            deviations_nm=_by_class(own + left**2, classes),
            lasting_nm=_by_class(own + kept, classes),
            passing_nm=tuple(tuple(row) for row in self._passing().tolist()),
        )

    def _passing(self) -> FloatArray:
        """`passing_nm` of model.yaml, (classes, n) [N m].

        Joints of the first class may stick, so their residual is not friction's alone: the next class speaks for it,
        and what friction exceeds its budget by.
        """
        of, how, classes = self.samples, self.samples.settings, self._class_of(self.samples)
        shares = passing_shares(of.time, self._residual, of.dq, classes, how.interval_s, how.cutoff_hz, len(self._left))
        passing = np.sqrt(shares) * self._left
        beyond = beyond_budget(self.model, of, self.base, self.friction, classes == 0, self._left[-1])
        passing[0] = np.maximum(passing[1], beyond)
        return passing

    def beside(self, motion: Motion, model: ArmModel, samples: Samples) -> Motion:
        """A predicted motion of these samples with deviations."""
        return replace(motion, deviations=self.deviations(model, samples))

    def deviations(self, model: ArmModel, samples: Samples) -> FloatArray:
        """Standard deviations of torques that the model predicts for samples of an arm with its mount, (N, n) [N m]."""
        left = np.take_along_axis(self._left, self._class_of(samples), axis=0)
        return np.asarray(np.sqrt(self._own(model, samples) + left**2))

    def _own(self, model: ArmModel, samples: Samples) -> FloatArray:
        """Variances (N, n) [N^2 m^2] of predicted torques by the parameters' covariance."""
        rows = self.estimate.regression
        if samples is not self.samples or model is not self.model:
            known = None if rows.beside is None else rows.beside.fit.known
            rows = Regression.stack(model, samples, self.coulomb, known)
        x = rows.of_all_states if rows.beside is None else rows.beside.judged_columns()
        own = np.einsum("knp,pq,knq->kn", x, self._covariance, x, optimize=True)
        return np.asarray(np.maximum(own, 0.0))


def _by_class(squares: FloatArray, classes: NDArray[np.int64]) -> tuple[tuple[float, ...], ...]:
    """Root mean squares by class and axis of squares (N, n); of all samples where a class has too few."""
    found = np.tile(squares.mean(axis=0), (len(CLASSES) + 1, 1))
    for k, axis in np.ndindex(found.shape):
        own = squares[classes[:, axis] == k, axis]
        found[k, axis] = own.mean() if len(own) >= FEWEST else found[k, axis]
    return tuple(tuple(row) for row in np.sqrt(found).tolist())
