"""Errors of the dynamic part of a prediction, by joint: the torque without gravity and friction.

Most of a joint's torque is gravity and friction, so a relative error of the whole torque hides a wrong inertia. Here
the part of the residual that gravity or friction can explain is removed. The rest is compared with the regressor
columns of one parameter group after the other: the rotor, the inertia or the first moments of each link.

    error = || Q' e || / || d + Q Q' e ||

Q is an orthonormal basis of the group's columns. e and d are the residual and the dynamic torque of the prediction,
both without the part that gravity or friction can explain. The error is the ratio of the torque that the group explains
to the dynamic torque in the data. Noise alone causes an error, too. The expected error due to noise, and the value that
noise exceeds once in a thousand cases, follow from the residual that remains after all groups are fitted, corrected for
the noise that this fit absorbs (`stationary_noise`). Residuals are larger at some times than at others, so their
covariance is also estimated from windows of time, and the larger result is used. The expected error of a correct model
is therefore known for any motion and noise.

On a short motion, gravity and friction may reproduce nearly all of the dynamic torque. Even small errors of friction
and backlash then exceed d. So the denominator is at least the fraction `LEAST_LEFT` of its value for the whole dynamic
torque, including the part that gravity or friction can explain.

A single event, such as a bump, must not cause the refusal of a model. The data are divided into `BLOCKS` blocks of
time, and the error is also computed after omission of each single block. The smallest of these errors is used.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import orth
from scipy.special import fdtri

from dynid.identification.data.preprocessing import Samples
from dynid.identification.dynamic_rows import DynamicRows, dynamic_rows, of_links
from dynid.identification.estimators.uncertainty import score_covariance
from dynid.identification.stationary_noise import StationaryNoise
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameter_groups import ParameterGroup, parameter_groups
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray

VISIBLE = 0.1  # largest relative dynamic error due to noise at which a joint's error is clearly visible
CHANCE = 1e-3  # share of the errors of right models that exceed the noise
BLOCKS = 12  # number of time blocks, one of which may contain an event
SLIDING_SHARE = 0.5  # least share of sliding states in a row that is used
FEWEST = 10  # least number of rows in excess of the number of columns
LARGE_SHARE = 0.8  # largest share of a group's squared columns in a block that may be left out
SAME = 1e-6  # relative singular value of gravity and friction columns, below which a direction is rounding
ROUNDING = 1e-9  # length of a column relative to the longest one, below which it is rounding
SHOWN = 1e-3  # least share of a column's length that gravity and friction cannot reproduce
LEAST_LEFT = 0.2  # least denominator of an error, as a share of the joint's dynamic torque (norm)
SEPARATE = 1e-2  # relative singular value of a group's columns, below which a direction is ignored


@dataclass(frozen=True)
class DynamicError:
    """Error of the dynamic part of one joint's predicted torque; all values are relative to the joint's dynamic torque.

    The dynamic part is the torque without gravity and friction. A parameter group is the rotor, the inertia or the
    first moments of one link. The error of a group is the torque residual that a change of its parameters would
    explain.

    Attributes:
        joint: index of the joint, from 0.
        group: description of the parameter group with the largest error in excess of noise.
        error: error of that group.
        expected: root mean square of this error if there is noise alone.
        noise: error that noise alone exceeds once in a thousand cases.
        shown: error above which this recording reveals an error of any group of the joint. A smaller error may stay
            hidden in noise, or because gravity and friction can reproduce most of the dynamic torque.
    """

    joint: int
    group: str
    error: float
    expected: float
    noise: float
    shown: float

    @property
    def sure(self) -> float:
        """Error minus `noise`, the error that noise alone may cause; at least 0, relative to the dynamic torque."""
        return max(self.error - self.noise, 0.0)

    @property
    def judged(self) -> float:
        """Value that a check compares with its limit: the error minus `noise`, at least 0, reduced if noise is large.

        If `noise` exceeds `VISIBLE`, the value is multiplied by `VISIBLE` / `noise`. This has the same effect as a
        limit that grows in proportion to the noise.
        """
        return self.sure * min(1.0, VISIBLE / max(self.noise, np.finfo(float).tiny))

    def sentence(self, name: str) -> str:
        """Return a sentence about the error of this joint; `name` is the joint's name."""
        times = self.error / max(self.expected, np.finfo(float).tiny)
        return (
            f"{name}: {self.group} looks off by {100 * self.error:.3g} % of the dynamic torque, {times:.2g} times what "
            f"noise makes ({100 * self.noise:.2g} % once in a thousand)"
        )


def dynamic_errors(
    model: ArmModel, samples: Samples, phi: BaseParameters, friction: FrictionLaw | None, slow_rad_s: float
) -> tuple[DynamicError, ...]:
    """Return the error of the dynamic part of the predicted torque, for each joint whose motion shows it.

    The dynamic part is the torque without gravity and friction.

    Args:
        model: the arm, at the mount of the samples.
        samples: samples that the model was not fitted to.
        phi: base parameters.
        friction: friction law in addition to the base parameters; None if there is none.
        slow_rad_s: speed below which joints may stick [rad/s].
    """
    rows = dynamic_rows(model, samples, phi, friction, slow_rad_s)
    own = [name for name, kept in zip(model.names, of_links(model), strict=True) if kept]
    groups, interval = parameter_groups(own), samples.settings.interval_s
    found = [_of_joint(rows, joint, groups, interval) for joint in range(model.axes)]
    return tuple(one for one in found if one is not None)


