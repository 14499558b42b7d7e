"""Penalties on violated limits of a segment, with their gradients."""

import numpy as np

from dynid.adaptive.segment_constraints import SegmentConstraints
from dynid.control.motion_check import MotionLimits
from dynid.robot import FloatArray

LOAD_PENALTY = 0.1  # weight of servo overload relative to other limits
LIMIT_SHARE = 0.97  # share of the limits at which penalties begin, because penalties permit small violations
POSITION_MARGIN = 0.005  # margin to both position limits [share of the range]


def spans(limits: MotionLimits) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Return lower and upper bounds of positions [rad], velocities [rad/s] and accelerations [rad/s^2], (n,) each.

    The bounds are narrower than the limits by a small margin, because penalties permit small violations.
    """
    edge = POSITION_MARGIN * (limits.upper - limits.lower)
    return (
        (limits.lower + edge, limits.upper - edge),
        (-LIMIT_SHARE * limits.velocity, LIMIT_SHARE * limits.velocity),
        (-LIMIT_SHARE * limits.acceleration, LIMIT_SHARE * limits.acceleration),
    )


def torque_excess(tau: FloatArray, frame: SegmentConstraints) -> tuple[float, FloatArray]:
    """Return a penalty [-] on the torques of successive states, and its gradient by the torques, (N, n) [1/(N m)].

    Two excesses are penalised: that of torques beyond the torque limits, and that of each joint's root mean square
    torque beyond the torque that its servo sustains permanently. The torques of the last state must also stay below the
    sustained torque, because the arm may have to stand at the segment's end.

    Args:
        tau: torques of N successive states, (N, n) [N m].
        frame: constraints of the segment, with the torque limits and the sustained torques.
    """
    more, push = excess(tau, -LIMIT_SHARE * frame.limits.torque, LIMIT_SHARE * frame.limits.torque)
    hot = np.maximum(np.mean(tau**2, axis=0) / frame.lasting**2 - 1.0, 0.0)
    held = np.maximum(tau[-1] ** 2 / frame.lasting**2 - 1.0, 0.0)
    more += float(np.sum(hot**2) + np.sum(held**2)) * LOAD_PENALTY
    slope = push + LOAD_PENALTY * 4.0 * hot * tau / frame.lasting**2 / len(tau)
    slope[-1] += LOAD_PENALTY * 4.0 * held * tau[-1] / frame.lasting**2
    return more, slope


def excess(values: FloatArray, lower: FloatArray, upper: FloatArray) -> tuple[float, FloatArray]:
    """Return the squared excess of values beyond their bounds [-], and its gradient by the values, (N, n).

    The excess is divided by upper - lower. Its square is averaged over the N rows and summed over the n columns.

    Args:
        values: values, (N, n) in any unit.
        lower: lower bounds, (n,) in the same unit.
        upper: upper bounds, (n,) in the same unit.
    """
    width = upper - lower
    over = (np.maximum(values - upper, 0.0) + np.minimum(values - lower, 0.0)) / width
    return float(np.sum(over**2)) / len(values), 2.0 * over / width / len(values)
