"""Torque residuals of a model: distribution, autocorrelation, and dependence on velocity."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dynid.identification.prediction import Motion
from dynid.robot import FloatArray

BINS = 41
LAGS = 60
MOVING_SPEED = 0.05  # minimum speed of a moving joint [rad/s or m/s]; slower joints may be in stiction


@dataclass(frozen=True, eq=False)
class JointResidual:
    """Statistics of one joint's residual, the measured minus the predicted torque, in one motion.

    Attributes:
        mean: mean of the residual [N m].
        deviation: standard deviation of the residual [N m].
        edges: edges of the histogram, (BINS + 1,) [N m].
        density: probability density in each bin of the histogram, (BINS,) [1 / N m].
        autocorrelation: autocorrelation at lags of 0, 1, ... samples, (at most LAGS + 1,).
        band: 1.96 / sqrt(N) for N samples. For white noise, 95 % of the autocorrelations at lags above 0 are within +-
            band.
        interval_s: sampling interval, the duration of one lag [s].
        friction: Coulomb friction that the model lacks (positive) or overestimates (negative) [N m]. It is fitted to
            the residual together with `slope`; NaN if the joint hardly moved.
        slope: viscous friction that the model lacks, the slope of the residual over velocity during motion
            [N m s/rad]; NaN if the joint hardly moved.
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
        """Fraction of lags above 0 at which the autocorrelation is outside `band` [-]; about 0.05 for white noise."""
        return float(np.mean(np.abs(self.autocorrelation[1:]) > self.band)) if len(self.autocorrelation) > 1 else 0.0


def autocorrelation(values: FloatArray, lags: int = LAGS) -> FloatArray:
    """Return the autocorrelation of values (N,), any unit, at lags 0 to `lags` (at most N / 2), with 1 at lag 0."""
    x = values - values.mean()
    power = float(x @ x)
    count = min(lags, len(x) // 2)
    if power == 0.0:
        return np.concatenate([[1.0], np.zeros(count)])
    return np.array([float(x[: len(x) - k] @ x[k:]) / power for k in range(count + 1)])


@lru_cache(maxsize=16)
def residuals(motion: Motion) -> tuple[JointResidual, ...]:
    """Return the statistics of the torque residuals of all joints in one motion."""
    return tuple(joint_residual(motion, j) for j in range(motion.measured.shape[1]))


def joint_residual(motion: Motion, joint: int) -> JointResidual:
    """Return the statistics of the torque residual of one joint in one motion; `joint` counts from 0."""
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
    """Fit residual = a + friction sign(dq) + slope dq to the moving samples; return friction and slope.

    Both are NaN if the joint did not move enough in both directions.

    Args:
        left: residual, (N,) [N m].
        dq: velocity, (N,) [rad/s].
    """
    moving = np.abs(dq) > MOVING_SPEED
    if min(np.sum(dq > MOVING_SPEED), np.sum(dq < -MOVING_SPEED)) < 10:
        return float("nan"), float("nan")
    speed = dq[moving]
    columns = np.column_stack([np.ones(len(speed)), np.sign(speed), speed])
    found = np.linalg.lstsq(columns, left[moving], rcond=None)[0]
    return float(found[1]), float(found[2])
