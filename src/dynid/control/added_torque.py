"""Feed-forward torques of a motion, which are added to the torques of the control law.

The client that plans the motion computes them from a model. trajectory_msgs/JointTrajectoryPoint calls them efforts,
and ros2_control's joint trajectory controller adds them to its torques, too.
"""

from dataclasses import dataclass

import numpy as np

from dynid.errors import SafetyError
from dynid.robot import FloatArray, Robot

BLEND_S = 0.5  # time over which a step in the added torque is blended
STOP_BLEND_S = 0.1  # blend time for an arm that left its reference: shorter, because the added torque may be the cause


@dataclass(frozen=True, eq=False)
class TorqueCurve:
    """Feed-forward torques over the time of a motion, interpolated linearly and constant beyond both ends.

    Attributes:
        times: times of the points, increasing, (k,) [s].
        torques: torques at these times, (k, n) [N m].
    """

    times: FloatArray
    torques: FloatArray

    def at(self, t: float) -> FloatArray:
        """Return the interpolated torques (n,) [N m] at a time of the motion [s]."""
        k = int(np.searchsorted(self.times, t))
        if k == 0:
            return np.asarray(self.torques[0])
        if k == len(self.times):
            return np.asarray(self.torques[-1])
        share = (t - self.times[k - 1]) / (self.times[k] - self.times[k - 1])
        return np.asarray(self.torques[k - 1] + share * (self.torques[k] - self.torques[k - 1]))

    @property
    def beginning(self) -> "TorqueCurve":
        """Constant curve with the torques of this curve's first point, for the approach to the start of the motion."""
        return TorqueCurve(self.times[:1], self.torques[:1])

    def refuse_excess(self, robot: Robot, name: str) -> None:
        """Raise SafetyError if a feed-forward torque exceeds the joint's torque limit; `name` is the motion's name."""
        over = np.abs(self.torques) - robot.torque_limits
        k, joint = np.unravel_index(int(np.argmax(over)), over.shape)
        if over[k, joint] > 0.0:
            raise SafetyError(
                f"trajectory '{name}': effort of {robot.joint_names[joint]} is {self.torques[k, joint]:.2f} N m at "
                f"{self.times[k]:.3f} s, its limit is {robot.torque_limits[joint]:.2f} N m"
            )


class AddedTorque:
    """Feed-forward torque of the present motion, which is added to the control law's torque in each cycle.

    When a new motion begins, the torque blends to that of the new motion without a jump. It fades to zero on request.

    Args:
        size: number of joints n.

    Attributes:
        now: torque that was added in the last cycle, (n,) [N m].
    """

    def __init__(self, size: int) -> None:
        self.now = self._nothing = np.zeros(size)
        self._curve = self._none = TorqueCurve(np.zeros(1), np.zeros((1, size)))
        self._difference, self._left_s, self._blend_s = np.zeros(size), 0.0, BLEND_S

    def follow(self, curve: TorqueCurve) -> None:
        """Start to add the feed-forward torques `curve` of a new motion.

        The added torque blends from its present value to that of the new motion within `BLEND_S`.
        """
        self._curve, self._blend_s = curve, BLEND_S
        self._difference, self._left_s = self.now - curve.at(0.0), BLEND_S

    def fade(self, over_s: float = BLEND_S) -> None:
        """Fade the added feed-forward torque to zero within a time [s].

        A fade under way continues; it becomes faster if a shorter time is requested.
        """
        if self._curve is self._none and self._left_s <= over_s:
            return
        self._curve, self._difference = self._none, self.now
        self._left_s = self._blend_s = over_s

    def clear(self) -> None:
        """Set the added feed-forward torque to zero at once, for an arm whose motors are off."""
        self.now, self._curve, self._left_s = self._nothing, self._none, 0.0

    def update(self, dt: float, t: float) -> FloatArray:
        """Return the torques (n,) [N m] to add in this cycle.

        Args:
            dt: time since the previous cycle [s].
            t: time since the start of the motion [s].
        """
        if self._curve is self._none and not self._left_s:
            return self._nothing
        self._left_s = max(0.0, self._left_s - dt)
        self.now = self._curve.at(t) + self._difference * (self._left_s / self._blend_s)
        return self.now
