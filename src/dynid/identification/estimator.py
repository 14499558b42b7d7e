"""What every estimator of base parameters takes and gives, and how a torque prediction is judged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dynid.errors import DataError, UnknownNameError
from dynid.identification.coulomb import CoulombFriction
from dynid.identification.preprocessing import Samples
from dynid.identification.settings import CoulombSettings
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.robot import FloatArray, read_only

if TYPE_CHECKING:
    from dynid.identification.regression import Regression


@dataclass(frozen=True, eq=False)
class TorqueErrors:
    """How well torques are predicted; arrays are per axis (n,), the scalars over all axes.

    Attributes:
        relative_per_axis: || tau - tau_hat || / || tau || of each axis; infinite where an axis has no torque.
        relative: the same over all axes and samples.
        rmse_per_axis: root-mean-square error [N m].
        rmse: the same over all axes and samples [N m].
        mne_per_axis: mean |tau - tau_hat| / (max tau - min tau) of each axis.
        mne: mean normalised error, the mean of it over the axes (the paper uses the name and does not define it).
        torque_rms_per_axis: root mean square of the measured torques [N m].
    """

    relative_per_axis: FloatArray
    relative: float
    rmse_per_axis: FloatArray
    rmse: float
    mne_per_axis: FloatArray
    mne: float
    torque_rms_per_axis: FloatArray


def torque_errors(tau: FloatArray, tau_hat: FloatArray) -> TorqueErrors:
    """Errors of predicted torques tau_hat against measured tau, both (N, n) [N m].

    Raises:
        DataError: other shapes, no samples, or values that are not finite.
    """
    if tau.shape != tau_hat.shape or tau.ndim != 2 or not len(tau):
        raise DataError(f"torques have shapes {tau.shape} and {tau_hat.shape}, expected two equal (N, n)")
    if not (np.isfinite(tau).all() and np.isfinite(tau_hat).all()):
        raise DataError("measured or predicted torques are not finite; the model or the data must be repaired first")
    error = tau - tau_hat
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.linalg.norm(error, axis=0) / np.linalg.norm(tau, axis=0)
        mne = np.abs(error).mean(axis=0) / np.ptp(tau, axis=0)
        total = float(np.linalg.norm(error) / np.linalg.norm(tau))
    # an axis without any torque is predicted perfectly or infinitely badly
    relative, mne = (np.where(np.isnan(v), 0.0, v) for v in (relative, mne))
    return TorqueErrors(
        read_only(relative),
        0.0 if np.isnan(total) else total,
        read_only(np.sqrt((error**2).mean(axis=0))),
        float(np.sqrt((error**2).mean())),
        read_only(mne),
        float(mne.mean()),
        read_only(np.sqrt((tau**2).mean(axis=0))),
    )


@dataclass(frozen=True, eq=False)
class Estimate:
    """Outcome of an estimation.

    Attributes:
        base: base parameters with covariance.
        errors: torque errors on the data used.
        residual_sigma: standard deviation of each axis's residual, (n,) [N m].
        condition_number: kappa of the stacked regressor, largest over smallest singular value, not scaled.
        weakest: the parameters that dominate the combination which the motion shows least; they limit kappa.
        rank: numerical rank of the stacked regressor with columns scaled to unit length.
        method: name of the estimator.
        settings: what it ran with.
        friction: Coulomb friction estimated beside the base parameters; None where it was ignored.
        metric: R (p, p) of the problem that was solved: || R (phi - base) || is the weighted torque error that phi adds
            to the fit; a projection is nearest in it. Of "essential" it is that of ordinary least squares.
        regression: that was solved.
        standard: consistent standard parameters, of which `base` is K pi; None where the estimator gives none.
    """

    base: BaseParameters
    errors: TorqueErrors
    residual_sigma: FloatArray
    condition_number: float
    rank: int
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    weakest: tuple[str, ...] = ()
    friction: CoulombFriction | None = None
    metric: FloatArray = field(kw_only=True)
    regression: "Regression" = field(kw_only=True)
    standard: StandardParameters | None = None


class Estimator(Protocol):
    """Estimates base parameters from samples. `ArmModel` says which parameters, `Samples` are filtered states."""

    @property
    def name(self) -> str:
        """The name under which it is registered and recorded."""
        ...

    def estimate(self, model: ArmModel, samples: Samples, coulomb: CoulombSettings | None = None) -> Estimate:
        """Base parameters of `model` from `samples`; `coulomb` says how Coulomb friction is treated, None ignores it.

        Raises:
            DataError: the samples do not determine the parameters; names those that they leave open.
        """
        ...


_REGISTRY: dict[str, Callable[[], Estimator]] = {}


def register(name: str, make: Callable[[], Estimator]) -> None:
    """Make an estimator available under a name.

    Raises:
        ValueError: the name is taken.
    """
    if name in _REGISTRY:
        raise ValueError(f"estimator '{name}' is registered already")
    _REGISTRY[name] = make


def registered() -> tuple[str, ...]:
    """Names of all estimators."""
    # estimators register themselves when their module is imported
    import dynid.identification.constrained
    import dynid.identification.essential
    import dynid.identification.least_squares  # noqa: F401

    return tuple(sorted(_REGISTRY))


def estimator(name: str) -> Estimator:
    """The estimator of this name.

    Raises:
        UnknownNameError: not registered.
    """
    if name not in registered():
        raise UnknownNameError("estimator", name, registered())
    return _REGISTRY[name]()
