"""What a model leaves unexplained: distribution, autocorrelation, and what of it goes with the direction of motion."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dynid.identification.prediction import Motion
from dynid.robot import FloatArray

BINS = 41
LAGS = 60
MOVING = 0.05  # rad/s or m/s: slower joints may stick, and have no direction


@dataclass(frozen=True, eq=False)
class JointResidual:
    """The residual of one joint.

    Attributes:
        mean, deviation: of measured minus predicted torque [N m].
        edges, density: histogram, (BINS + 1,) [N m] and (BINS,) [1 / N m].
        autocorrelation: at lags 0, 1, ... samples, (at most LAGS + 1,); white noise stays within `band` beside lag 0.
        band: 1.96 / sqrt(N), between which 95 % of white noise's values lie.
        interval_s: of one lag [s].
        friction: half the difference between its means when the joint moves forwards and backwards [N m]: Coulomb
            friction that the model left out (positive) or has too much of (negative); NaN where it hardly moved.
        slope: of the residual over velocity when the joint moves [N m s/rad]: viscous friction left out; NaN likewise.
    """

    mean: float
    deviation: float
    edges: FloatArray
    density: FloatArray
    autocorrelation: FloatArray
    band: float
    interval_s: float
    friction: float
    slope: float

    @property
    def outside(self) -> float:
        """Share of lags whose autocorrelation is not that of white noise."""
        return float(np.mean(np.abs(self.autocorrelation[1:]) > self.band)) if len(self.autocorrelation) > 1 else 0.0


def autocorrelation(values: FloatArray, lags: int = LAGS) -> FloatArray:
    """Autocorrelation of (N,) at lags 0 to `lags`, fewer where there are not twice as many samples; 1 at lag 0."""
    x = values - values.mean()
    power = float(x @ x)
    count = min(lags, len(x) // 2)
    if power == 0.0:
        return np.concatenate([[1.0], np.zeros(count)])
    return np.array([float(x[: len(x) - k] @ x[k:]) / power for k in range(count + 1)])


@lru_cache(maxsize=16)
def residuals(motion: Motion) -> tuple[JointResidual, ...]:
    """The residuals of all joints of one motion."""
    return tuple(joint_residual(motion, j) for j in range(motion.measured.shape[1]))


def joint_residual(motion: Motion, joint: int) -> JointResidual:
    """The residual of one joint of one motion; `joint` counts from 0."""
    left, dq = motion.residual[:, joint], motion.dq[:, joint]
    mean, deviation = float(left.mean()), float(left.std())
    reach = max(4.0 * deviation, 1e-9)
    density, edges = np.histogram(
        np.clip(left, mean - reach, mean + reach), BINS, (mean - reach, mean + reach), density=True
    )
    friction, slope = _with_velocity(left, dq)
    return JointResidual(
        mean,
        deviation,
        edges,
        density,
        autocorrelation(left),
        1.96 / np.sqrt(len(left)),
        float(np.median(np.diff(motion.time))),
        friction,
        slope,
    )


def _with_velocity(left: FloatArray, dq: FloatArray) -> tuple[float, float]:
    """Least squares of left = a + friction sign(dq) + slope dq over samples that move both ways, else NaN."""
    moving = np.abs(dq) > MOVING
    if min(np.sum(dq > MOVING), np.sum(dq < -MOVING)) < 10:
        return float("nan"), float("nan")
    speed = dq[moving]
    columns = np.column_stack([np.ones(len(speed)), np.sign(speed), speed])
    found = np.linalg.lstsq(columns, left[moving], rcond=None)[0]
    return float(found[1]), float(found[2])
