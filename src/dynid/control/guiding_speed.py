"""Speed limits of a hand-guided arm, which is damped above a first limit, and braked and held above a second limit.

Both limits exist for joints and for the fastest link end, such as the tool (`guiding_...` of safety.yaml).
"""

import numpy as np

from dynid.hardware.safety.posture import Posture
from dynid.hardware.safety.settings import SafetySettings
from dynid.robot import FloatArray, Robot


class GuidingSpeed:
    """Speed monitor of one hand-guided arm, called once per cycle.

    Args:
        robot: robot with names and kinematics.
        settings: settings of safety.yaml with the speed limits.
        damping: damping torque per velocity in excess of the limit, (n,) [N m s/rad].

    Attributes:
        posture: kinematics at the last posture.
        tool_m_s: speed of the fastest link end, or an upper bound of it after `update_bound` [m/s].
    """

    def __init__(self, robot: Robot, settings: SafetySettings, damping: FloatArray) -> None:
        self._names, self._settings, self._damping = robot.joint_names, settings, damping
        self.posture, self.tool_m_s, self._joint_rad_s = Posture(robot), 0.0, 0.0
        self._reach = self.posture.reach()

    def update(self, q: FloatArray, dq: FloatArray) -> None:
        """Update joint and tool speeds from joint angles q and velocities dq, (n,) [rad, rad/s]."""
        self.posture.place(q)
        self.tool_m_s, self._joint_rad_s = self.posture.speed(dq), float(np.abs(dq).max())

    def update_bound(self, q: FloatArray, dq: FloatArray) -> None:
        """Update joint and tool speeds; if an upper bound of the tool speed is low enough, use it as the tool speed.

        The bound is cheap, because it needs no kinematics. If it is at most the speed at which damping starts,
        `tool_m_s` is set to the bound; otherwise `tool_m_s` is computed as by `update`.

        Args:
            q: joint angles, (n,) [rad].
            dq: joint velocities, (n,) [rad/s].
        """
        bound = float(self._reach @ np.abs(dq))
        if bound <= self._settings.guiding_damped_m_s:  # false for NaN
            self.tool_m_s, self._joint_rad_s = bound, float(np.abs(dq).max())
        else:
            self.update(q, dq)

    @property
    def tool_share(self) -> float:
        """Speed of the fastest link end divided by the speed at which damping starts [-]."""
        return self.tool_m_s / self._settings.guiding_damped_m_s

    def damped(self, dq: FloatArray, tau: FloatArray) -> FloatArray:
        """Return torques (n,) [N m] with added damping of the velocity in excess of the damping limits.

        Call it after `update` or `update_bound`. Below the limits the torques are returned unchanged.

        Args:
            dq: joint velocities, (n,) [rad/s].
            tau: torques without damping, (n,) [N m].
        """
        most = self._settings.guiding_damped_rad_s
        if self._joint_rad_s <= most and self.tool_share <= 1.0:
            return tau
        share = 1.0 / max(self.tool_share, 1.0)
        return np.asarray(tau - self._damping * (dq - share * np.minimum(np.maximum(dq, -most), most)))

    def excess(self, dq: FloatArray) -> str:
        """Return an error message if the tool or a joint is faster than the stop limit, or "".

        Call it after `update` or `update_bound`.

        Args:
            dq: joint velocities, (n,) [rad/s].
        """
        settings = self._settings
        if not self.tool_m_s <= settings.guiding_stop_m_s:
            most = f"at most {settings.guiding_stop_m_s:g} m/s are allowed"
            return f"the tool or a link moved at {self.tool_m_s:.2f} m/s, {most}"
        if not self._joint_rad_s <= settings.guiding_stop_rad_s:
            joint = int(np.argmax(np.abs(dq)))
            most = f"at most {settings.guiding_stop_rad_s:g} rad/s are allowed"
            return f"{self._names[joint]} moved at {abs(dq[joint]):.2f} rad/s, {most}"
        return ""
