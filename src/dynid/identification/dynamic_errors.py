"""How wrong the dynamic part of a prediction is, joint by joint: torque less gravity and friction.

The whole torque of a joint is mostly gravity and friction, so a wrong inertia hides in a relative error. Here what a
prediction leaves of a joint's torque is freed of all that gravity and friction can imitate, and then compared with the
columns of one group of parameters after the other: the rotor, the inertia or the first moments of each link.

    error = || Q' e || / || d + Q Q' e ||,    Q spanning the group's columns, e what is left, d the dynamic part

relates the torque that the group explains to the dynamic torque that the data show. Noise explains some, too: its
expectation, and the value that it exceeds once in a thousand cases, follow from the spectrum of what all groups
together leave (its covariances over `MEMORY_S`), or from its sums over windows where that is more, because errors are
larger at some times than at others. So the expectation of a right model is known, whatever the motion and the noise.

One event must not refuse a model: the error is the least one that is found without one of `BLOCKS` of time.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import orth
from scipy.special import gammainccinv

from dynid.identification.data.preprocessing import Samples
from dynid.identification.dynamic_rows import DynamicRows, dynamic_rows, of_links
from dynid.identification.estimators.uncertainty import score_covariance, window_width
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameter_groups import ParameterGroup, parameter_groups
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

VISIBLE = 0.1  # noise of a joint's dynamic error: where it is more, the error is hardly seen
CHANCE = 1e-3  # of errors of right models that exceed the noise
BLOCKS = 12  # of time, of which one may be an event
SLIDING_SHARE = 0.5  # of a row that counts
FEWEST = 10  # rows beyond the number of columns; fewer say nothing
LARGE_SHARE = 0.8  # of a group's columns that one block may hold, to be left out
SAME = 1e-6  # singular value of nuisance columns over the largest: smaller ones are rounding
SHOWN = 1e-3  # of a column's length that gravity and friction must leave
SEPARATE = 1e-2  # singular value of a group's columns over the largest: less is no direction of its own


@dataclass(frozen=True)
class DynamicError:
    """The dynamic part of one joint's prediction.

    Attributes:
        joint: its place, from 0.
        group: whose error is surest, in words.
        error: of that group, over the dynamic torque.
        expected: what noise alone makes of it, root mean square.
        noise: what noise alone exceeds once in a thousand cases.
        shown: the largest noise of all groups: smaller errors are not seen.
    """

    joint: int
    group: str
    error: float
    expected: float
    noise: float
    shown: float

    @property
    def sure(self) -> float:
        """The part of the error that is no noise."""
        return max(self.error - self.noise, 0.0)

    @property
    def judged(self) -> float:
        """The sure error, less where noise alone exceeds `VISIBLE`: the limit then grows with the noise."""
        return self.sure * min(1.0, VISIBLE / max(self.noise, np.finfo(float).tiny))

    def sentence(self, name: str) -> str:
        """The error in words."""
        times = self.error / max(self.expected, np.finfo(float).tiny)
        return (
            f"{name}: {self.group} looks off by {100 * self.error:.3g} % of the dynamic torque, {times:.2g} times what "
            f"noise makes ({100 * self.noise:.2g} % once in a thousand)"
        )


def dynamic_errors(
    model: ArmModel, samples: Samples, phi: BaseParameters, friction: FrictionLaw | None, slow_rad_s: float
) -> tuple[DynamicError, ...]:
    """Judge the dynamic part of a model's prediction for samples, one error for each joint that shows it.

    Args:
        model: the arm, at the mount of the samples.
        samples: that the model was not fitted to.
        phi: base parameters.
        friction: beside them.
        slow_rad_s: joints that are slower may stick.
    """
    rows = dynamic_rows(model, samples, phi, friction, slow_rad_s)
    own = [name for name, kept in zip(model.names, of_links(model), strict=True) if kept]
    groups, interval = parameter_groups(own), samples.settings.interval_s
    found = [_of_joint(rows, joint, groups, interval) for joint in range(model.axes)]
    return tuple(one for one in found if one is not None)


def _of_joint(
    rows: DynamicRows, joint: int, groups: tuple[ParameterGroup, ...], interval_s: float
) -> DynamicError | None:
    """The error of one joint; None if the motion hardly moves it or nothing of it is dynamic."""
    counts = (rows.share[:, joint] >= SLIDING_SHARE).astype(float)[:, None]
    beside = _basis(np.hstack([rows.friction[:, joint], rows.gravity[:, joint]]) * counts, SAME)
    whole = rows.dynamic[:, joint] * counts
    columns = _without(beside, whole)
    sizes = np.linalg.norm(whole, axis=0)
    kept = (sizes > 0.0) & (np.linalg.norm(columns, axis=0) > SHOWN * sizes)
    together = _basis(columns[:, kept], SHOWN)
    used, freedom = int(counts.sum()), int(counts.sum()) - beside.shape[1] - together.shape[1]
    if freedom < FEWEST or not kept.any():
        return None
    left = _without(beside, rows.residual[:, joint] * counts[:, 0])
    torque = _without(beside, rows.torque[:, joint] * counts[:, 0])
    residual = _without(together, left) * np.sqrt(used / freedom)
    found = []
    for group in groups:
        if places := [k for k in group.places if kept[k]]:
            Q = _basis(columns[:, places], SEPARATE)
            size = float(np.linalg.norm(torque + Q @ (Q.T @ left)))
            if size > 0.0:
                expected, noise = _noise(Q, residual, used, interval_s)
                found.append((group.words, _without_event(Q, left) / size, expected / size, noise / size))
    if not found:
        return None
    shown = max(noise for *_, noise in found)
    return DynamicError(joint, *max(found, key=lambda one: one[1] - one[3]), shown)


def _noise(Q: FloatArray, residual: FloatArray, used: int, interval_s: float) -> tuple[float, float]:
    """Root mean square of || Q' e || of noise like the residual (N,), and what it exceeds with `CHANCE` [N m]."""
    width = window_width(len(residual), interval_s)
    spectrum = np.zeros((Q.shape[1], Q.shape[1]))
    for lag in range(min(width, len(residual) - 1) + 1):
        share = (1.0 - lag / (width + 1)) * float(residual[lag:] @ residual[: len(residual) - lag]) / used
        product = share * Q[lag:].T @ Q[: len(Q) - lag]
        spectrum += product if lag == 0 else product + product.T
    windows = score_covariance(Q * residual[:, None], interval_s)
    both = [_quantile(one) for one in (spectrum, windows)]
    return max(one[0] for one in both), max(one[1] for one in both)


