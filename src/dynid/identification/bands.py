"""Standard deviations of predicted torques, from the parameters' covariance and from residuals at similar speeds.

    var(tau) = x' C x + s^2(|dq|)

x is the gradient of the predicted torque with respect to all estimated parameters, including those of friction, and C
is their covariance. s is the root mean square residual of the fit, per axis and class of speed. Near standstill most of
s comes from stiction, which no model predicts from motion alone.

Most of the residual is short-lived noise. Another part persists while a joint slides in one direction. This part biases
averages of torques over time, such as those for weighing a payload. The variance of a predicted torque's persistent
error is the sum of x' C x and the residual's autocovariance at lags of some tenths of a second (`lasting_variance`).
The residual also contains friction that the friction law does not model. It changes with the joint's speed, and so more
slowly than noise. If a contact detector treats this friction as white noise, it reports forces that do not exist.
`passing_shares` returns the fraction of the residual's mean square that is due to this friction.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dynid.identification.break_away import beyond_budget
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.regression import Regression
from dynid.identification.estimators.solved_torques import predicted_torques
from dynid.identification.prediction import Motion
from dynid.identification.residual_memory import FEWEST, lasting_variance, passing_shares
from dynid.identification.settings import CoulombSettings
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import TorqueDeviations
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

CLASSES = (0.5, 1.0, 2.0, 4.0, 10.0)  # bounds between speed classes, in multiples of the speed below which joints stick
FIRST_SLIDING = 2  # first class whose joints do not stick between two samples


@dataclass(frozen=True, eq=False)
class TorqueBands:
    """Standard deviations of the torques that one identified model predicts.

    Attributes:
        model: the identified arm.
        estimate: the estimate before its projection to physically consistent parameters.
        samples: the samples that the estimate was fitted to.
        base: base parameters after the projection.
        friction: friction law in addition to the base parameters; None if there is none.
        coulomb: settings for friction that the base parameters do not contain, such as the speed below which joints may
            stick.
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
        """Measured minus predicted torques of the fitted samples, (N, n) [N m]."""
        return self.samples.tau - predicted_torques(self.model, self.samples, self.base, self.friction)

    @cached_property
    def _left(self) -> FloatArray:
        """Root mean square of the torque residual by speed class and axis, (classes, n) [N m].

        A speed class is a range of a joint's speed; the bounds follow from `CLASSES`. If a class has fewer than
        `FEWEST` samples of an axis, the value is that of all samples of this axis.
        """
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
        """Return the expected torque errors by speed class and axis [N m], as stored in model.yaml.

        The table has three root mean squares per class and axis: the whole error; the part that is constant while a
        joint slides in one direction; the part that changes with speed.
        """
        classes = self._class_of(self.samples)
        left = np.take_along_axis(self._left, classes, axis=0)
        own = self._own(self.model, self.samples)
        time, dq, how = self.samples.time, self.samples.dq, self.samples.settings
        kept = lasting_variance(time, self._residual, dq, classes >= FIRST_SLIDING, how.interval_s)
        slow = max(self.coulomb.slow_rad_s, 1e-3)
        return TorqueDeviations(
            speeds_rad_s=tuple(slow * bound for bound in CLASSES),
            deviations_nm=_by_class(own + left**2, classes),
            lasting_nm=_by_class(own + kept, classes),
            passing_nm=tuple(tuple(row) for row in self._passing().tolist()),
        )

    def _passing(self) -> FloatArray:
        """Return the standard deviation of the friction law's error, by speed class and axis, (classes, n) [N m].

        The result is `passing_nm` of model.yaml. Errors of the friction law change with the joint's speed, and so more
        slowly than noise. The result is therefore estimated from the part of the residual that lasts longer than noise.

        In the first (slowest) class joints may stick, so their residual is not the error of sliding friction. For this
        class, the result is the larger of two values: the value of the second class, and the torque by which friction
        exceeds the largest friction torque of the law (`beyond_budget`).
        """
        of, how, classes = self.samples, self.samples.settings, self._class_of(self.samples)
        shares = passing_shares(of.time, self._residual, of.dq, classes, how.interval_s, how.cutoff_hz, len(self._left))
        passing = np.sqrt(shares) * self._left
        beyond = beyond_budget(self.model, of, self.base, self.friction, classes == 0, self._left[-1])
        passing[0] = np.maximum(passing[1], beyond)
        return passing

    def with_deviations(self, motion: Motion, model: ArmModel, samples: Samples) -> Motion:
        """Return a copy of a predicted motion with the standard deviations of its torques.

        Args:
            motion: torques predicted for the samples.
            model: model of the arm at the mount of the samples.
            samples: samples of the motion.
        """
        return replace(motion, deviations=self.deviations(model, samples))

    def deviations(self, model: ArmModel, samples: Samples) -> FloatArray:
        """Return the standard deviations of the torques predicted for samples, (N, n) [N m].

        Args:
            model: model of the arm at the mount of the samples.
            samples: samples of any motion of the arm.
        """
        left = np.take_along_axis(self._left, self._class_of(samples), axis=0)
        return np.asarray(np.sqrt(self._own(model, samples) + left**2))

    def _own(self, model: ArmModel, samples: Samples) -> FloatArray:
        """Return the variances of predicted torques due to the parameters' covariance, (N, n) [N^2 m^2].

        Args:
            model: model of the arm at the mount of the samples.
            samples: samples of any motion of the arm.
        """
        rows = self.estimate.regression
        if samples is not self.samples or model is not self.model:
            known = None if rows.joint_friction is None else rows.joint_friction.fit.known
            rows = Regression.stack(model, samples, self.coulomb, known)
        x = rows.of_all_states if rows.joint_friction is None else rows.joint_friction.judged_columns()
        own = np.einsum("knp,pq,knq->kn", x, self._covariance, x, optimize=True)
        return np.asarray(np.maximum(own, 0.0))


def _by_class(squares: FloatArray, classes: NDArray[np.int64]) -> tuple[tuple[float, ...], ...]:
    """Return the root mean square of each axis in each speed class, (classes, n), from squared values (N, n).

    Args:
        squares: squared values, (N, n), any unit.
        classes: speed class of each sample and axis, from 0, (N, n).

    Returns:
        The values by class, then by axis. If a class has fewer than `FEWEST` samples of an axis, the value is that of
        all samples of this axis.
    """
    found = np.tile(squares.mean(axis=0), (len(CLASSES) + 1, 1))
    for k, axis in np.ndindex(found.shape):
        own = squares[classes[:, axis] == k, axis]
        found[k, axis] = own.mean() if len(own) >= FEWEST else found[k, axis]
    return tuple(tuple(row) for row in np.sqrt(found).tolist())
