"""Penalties on what leaves the limits of a segment, with their slopes."""

import numpy as np

from dynid.adaptive.frame import Frame
from dynid.control.motion_check import MotionLimits
from dynid.robot import FloatArray

LOAD_PENALTY = 0.1  # of servos that get too hot, beside those of other limits
INSIDE = 0.97  # of the limits: what a penalty leaves outside
EDGE = 0.005  # the same of positions, of their range


def spans(limits: MotionLimits) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Bounds of positions, speeds and accelerations, (n,) each."""
    edge = EDGE * (limits.upper - limits.lower)
    return (
        (limits.lower + edge, limits.upper - edge),
        (-INSIDE * limits.velocity, INSIDE * limits.velocity),
        (-INSIDE * limits.acceleration, INSIDE * limits.acceleration),
    )


def torque_excess(tau: FloatArray, frame: Frame) -> tuple[float, FloatArray]:
    """Penalty on torques (N, n), by their size, their mean square and the last one, and its slope (N, n).

    The arm may have to stand for long where a segment ends.
    """
    more, push = excess(tau, -INSIDE * frame.limits.torque, INSIDE * frame.limits.torque)
    hot = np.maximum(np.mean(tau**2, axis=0) / frame.lasting**2 - 1.0, 0.0)
    held = np.maximum(tau[-1] ** 2 / frame.lasting**2 - 1.0, 0.0)
    more += float(np.sum(hot**2) + np.sum(held**2)) * LOAD_PENALTY
    slope = push + LOAD_PENALTY * 4.0 * hot * tau / frame.lasting**2 / len(tau)
    slope[-1] += LOAD_PENALTY * 4.0 * held * tau[-1] / frame.lasting**2
    return more, slope


def excess(values: FloatArray, lower: FloatArray, upper: FloatArray) -> tuple[float, FloatArray]:
    """Mean squared excess of values (N, n) over bounds (n,), over their width, and its slope (N, n)."""
    width = upper - lower
    over = (np.maximum(values - upper, 0.0) + np.minimum(values - lower, 0.0)) / width
    return float(np.sum(over**2)) / len(values), 2.0 * over / width / len(values)