def _quantile(covariance: FloatArray) -> tuple[float, float]:
    """Root mean square of the length of a normal vector, and what it exceeds with `CHANCE` (Satterthwaite)."""
    mean, variance = float(np.trace(covariance)), 2.0 * float(np.sum(covariance**2))
    if mean <= 0.0 or variance <= 0.0:
        return 0.0, 0.0
    half = mean**2 / variance  # of the degrees of freedom
    return float(np.sqrt(mean)), float(np.sqrt(mean / half * gammainccinv(half, CHANCE)))


def _without_event(Q: FloatArray, left: FloatArray) -> float:
    """The least || x || of Q x ~ left (N,) that is found without one of `BLOCKS` of time [N m]."""
    x = Q.T @ left
    sizes = [float(np.linalg.norm(x))]
    for block in np.array_split(np.arange(len(Q)), BLOCKS):
        share = Q[block].T @ Q[block]
        if np.linalg.eigvalsh(share)[-1] < LARGE_SHARE:
            others = np.linalg.solve(np.eye(len(share)) - share, x - Q[block].T @ left[block])
            sizes.append(float(np.linalg.norm(others)))
    return min(sizes)


def _without(basis: FloatArray, values: FloatArray) -> FloatArray:
    """Values (N, ...) less their projection on an orthonormal basis (N, k)."""
    return np.asarray(values - basis @ (basis.T @ values))


def _basis(columns: FloatArray, least: float) -> FloatArray:
    """An orthonormal basis (N, k) of columns scaled to unit length, without singular values below `least`."""
    sizes = np.linalg.norm(columns, axis=0)
    columns = columns[:, sizes > 0.0] / sizes[sizes > 0.0]
    return np.asarray(orth(columns, rcond=least)) if columns.shape[1] else columns
