"""Penalties on violated limits of a segment, with their gradients."""

import numpy as np

from dynid.adaptive.segment_constraints import SegmentConstraints
from dynid.control.motion_check import MotionLimits
from dynid.robot import FloatArray

LOAD_PENALTY = 0.1  # weight of servo overload relative to other limits
LIMIT_SHARE = 0.97  # share of the limits at which penalties begin, because penalties permit small violations
POSITION_MARGIN = 0.005  # margin to both position limits [share of the range]


def spans(limits: MotionLimits) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Return lower and upper bounds of positions [rad], velocities [rad/s] and accelerations [rad/s^2], (n,) each."""
    edge = POSITION_MARGIN * (limits.upper - limits.lower)
    return (
        (limits.lower + edge, limits.upper - edge),
        (-LIMIT_SHARE * limits.velocity, LIMIT_SHARE * limits.velocity),
        (-LIMIT_SHARE * limits.acceleration, LIMIT_SHARE * limits.acceleration),
    )


def torque_excess(tau: FloatArray, frame: SegmentConstraints) -> tuple[float, FloatArray]:
    """Return a penalty [-] on torques (N, n) [N m], and its gradient (N, n).

    Torques beyond the limit, a mean square beyond what servos bear permanently, and a last torque beyond the same
    bound are penalised: the arm may have to stand at the end of a segment.
    """
    more, push = excess(tau, -LIMIT_SHARE * frame.limits.torque, LIMIT_SHARE * frame.limits.torque)
    hot = np.maximum(np.mean(tau**2, axis=0) / frame.lasting**2 - 1.0, 0.0)
    held = np.maximum(tau[-1] ** 2 / frame.lasting**2 - 1.0, 0.0)
    more += float(np.sum(hot**2) + np.sum(held**2)) * LOAD_PENALTY
    slope = push + LOAD_PENALTY * 4.0 * hot * tau / frame.lasting**2 / len(tau)
    slope[-1] += LOAD_PENALTY * 4.0 * held * tau[-1] / frame.lasting**2
    return more, slope


def excess(values: FloatArray, lower: FloatArray, upper: FloatArray) -> tuple[float, FloatArray]:
    """Return the mean squared excess of values (N, n) over bounds (n,), relative to their width, and its gradient."""
    width = upper - lower
    over = (np.maximum(values - upper, 0.0) + np.minimum(values - lower, 0.0)) / width
    return float(np.sum(over**2)) / len(values), 2.0 * over / width / len(values)