def _of_joint(
    rows: DynamicRows, joint: int, groups: tuple[ParameterGroup, ...], interval_s: float
) -> DynamicError | None:
    """Return the error of the dynamic part of one joint's predicted torque.

    Args:
        rows: torque residuals and regressor columns of all joints, from states in which they move and cannot stick.
        joint: index of the joint, from 0.
        groups: parameter groups, one of which may explain the residual.
        interval_s: time between samples [s].

    Returns:
        The error; None if the joint moves in too few samples or has no dynamic torque.
    """
    counts = (rows.share[:, joint] >= SLIDING_SHARE).astype(float)[:, None]
    spanned = _basis(np.hstack([rows.friction[:, joint], rows.gravity[:, joint]]) * counts, SAME)
    whole = rows.dynamic[:, joint] * counts
    columns = _without(spanned, whole)
    sizes = np.linalg.norm(whole, axis=0)
    kept = (sizes > 0.0) & (np.linalg.norm(columns, axis=0) > SHOWN * sizes)
    together = _basis(columns[:, kept], SHOWN)
    used, freedom = int(counts.sum()), int(counts.sum()) - spanned.shape[1] - together.shape[1]
    if freedom < FEWEST or not kept.any():
        return None
    left = _without(spanned, rows.residual[:, joint] * counts[:, 0])
    given = rows.torque[:, joint] * counts[:, 0]
    torque = _without(spanned, given)
    residual = _without(together, left)
    noise_model = StationaryNoise.of(residual, np.hstack([spanned, together]), counts[:, 0], interval_s)
    residual *= np.sqrt(used / freedom)
    found = []
    for group in groups:
        if places := [k for k in group.places if kept[k]]:
            Q = _basis(columns[:, places], SEPARATE)
            explained = Q @ (Q.T @ left)
            seen = float(np.linalg.norm(torque + explained))
            size = max(seen, LEAST_LEFT * float(np.linalg.norm(given + explained)))
            if seen > 0.0:
                covariances = noise_model.covariance(Q), score_covariance(Q * residual[:, None], interval_s)
                expected, noise = np.max([_quantile(one, freedom) for one in covariances], axis=0)
                error = _without_event(Q, left) / size
                shown = max(noise / size, VISIBLE * size / seen if size > seen else 0.0)
                found.append((group.words, error, expected / size, noise / size, shown))
    if not found:
        return None
    worst = max(found, key=lambda one: one[1] - one[3])
    return DynamicError(joint, *worst[:4], max(shown for *_, shown in found))


def _quantile(covariance: FloatArray, freedom: int) -> tuple[float, float]:
    """Return the root mean square length of a random normal vector, and the length exceeded with probability `CHANCE`.

    The squared length is assumed to follow an F distribution (Satterthwaite's approximation).

    Args:
        covariance: covariance of the vector, (k, k), any unit.
        freedom: degrees of freedom from which the covariance was estimated.
    """
    mean, square = float(np.trace(covariance)), float(np.sum(covariance**2))
    if mean <= 0.0 or square <= 0.0:
        return 0.0, 0.0
    return float(np.sqrt(mean)), float(np.sqrt(mean * fdtri(mean**2 / square, freedom, 1.0 - CHANCE)))


def _without_event(Q: FloatArray, left: FloatArray) -> float:
    """Return the smallest norm || x || [N m] of several least-squares solutions x of Q x = left.

    The first fit uses all N samples. Each other fit omits one of `BLOCKS` blocks of time, because a short event in one
    block may cause most of the residual. A block is never omitted if the other blocks hardly determine some direction
    of x.

    Args:
        Q: orthonormal basis, (N, k).
        left: torque residual, (N,) [N m].
    """
    x = Q.T @ left
    sizes = [float(np.linalg.norm(x))]
    for block in np.array_split(np.arange(len(Q)), BLOCKS):
        share = Q[block].T @ Q[block]
        if np.linalg.eigvalsh(share)[-1] < LARGE_SHARE:
            others = np.linalg.solve(np.eye(len(share)) - share, x - Q[block].T @ left[block])
            sizes.append(float(np.linalg.norm(others)))
    return min(sizes)


def _without(basis: FloatArray, values: FloatArray) -> FloatArray:
    """Return values (N, ...), any unit, minus their projection on the space of an orthonormal basis (N, k)."""
    return np.asarray(values - basis @ (basis.T @ values))


def _basis(columns: FloatArray, least: float) -> FloatArray:
    """Return an orthonormal basis (N, k) of the space of columns (N, m).

    The columns are scaled to unit length. Directions with relative singular values below `least` are omitted. So are
    columns whose length is only rounding relative to the longest one.
    """
    sizes = np.linalg.norm(columns, axis=0)
    shown = sizes > ROUNDING * sizes.max(initial=0.0)
    columns = columns[:, shown] / sizes[shown]
    return np.asarray(orth(columns, rcond=least)) if columns.shape[1] else columns
