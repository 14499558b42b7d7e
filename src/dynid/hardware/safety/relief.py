"""A held joint that pushes against its own friction gives way to it, before that overloads its servo.

Where lifting ended, the motor carries the load and still pushes against friction: joint 4 of CRANE-X7 with 1.15 A,
0.61 A of them for the forearm. What holds the joint then gives way slowly until the current is low, and friction
carries the difference. A joint that slips is held where it is.
"""

import numpy as np

from dynid.hardware.safety.overload import OverloadModel
from dynid.robot import FloatArray, Robot

ENOUGH = 0.9  # of the current that never trips the servo
LAG_S = 0.1  # 1 / stiffness over damping, of hold and controllers: a joint that slips comes so much later
STOOD_S, AVERAGE_S = 0.2, 0.05
SLIPPED_RAD = 0.004  # two and a half counts of an encoder


class Relief:
    """Which joints give way, at a pace (n,) [rad/s or A/s] that whoever holds them chooses.

    Args:
        overload: which currents never trip the servos.
        pace: at which what holds a joint gives way.

    Attributes:
        gives: which joints gave way in the last cycle, or would have but for having slipped, (n,).
    """

    def __init__(self, overload: OverloadModel, pace: FloatArray) -> None:
        self._enough, self._pace, size = ENOUGH * np.sqrt(overload.nominal), pace, len(pace)
        self._current, self._anchor, self._stood_s, self._given = np.zeros((4, size))
        self._slipped, self._fresh = np.zeros(size, dtype=np.bool_), True
        self.gives = np.zeros(size, dtype=np.bool_)

    @classmethod
    def of(cls, robot: Robot, pace: float) -> "Relief | None":
        """Of all joints at one pace [rad/s or A/s]; None where nothing is known of the servos' overload."""
        overload = OverloadModel.of(robot)
        return None if overload is None else cls(overload, np.full(robot.size, pace))

    def reset(self) -> None:
        """The joints are not held any more, or elsewhere."""
        self._fresh = True

    def step(self, dt: float, q: FloatArray, current_a: FloatArray) -> FloatArray:
        """By how much what holds the joints changes in this cycle, (n,) [pace times s]; against the current's sign.

        A joint that slips gets back what it has not followed yet, and gives way no more until `reset`.

        Args:
            dt: of the cycle [s].
            q: joint angles as they are measured, (n,) [rad].
            current_a: with which the joints are held, (n,) [A].
        """
        if self._fresh:
            self._fresh, self._anchor, self._current = False, np.array(q), np.array(current_a)
            self._stood_s[:], self._given[:], self._slipped[:] = 0.0, 0.0, False
        self._current += min(1.0, dt / AVERAGE_S) * (current_a - self._current)
        change = np.zeros_like(q)
        moved = np.abs(q - self._anchor) > SLIPPED_RAD
        if moved.any():
            slips = moved & (self._given != 0.0) & ~self._slipped
            change -= np.where(slips, np.sign(self._given) * np.minimum(np.abs(self._given), LAG_S * self._pace), 0.0)
            self._slipped |= slips
            self._anchor, self._stood_s = np.where(moved, q, self._anchor), np.where(moved, 0.0, self._stood_s)
        self._stood_s += dt
        self.gives = (np.abs(self._current) > self._enough) & (self._stood_s > STOOD_S) & ~self._slipped
        if self.gives.any():
            change -= np.where(self.gives, self._pace * dt * np.sign(self._current), 0.0)
        self._given += change
        return change
