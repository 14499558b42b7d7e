"""Breakaway torque of a joint, measured by torque ramps without feedback before the joint's excitation begins.

In each direction the torque rises from zero, on top of the gravity torque, until the joint has moved by `MOVED_RAD` or
the torque reaches its limit. If the larger breakaway torque of both directions exceeds the excitation torque in the
settings, it replaces this torque, so that gears with high stiction move, too. A joint that did not move in one of the
directions is not excited.
"""

import numpy as np

from dynid.robot import FloatArray, read_only

MOVED_RAD = np.deg2rad(2.0)  # motion that proves that the joint moves; above usual backlash
RAMP_S = 4.0  # time from zero to the torque limit


class Breakaway:
    """Excitation torque of one joint: the larger one of the torque in the settings and the joint's breakaway torque.

    The breakaway torque is the torque at which the joint starts to move. `Ramp` objects measure it; each registers
    itself with this object.

    Args:
        basic: excitation torque of the settings [N m].
        most: largest torque in addition to the gravity torque [N m].
    """

    def __init__(self, basic: float, most: float) -> None:
        self.basic, self.most = basic, most
        self.ramps: list[Ramp] = []

    @property
    def stuck(self) -> bool:
        """Whether every torque ramp has begun, and the joint has not moved during at least one of them.

        While the last ramp rises, the value is True until the joint moves.
        """
        tried = bool(self.ramps) and all(ramp.began for ramp in self.ramps)
        return tried and any(ramp.moved_at is None for ramp in self.ramps)

    def torque(self, level: float) -> float:
        """Return the excitation torque of the joint times the factor `level`, at most the torque limit [N m].

        The result is final once all torque ramps have ended.
        """
        moving = [ramp.moved_at for ramp in self.ramps if ramp.moved_at is not None]
        return min(level * max([self.basic, *moving]), self.most)


class Ramp:
    """Reference path that stays at one posture while the torque of one joint rises until this joint moves.

    The ramp registers itself with the `Breakaway` object, which reads the result `moved_at`.

    Args:
        posture: reference, (n,) [rad].
        joint: index of the joint.
        sign: direction of the torque, 1 or -1.
        breakaway: excitation torque of the joint, which depends on the result of this ramp.

    Attributes:
        began: whether the ramp has started.
        moved_at: torque at which the joint had moved by `MOVED_RAD` [N m], or None if it has not.
    """

    def __init__(self, posture: FloatArray, joint: int, sign: float, breakaway: Breakaway) -> None:
        self._posture, self._joint, self._sign, self._breakaway = posture, joint, sign, breakaway
        self._time_s, self._start = 0.0, 0.0
        self.began = False
        self.moved_at: float | None = None
        breakaway.ramps.append(self)

    @property
    def duration(self) -> float:
        """Duration of the torque ramp [s]: until the joint has moved, at most `RAMP_S`."""
        return RAMP_S if self.moved_at is None else self._time_s

    @property
    def peak_velocities(self) -> FloatArray:
        """Peak velocity of the reference, (n,) [rad/s]: zero, since the reference stands still."""
        return read_only(np.zeros_like(self._posture))

    def sample_into(self, t: float, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
        """Write the constant posture into q, and zeros into dq and ddq, (n,) each [rad, rad/s, rad/s^2].

        The time t [s] since the start of the ramp is stored, unless the joint has moved; `torque` uses it.
        """
        q[:], dq[:], ddq[:] = self._posture, 0.0, 0.0
        if self.moved_at is None:
            self._time_s = t

    def torque(self, q: FloatArray) -> float:
        """Return the joint's present torque in addition to its gravity torque [N m].

        The torque rises with time until the joint has moved by `MOVED_RAD`; `moved_at` then stores this torque.

        Args:
            q: measured positions, (n,) [rad].
        """
        if not self.began:
            self.began, self._start = True, float(q[self._joint])
        size = self._breakaway.most * min(self._time_s / RAMP_S, 1.0)
        if self.moved_at is None and abs(q[self._joint] - self._start) >= MOVED_RAD:
            self.moved_at = size
        return self._sign * size
