"""A held joint that pushes against its own friction gives way to it, before that overloads its servo.

Where lifting ended, the motor carries the load and still pushes against friction: joint 4 of CRANE-X7 with 1.15 A,
0.61 A of them for the forearm. The held position then moves towards the joint until the current is low, and friction
carries the difference. A joint that slips is held where it is.
"""

import numpy as np

from dynid.hardware.safety.overload import OverloadModel
from dynid.robot import FloatArray, Robot

ENOUGH = 0.9  # of the current that never trips the servo
PACE_RAD_S, BACK_RAD_S = 0.15, 0.2  # of the held position; back it is before a motion's first standstill has ended
FARTHEST_RAD = 0.1
LAG_S = 0.1  # K_V / K_P of the controllers: a joint that slips comes so much later than its reference
STOOD_S, AVERAGE_S = 0.2, 0.05
SLIPPED_RAD = 0.004  # two and a half counts of an encoder


class Relaxation:
    """Offsets (n,) [rad] by which held positions give way; a joint that slips keeps its offset from then on.

    Args:
        robot: torque constants.
        overload: which currents never trip its servos.
    """

    def __init__(self, robot: Robot, overload: OverloadModel) -> None:
        self._constants = robot.torque_constants
        self._enough = ENOUGH * np.sqrt(overload.nominal)
        self.offset, self._current, self._anchor, self._stood_s = np.zeros((4, robot.size))
        self._slipped = np.zeros(robot.size, dtype=np.bool_)
        self._fresh = True

    def hold(self, dt: float, q: FloatArray, tau: FloatArray) -> None:
        """One cycle of dt [s] at which the arm is held: q [rad] as measured, tau [N m] as commanded last, (n,) each."""
        current = tau / self._constants
        if self._fresh:
            self._fresh, self._anchor, self._current, self._stood_s[:] = False, np.array(q), current, 0.0
        self._current += min(1.0, dt / AVERAGE_S) * (current - self._current)
        moved = np.abs(q - self._anchor) > SLIPPED_RAD
        if moved.any():
            slips = moved & (self.offset != 0.0) & ~self._slipped
            self.offset = self.offset - np.where(slips, PACE_RAD_S * LAG_S * np.sign(self.offset), 0.0)
            self._slipped |= slips
            self._anchor, self._stood_s = np.where(moved, q, self._anchor), np.where(moved, 0.0, self._stood_s)
        self._stood_s += dt
        gives = (np.abs(self._current) > self._enough) & (self._stood_s > STOOD_S) & ~self._slipped
        if gives.any():
            further = self.offset - np.where(gives, PACE_RAD_S * dt * np.sign(self._current), 0.0)
            self.offset = np.clip(further, -FARTHEST_RAD, FARTHEST_RAD)

    def end(self, dt: float) -> None:
        """One cycle of dt [s] in which the arm is not held: what is left of the offsets goes back."""
        self._fresh = True
        self._slipped[:] = False
        if self.offset.any():
            self.offset -= np.clip(self.offset, -BACK_RAD_S * dt, BACK_RAD_S * dt)
