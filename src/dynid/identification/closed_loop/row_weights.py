"""Weights of torque residuals: near standstill a joint sticks, and its friction does not follow its velocity."""

import numpy as np
import scipy  # `scipy.ndimage` is loaded at first use: a regression does not need it

from dynid.identification.settings import CoulombSettings
from dynid.robot import FloatArray


def row_weights(dq: FloatArray, settings: CoulombSettings) -> FloatArray:
    """Return the weights of torque equations, (N, n): 1, and less near standstill.

    Args:
        dq: velocities, (N, n) [rad/s].
        settings: settings with the speed below which joints may stick, and the lower weight.
    """
    return np.where(np.abs(dq) < settings.slow_rad_s, settings.slow_weight, 1.0)


def loop_weights(dq: FloatArray, settings: CoulombSettings, step_s: float) -> FloatArray:
    """Return the weights of a closed loop's torque residuals, (K, n): 1, and less around every standstill.

    Sticking changes the position, which affects the commands for as long as the memory of the loop, and the zero-phase
    filter spreads this effect to both sides. So the low weight begins `settings.loop_memory_s` before every standstill
    and ends `settings.loop_memory_s` after it.

    Args:
        dq: velocities, (K, n) [rad/s].
        settings: settings with the speed below which joints may stick, the lower weight and the memory of the loop.
        step_s: time between velocities [s].
    """
    slow = np.abs(dq) < settings.slow_rad_s
    width = 2 * round(settings.loop_memory_s / step_s) + 1
    return np.where(scipy.ndimage.maximum_filter1d(slow.astype(np.uint8), width, axis=0) > 0, settings.slow_weight, 1.0)
