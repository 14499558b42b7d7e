"""Weights of torque residuals, low near standstill, where friction of sticking joints does not follow from velocity."""

import numpy as np
import scipy  # `scipy.ndimage` is loaded at first use: a regression does not need it

from dynid.identification.settings import CoulombSettings
from dynid.robot import FloatArray


def row_weights(dq: FloatArray, settings: CoulombSettings) -> FloatArray:
    """Return the weights of torque equations, (N, n): `settings.slow_weight` near standstill, else 1.

    Args:
        dq: velocities, (N, n) [rad/s].
        settings: settings with the speed below which joints may stick, and the lower weight.
    """
    return np.where(np.abs(dq) < settings.slow_rad_s, settings.slow_weight, 1.0)


def loop_weights(dq: FloatArray, settings: CoulombSettings, step_s: float) -> FloatArray:
    """Return the weights of a control loop's residuals, (K, n): `settings.slow_weight` around standstills, else 1.

    Sticking changes the position. This affects the commands for `settings.loop_memory_s`, the time until transients of
    the control loop have decayed. The torques of the residuals have passed a zero-phase low-pass, which spreads the
    effect to earlier and later times. So the low weight begins `settings.loop_memory_s` before every standstill and
    ends `settings.loop_memory_s` after it.

    Args:
        dq: velocities, (K, n) [rad/s].
        settings: settings with the speed below which joints may stick, the low weight and the loop memory.
        step_s: time between velocities [s].
    """
    slow = np.abs(dq) < settings.slow_rad_s
    width = 2 * round(settings.loop_memory_s / step_s) + 1
    return np.where(scipy.ndimage.maximum_filter1d(slow.astype(np.uint8), width, axis=0) > 0, settings.slow_weight, 1.0)
