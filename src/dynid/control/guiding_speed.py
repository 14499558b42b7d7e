"""Speed limits of a hand-guided arm: above the first it is damped, above the second it must be braked and held.

Both limits exist for joints and for the fastest link end, such as the tool (`guiding_...` of safety.yaml).
"""

import numpy as np

from dynid.hardware.safety.posture import Posture
from dynid.hardware.safety.settings import SafetySettings
from dynid.robot import FloatArray, Robot


class GuidingSpeed:
    """Speed monitor of one arm, called once per cycle.

    Args:
        robot: robot with names and kinematics.
        settings: the limits.
        damping: torque per excess velocity, (n,) [N m s/rad].

    Attributes:
        posture: kinematics at the last posture.
        tool_m_s: speed of the fastest link end [m/s]; see `update_bound`.
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
        """Update the speeds like `update`, but skip the kinematics if an upper bound needs no damping.

        `tool_m_s` then holds that bound, which is cheap to compute. q and dq are (n,) each [rad, rad/s].
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
        """Return torques (n,) [N m] with the damping for velocities dq (n,) [rad/s], after `update`."""
        most = self._settings.guiding_damped_rad_s
        if self._joint_rad_s <= most and self.tool_share <= 1.0:
            return tau
        share = 1.0 / max(self.tool_share, 1.0)
        return np.asarray(tau - self._damping * (dq - share * np.minimum(np.maximum(dq, -most), most)))

    def excess(self, dq: FloatArray) -> str:
        """Return a message about a speed above the stop limit, at velocities dq (n,) [rad/s]; "" if there is none."""
        settings = self._settings
        if not self.tool_m_s <= settings.guiding_stop_m_s:
            most = f"at most {settings.guiding_stop_m_s:g} m/s are allowed"
            return f"the tool or a link moved at {self.tool_m_s:.2f} m/s, {most}"
        if not self._joint_rad_s <= settings.guiding_stop_rad_s:
            joint = int(np.argmax(np.abs(dq)))
            most = f"at most {settings.guiding_stop_rad_s:g} rad/s are allowed"
            return f"{self._names[joint]} moved at {abs(dq[joint]):.2f} rad/s, {most}"
        return ""
