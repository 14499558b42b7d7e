"""Torques that come with a motion and are added to those of the control law: a model's, known to whoever planned it.

trajectory_msgs/JointTrajectoryPoint calls them efforts, and ros2_control's joint trajectory controller adds them, too.
"""

from dataclasses import dataclass

import numpy as np

from dynid.errors import SafetyError
from dynid.robot import FloatArray, Robot

BLEND_S = 0.5  # over this time a difference between what was added and what is to be added fades
STOP_S = 0.1  # the same for an arm that does not follow: what was added may be what drives it


@dataclass(frozen=True, eq=False)
class TorqueCurve:
    """Torques over the time of a motion, joined by straight lines and constant beyond both ends.

    Attributes:
        times: (k,) [s], increasing.
        torques: (k, n) [N m].
    """

    times: FloatArray
    torques: FloatArray

    def at(self, t: float) -> FloatArray:
        """At a time of the motion [s], (n,) [N m]."""
        k = int(np.searchsorted(self.times, t))
        if k == 0:
            return np.asarray(self.torques[0])
        if k == len(self.times):
            return np.asarray(self.torques[-1])
        share = (t - self.times[k - 1]) / (self.times[k] - self.times[k - 1])
        return np.asarray(self.torques[k - 1] + share * (self.torques[k] - self.torques[k - 1]))

    @property
    def beginning(self) -> "TorqueCurve":
        """Its first torques for ever: for the way to where the motion begins."""
        return TorqueCurve(self.times[:1], self.torques[:1])

    def refuse_excess(self, robot: Robot, name: str) -> None:
        """Raise SafetyError where a motor cannot give a torque; `name` is the motion's."""
        over = np.abs(self.torques) - robot.torque_limits
        k, joint = np.unravel_index(int(np.argmax(over)), over.shape)
        if over[k, joint] > 0.0:
            raise SafetyError(
                f"trajectory '{name}': effort of {robot.joint_names[joint]} is {self.torques[k, joint]:.2f} N m at "
                f"{self.times[k]:.3f} s, its limit is {robot.torque_limits[joint]:.2f} N m"
            )


class AddedTorque:
    """What is added in each cycle, without a jump from one motion to the next; it never outlives its motion.

    Attributes:
        now: added in the last cycle, (n,) [N m].
    """

    def __init__(self, size: int) -> None:
        self.now = self._nothing = np.zeros(size)
        self._curve = self._none = TorqueCurve(np.zeros(1), np.zeros((1, size)))
        self._difference, self._left_s, self._blend_s = np.zeros(size), 0.0, BLEND_S

    def follow(self, curve: TorqueCurve) -> None:
        """Add the torques of a motion that begins."""
        self._curve, self._blend_s = curve, BLEND_S
        self._difference, self._left_s = self.now - curve.at(0.0), BLEND_S

    def fade(self, over_s: float = BLEND_S) -> None:
        """Take what is added back within a time [s]; what fades already goes on fading, faster if asked to."""
        if self._curve is self._none and self._left_s <= over_s:
            return
        self._curve, self._difference = self._none, self.now
        self._left_s = self._blend_s = over_s

    def clear(self) -> None:
        """Add nothing, at once: for an arm without torque."""
        self.now, self._curve, self._left_s = self._nothing, self._none, 0.0

    def update(self, dt: float, t: float) -> FloatArray:
        """Torques (n,) [N m] at time `t` [s] of the motion, `dt` [s] after the cycle before."""
        if self._curve is self._none and not self._left_s:
            return self._nothing
        self._left_s = max(0.0, self._left_s - dt)
        self.now = self._curve.at(t) + self._difference * (self._left_s / self._blend_s)
        return self.now
