"""Uncertainty due to a low sampling rate, estimated by leaving out every second time step.

Splines through a recording cannot reproduce the motor torque between two recorded time steps. Residuals do not reveal
this error, because regressor and torques come from the same time steps. Therefore every second time step is left out,
and the change of the estimate is a measure of the error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.errors import DataError
from dynid.identification.data.recordings import Recording
from dynid.identification.data.sample_sets import join
from dynid.identification.data.samples import Samples
from dynid.identification.data.signals import Signals
from dynid.identification.estimators.estimate import Estimate
from dynid.identification.estimators.table import estimator
from dynid.identification.settings import IdentificationSettings
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, read_only

RATE_SHARE = 0.25  # standard deviation due to the row rate, over the change if every second row is left out


@dataclass(frozen=True, eq=False)
class HalvedRows:
    """Samples made from only half of the recorded time steps; every second one is left out.

    Attributes:
        samples: the samples; None if half of the time steps are too few.
        refusal: reason why there are no samples; "" if there are some.
    """

    samples: Samples | None
    refusal: str = ""

    @classmethod
    def of(cls, sources: Sequence[Recording], settings: IdentificationSettings, held_out_share: float) -> "HalvedRows":
        """Return samples of the recordings' fitted parts, made from only half of the recorded time steps.

        Args:
            sources: the recordings.
            settings: settings of the identification.
            held_out_share: share of each recording's time, at its end, that is not fitted.
        """
        try:
            portions = [one for source in sources for one in _halved(source).split(settings, held_out_share)[0]]
        except DataError as error:
            return cls(None, str(error))
        return cls(join([one.samples for one in portions]))

    def change(
        self, model: ArmModel, estimate: Estimate, settings: IdentificationSettings
    ) -> tuple[FloatArray, tuple[str, ...]]:
        """Return the assumed error (p,) [SI] of each base parameter due to the low sampling rate, and notes.

        The error is `RATE_SHARE` times the change of the parameter if half of the time steps are left out. The caller
        adds the square of the error to the variance of the parameter. If half of the time steps are too few for an
        estimate, the error is 0 and a note says this.

        Args:
            model: the arm.
            estimate: estimate from all time steps of the same recordings.
            settings: settings of the identification.
        """
        joint_friction, refusal = estimate.regression.joint_friction, self.refusal
        known = None if joint_friction is None else joint_friction.fit.known
        if self.samples is not None:
            try:
                half = estimator(settings.estimator).estimate(model, self.samples, settings.coulomb_friction, known)
            except DataError as error:
                refusal = str(error)
            else:
                return RATE_SHARE * (half.base.values - estimate.base.values), ()
        told = f"Deviations do not count what the rate of the rows hides: half of them say too little ({refusal})."
        return np.zeros(len(model.names)), (told,)


def with_deviations(estimate: Estimate, more: FloatArray) -> Estimate:
    """Return an estimate to whose covariance the variances of an additional error are added.

    Args:
        estimate: the estimate, with a covariance.
        more: standard deviations of an additional, independent error of each base parameter, (p,) [SI].
    """
    base, belief = estimate.base, estimate.belief
    assert base.covariance is not None, "estimates have one"
    wider = BaseParameters(base.names, base.values, base.covariance + np.diag(more**2))
    if belief is not None:
        covariance = np.array(belief.covariance)
        covariance[-len(more) :, -len(more) :] += np.diag(more**2)
        belief = replace(belief, covariance=read_only(covariance))
    return replace(estimate, base=wider, belief=belief)


def _halved(source: Recording) -> Recording:
    """Return a recording that contains only every second time step of the given recording."""

    def signals(settings: IdentificationSettings) -> Signals:
        own, chosen = source.signals(settings), slice(None, None, 2)
        return replace(
            own,
            time=own.time[chosen],
            q=own.q[chosen],
            torque_time=own.torque_time[chosen],
            tau=own.tau[chosen],
            dq=None if own.dq is None else own.dq[chosen],
            other=None,
            goal=None,
        )

    return replace(source, signals=signals)
