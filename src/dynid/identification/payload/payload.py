"""Estimation of changes between two runs of one arm: a payload at the last link, or a change of any parameter.

A payload adds its ten standard inertial parameters delta to those of the last link, and may change friction parameters
by f. Both runs are fitted together by least squares:

    tau_before = W phi
    tau_after  = W phi + W_last delta + W_friction f,

Each equation is divided by the standard deviation of its joint's noise. The covariance of delta includes the
uncertainty of both runs. If the second motion does not determine all parameters of delta, the result contains the
determined ones and the names of the others. A column that depends on others is left out of the fit. Its parameter's
effect is then attributed to those others, so none of them is determined either.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.errors import DataError
from dynid.identification.changes import Change, parameter_changes
from dynid.identification.closed_loop.row_weights import row_weights
from dynid.identification.data.preprocessing import Samples
from dynid.identification.estimators.essential import WeightedRows, joint_sigma
from dynid.identification.estimators.table import estimator
from dynid.identification.estimators.uncertainty import noise_covariance
from dynid.identification.settings import CoulombSettings
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.numerical_regrouping import independent_columns, is_zero_column
from dynid.model.regressor import LINK_PARAMETERS, columns_of_last_link
from dynid.model.springs import is_spring
from dynid.model.standard import pseudo_inertia
from dynid.robot import FloatArray, read_only
from dynid.threads import on_one_thread

LEAST_SHARE = 1e-5  # least part of a dependent unit column in another unit column; smaller ones are rounding


@dataclass(frozen=True, eq=False)
class Payload:
    """Change of the last link's parameters between two runs, in the link's modified DH frame; arrays are read-only.

    Attributes:
        names: standard parameters of the last link that the motion determines, such as ("XX6", ..., "M6").
        values: changes of these parameters, (k,), SI units.
        covariance: covariance of the changes, (k, k).
        unseen: names of the parameters that the motion does not determine.
        centre_of_mass: centre of mass of the added body in the last URDF link frame, (3,) [m]; None if its mass or
            first moments are undetermined, or its mass is not positive.
        physical: whether the ten changes are the parameters of a possible body, which requires a positive-definite
            pseudo-inertia; None if some changes are undetermined.
    """

    names: tuple[str, ...]
    values: FloatArray
    covariance: FloatArray
    unseen: tuple[str, ...]
    centre_of_mass: FloatArray | None
    physical: bool | None

    @property
    def deviations(self) -> FloatArray:
        """Standard deviations of the parameter changes, (k,), SI units."""
        return read_only(np.sqrt(np.diag(self.covariance)))

    def value(self, kind: str) -> tuple[float, float] | None:
        """Return the change of one parameter and its standard deviation; None if the motion does not determine it.

        Args:
            kind: kind of the inertial parameter, such as "XX" (moment of inertia) or "M" (mass).
        """
        for name, value, deviation in zip(self.names, self.values, self.deviations, strict=True):
            if kind_and_number(name)[0] == kind:
                return float(value), float(deviation)
        return None


@on_one_thread
def changes_between(model: ArmModel, before: Samples, after: Samples) -> tuple[Change, ...]:
    """Identify two runs separately by weighted least squares, and return the changes of all base parameters.

    Each change contains the parameter's values from both runs, and the standard deviation of their difference.
    """
    found = [estimator("wls").estimate(model, samples).base for samples in (before, after)]
    return parameter_changes(found[0], found[1], model.unit)


def load_columns(model: ArmModel, samples: Samples) -> tuple[FloatArray, FloatArray]:
    """Return regressor columns for a load at the last link, and for a change of friction by this load.

    A column contains the torques of all joints per unit of a parameter [N m per SI unit]. The first array (N, n, 10)
    belongs to the load's ten standard parameters. The second array (N, n, k) belongs to the friction parameters of all
    joints.
    """
    c = model.chain_size
    kinds = [(name, kind_and_number(name)[0]) for name in model.drive.modelled_names]
    names = [name for name, kind in kinds if kind != "IA" and not is_spring(kind)]

    def last(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        columns = np.zeros((len(q), model.axes, 10))
        columns[:, :c] = columns_of_last_link(model.mdh, q[:, :c], dq[:, :c], ddq[:, :c], model.gravity)
        return columns

    return samples.low_passed(last), samples.low_passed(
        lambda q, dq, _: model.drive.columns(names, q, dq, np.zeros_like(dq))
    )


def _stacked(model: ArmModel, before: Samples, after: Samples) -> tuple[FloatArray, FloatArray]:
    """Return the weighted regression of two runs in sequence: columns (N, n, k) and torques (N, n).

    The columns belong to the arm's base parameters, to the payload's ten parameters and to changes of friction. The
    columns of payload and friction changes are zero in the run without the payload. Each joint's equations are divided
    by the standard deviation of its residuals, and have a low weight if the joint sticks.

    Args:
        model: model of the arm.
        before: samples of the run without the payload.
        after: samples of the run with the payload.
    """
    extra = np.concatenate(load_columns(model, after), axis=-1)
    parts, torques = [], []
    for samples, added in ((before, np.zeros((len(before), *extra.shape[1:]))), (after, extra)):
        W = samples.low_passed(model.regressor)
        sigma = joint_sigma(W, samples.tau)
        weights = row_weights(samples.dq, CoulombSettings()) / sigma  # low weights for sticking joints
        parts.append(np.concatenate([W, added], axis=-1) * weights[..., None])
        torques.append(samples.tau * weights)
    return np.concatenate(parts), np.concatenate(torques)


@on_one_thread
def find_payload(model: ArmModel, before: Samples, after: Samples) -> Payload:
    """Return the change of the last link's standard parameters between two runs, such as the parameters of a payload.

    Args:
        model: model of the arm, mounted as in both runs.
        before: samples of the run without the payload.
        after: samples of the run with the payload.

    Raises:
        DataError: the runs do not determine the arm's parameters, or the second run does not excite a payload.
    """
    columns, tau = _stacked(model, before, after)
    base = len(model.names)
    kept = independent_columns(columns.reshape(-1, columns.shape[-1]), range(columns.shape[-1]))
    if kept[:base] != list(range(base)):
        missing = ", ".join(model.names[k] for k in range(base) if k not in kept)
        raise DataError(f"the two runs do not determine {missing} of the arm; excite more joints together")
    rows = WeightedRows.of(columns, tau, np.ones(tau.shape[1]))
    values, _ = rows.solve(np.array(kept))
    covariance = _covariance(columns[..., kept], tau, values, before.settings.interval_s)
    mixed = _mixed(columns.reshape(-1, columns.shape[-1]), kept)
    seen = [k for k, place in enumerate(kept) if base <= place < base + 10 and k not in mixed]
    if not seen:
        raise DataError("the second run does not excite a payload at the last link; move more joints, against gravity")
    number = model.chain_size
    kinds = [LINK_PARAMETERS[kept[k] - base] for k in seen]
    unseen = tuple(f"{kind}{number}" for kind in LINK_PARAMETERS if kind not in kinds)
    return _outcome(model, kinds, values[seen], covariance[np.ix_(seen, seen)], unseen)


def _mixed(columns: FloatArray, kept: Sequence[int]) -> set[int]:
    """Return positions in `kept` of those parameters of which only combinations with others are determined.

    These are the parameters whose columns reproduce the columns that are not kept.

    Args:
        columns: all weighted columns, (m, k).
        kept: indices of the independent columns, which the fit contains.
    """
    silent = is_zero_column(columns)
    dropped = [k for k in range(columns.shape[1]) if k not in kept and not silent[k]]
    if not dropped:
        return set()
    unit = columns[:, [*kept, *dropped]] / np.linalg.norm(columns[:, [*kept, *dropped]], axis=0)
    shares = np.linalg.lstsq(unit[:, : len(kept)], unit[:, len(kept) :], rcond=None)[0]
    return set(np.flatnonzero((np.abs(shares) > LEAST_SHARE).any(axis=1)).tolist())


def _covariance(columns: FloatArray, tau: FloatArray, values: FloatArray, interval_s: float) -> FloatArray:
    """Return the covariance (k, k) of least-squares estimates, corrected for correlated residuals and leverage.

    Args:
        columns: weighted columns, (N, n, k).
        tau: weighted torques, (N, n).
        values: least-squares estimates, (k,).
        interval_s: time between samples [s].
    """
    lengths = np.linalg.norm(columns, axis=(0, 1))
    X = columns / lengths
    root = np.linalg.inv(np.linalg.qr(X.reshape(-1, len(values)), mode="r"))  # accurate for nearly dependent columns
    noise = noise_covariance(X, tau - columns @ values, root @ root.T, interval_s)
    return np.asarray(noise / np.outer(lengths, lengths))


def _outcome(
    model: ArmModel, kinds: Sequence[str], values: FloatArray, covariance: FloatArray, unseen: tuple[str, ...]
) -> Payload:
    number, by_kind = model.chain_size, dict(zip(kinds, values.tolist(), strict=True))
    centre, physical = None, None
    if {"M", "MX", "MY", "MZ"} <= by_kind.keys() and by_kind["M"] > 0.0:
        local = np.array([by_kind[kind] for kind in ("MX", "MY", "MZ")]) / by_kind["M"]
        placement = model.mdh.in_link[-1]
        centre = read_only(placement[:3, :3] @ local + placement[:3, 3])
    if not unseen:
        link = np.array([by_kind[kind] for kind in LINK_PARAMETERS])
        physical = bool(np.linalg.eigvalsh(pseudo_inertia(link))[0] > 0.0)
    names = tuple(f"{kind}{number}" for kind in kinds)
    return Payload(names, read_only(values), read_only(covariance), unseen, centre, physical)
