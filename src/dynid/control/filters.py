"""Pseudo-differentiation: velocity from positions by s/(1 + Tf s), for all joints at once."""

import math

import numpy as np

from dynid.control.motion_kernels import differentiate
from dynid.errors import ConfigurationError, DataError
from dynid.robot import FloatArray


class PseudoDifferentiator:
    """Discrete filter s/(1 + Tf s) with a variable sample time (arXiv:2605.15949, section III-B).

    The first-order-hold discretisation is exact for an input x that is linear between samples:

        y_k = e y_{k-1} + (1 - e) (x_k - x_{k-1})/T with e = exp(-T/Tf),

    with the output y and the time T between the samples k - 1 and k. This discretisation is preferred to Tustin's rule,
    because its pole e lies in (0, 1) for every T. Tustin's pole (2 Tf - T)/(2 Tf + T) becomes negative, and the output
    alternates, once a late cycle exceeds T = 2 Tf (4 ms at Tf = 2 ms). A zero-order hold would treat the position as a
    staircase and add half a sample of delay. A ramp is differentiated without error.
    """

    def __init__(self, time_constant: float, size: int) -> None:
        """Create the filter.

        Args:
            time_constant: time constant Tf [s].
            size: number of joints.

        Raises:
            ConfigurationError: the time constant is not positive and finite.
        """
        if not (math.isfinite(time_constant) and time_constant > 0.0):
            raise ConfigurationError(f"pseudo-differentiation time constant is {time_constant} s; it must be positive")
        self.time_constant = time_constant
        self._input = np.full(size, np.nan)
        self._output = np.zeros(size)
        self._started = False

    def reset(self, x: FloatArray) -> None:
        """Reset the filter to rest at x, (n,) [rad]: the output is 0 until x changes, so there is no jump."""
        self._input = np.array(x, dtype=np.float64)
        self._output = np.zeros_like(self._input)
        self._started = True

    def update(self, dt: float, x: FloatArray) -> FloatArray:
        """Process the next sample; return the filtered derivative.

        Args:
            dt: time since the previous sample [s].
            x: new sample, (n,) in any unit.

        Returns:
            Derivative (n,) in the sample's unit per second; a new array.

        Raises:
            DataError: dt is not positive and finite (a repeated or reversed stamp), or `reset` was never called.
        """
        if not self._started:
            raise DataError("the controller's velocity filter has no start posture; call reset(q) before update")
        if not 0.0 < dt < math.inf:
            raise DataError(f"pseudo-differentiation got a sample time of {dt} s; stamps must increase")
        decay = math.exp(-dt / self.time_constant)
        found: FloatArray = differentiate(x, self._input, self._output, decay, (1.0 - decay) / dt)
        return found
