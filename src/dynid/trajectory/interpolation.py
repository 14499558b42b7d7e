"""Point-to-point time law with continuous acceleration; all joints move synchronously.

A segment follows q(t) = q_start + d s(t) with one scalar law s: 0 -> 1 for all joints, so they start and stop
together and stay on a straight line in joint space. The rate ds/dt rises over the ramp time r as the cubic
V x^2 (3 - 2 x) with x = t/r, stays at V over the cruise time c, and falls symmetrically. So d2s/dt2 is the
parabola 6 V x (1 - x)/r, zero at both ends of a ramp and at most 1.5 V/r. s reaches 1 if V (r + c) = 1. Short
segments have no cruise phase.
"""

import math
from typing import NamedTuple

import numpy as np

from dynid.errors import ConfigurationError
from dynid.robot import FloatArray

# Largest displacement that counts as no motion [rad], far below an encoder count (1.5e-3 rad).
ZERO_DISPLACEMENT_RAD = 1e-9


class TimeLaw(NamedTuple):
    """Scalar time law of one segment: completed fraction s of its straight path over time.

    Attributes:
        rate: peak rate V of s [1/s].
        ramp: time r in which the rate rises to V, and in which it falls again [s].
        cruise: time c at the peak rate [s].
    """

    rate: float
    ramp: float
    cruise: float

    @property
    def duration(self) -> float:
        """Duration of the segment: two ramps and the cruise [s]."""
        return 2.0 * self.ramp + self.cruise


def rest(duration: float) -> TimeLaw:
    """Return the time law of a pause, in which no joint moves for `duration` [s].

    Raises:
        ConfigurationError: the duration is negative.
    """
    if not (math.isfinite(duration) and duration >= 0.0):
        raise ConfigurationError(f"a dwell lasts {duration} s; expected a finite time of at least 0 s")
    return TimeLaw(0.0, 0.5 * duration, 0.0)


def point_to_point(displacement: FloatArray, velocity: FloatArray, acceleration: FloatArray) -> TimeLaw:
    """Return the fastest time law for one segment within the limits of all joints.

    Args:
        displacement: end minus start, (n,) [rad].
        velocity: velocity limit of each joint, (n,) [rad/s].
        acceleration: acceleration limit of each joint, (n,) [rad/s^2].

    Returns:
        The time law; its duration is zero if no joint moves.

    Raises:
        ConfigurationError: a displacement is not finite, or a limit is not positive and finite.
    """
    distance = np.abs(displacement)
    for label, values in (("velocity", velocity), ("acceleration", acceleration)):
        if not (np.all(np.isfinite(values)) and np.all(values > 0.0)):
            raise ConfigurationError(f"{label} limits are {values.tolist()}; every one must be positive and finite")
    if not np.all(np.isfinite(distance)):
        raise ConfigurationError(
            f"a segment's displacement is {np.asarray(displacement).tolist()}; expected finite values"
        )
    if np.all(distance < ZERO_DISPLACEMENT_RAD):
        return rest(0.0)
    moving = distance >= ZERO_DISPLACEMENT_RAD
    rate_limit = float(np.min(velocity[moving] / distance[moving]))
    # The peak of the parabola is 1.5 V/r, so r = 1.5 V/a at the acceleration limit a (of the slowest joint).
    slope = float(np.min(acceleration[moving] / distance[moving])) / 1.5
    if rate_limit * rate_limit / slope >= 1.0:  # ramps to the full rate would be too long: no cruise, and a lower peak
        rate = math.sqrt(slope)
        return TimeLaw(rate, 1.0 / rate, 0.0)
    ramp = rate_limit / slope
    return TimeLaw(rate_limit, ramp, 1.0 / rate_limit - ramp)


def share_polynomials(laws: FloatArray) -> FloatArray:
    """Return the completed fraction s of a path [-] as polynomials of the time since the start of each phase.

    Args:
        laws: time laws of k segments: peak rate [1/s], ramp time [s] and cruise time [s], (k, 3).

    Returns:
        Coefficients of the rising ramp, the cruise and the falling ramp, (k, 3, 6), lowest power first [1/s^power].
    """
    rate, ramp, cruise = np.asarray(laws, dtype=np.float64).T
    half, short = 0.5 * rate * ramp, np.maximum(ramp, np.finfo(float).tiny)
    found = np.zeros((len(rate), 3, 6))
    found[:, 0, 3], found[:, 0, 4] = rate / short**2, -0.5 * rate / short**3
    found[:, 1, 0], found[:, 1, 1] = half, rate
    found[:, 2, 0], found[:, 2, 1] = half + rate * cruise, rate
    found[:, 2, 3], found[:, 2, 4] = -rate / short**2, 0.5 * rate / short**3
    return np.where(rate[:, None, None] > 0.0, found, 0.0)
