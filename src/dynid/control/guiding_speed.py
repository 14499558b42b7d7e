"""How fast a guided arm may be: from one speed on it is damped, at a higher one it must be braked and held.

Both are limits of a joint, and of the tool or another link's end, whichever is faster (`guiding_...` of safety.yaml).
"""

import numpy as np

from dynid.hardware.safety.posture import Posture
from dynid.hardware.safety.settings import SafetySettings
from dynid.robot import FloatArray, Robot


class GuidingSpeed:
    """Speeds of one arm, a cycle at a time.

    Args:
        robot: names and kinematics.
        settings: the limits.
        damping: torque per velocity that damps what is too fast, (n,) [N m s/rad].

    Attributes:
        posture: kinematics where the arm was last.
        tool_m_s: speed of the fastest link's end [m/s]; see `update_bound`.
    """

    def __init__(self, robot: Robot, settings: SafetySettings, damping: FloatArray) -> None:
        self._names, self._settings, self._damping = robot.joint_names, settings, damping
        self.posture, self.tool_m_s, self._joint_rad_s = Posture(robot), 0.0, 0.0
        self._reach = self.posture.reach()

    def update(self, q: FloatArray, dq: FloatArray) -> None:
        """Take joint angles q and velocities dq, (n,) [rad, rad/s]."""
        self.posture.place(q)
        self.tool_m_s, self._joint_rad_s = self.posture.speed(dq), float(np.abs(dq).max())

    def update_bound(self, q: FloatArray, dq: FloatArray) -> None:
        """Do as `update`, but leave an upper bound in `tool_m_s` if even that is too slow to be damped: it is cheap."""
        bound = float(self._reach @ np.abs(dq))
        if bound <= self._settings.guiding_damped_m_s:  # not of what is no number
            self.tool_m_s, self._joint_rad_s = bound, float(np.abs(dq).max())
        else:
            self.update(q, dq)

    @property
    def tool_share(self) -> float:
        """Speed of the tool, or of another link's end, over the one from which it is damped [-]."""
        return self.tool_m_s / self._settings.guiding_damped_m_s

    def damped(self, dq: FloatArray, tau: FloatArray) -> FloatArray:
        """Return torques (n,) [N m] with the damping that velocities dq (n,) [rad/s] ask for after `update`."""
        most = self._settings.guiding_damped_rad_s
        if self._joint_rad_s <= most and self.tool_share <= 1.0:
            return tau
        share = 1.0 / max(self.tool_share, 1.0)
        return np.asarray(tau - self._damping * (dq - share * np.minimum(np.maximum(dq, -most), most)))

    def excess(self, dq: FloatArray) -> str:
        """Say what is faster than a guided arm may be, at velocities dq (n,) [rad/s]; "" if nothing is."""
        settings = self._settings
        if not self.tool_m_s <= settings.guiding_stop_m_s:
            most = f"at most {settings.guiding_stop_m_s:g} m/s are allowed"
            return f"the tool or a link moved at {self.tool_m_s:.2f} m/s, {most}"
        if not self._joint_rad_s <= settings.guiding_stop_rad_s:
            joint = int(np.argmax(np.abs(dq)))
            most = f"at most {settings.guiding_stop_rad_s:g} rad/s are allowed"
            return f"{self._names[joint]} moved at {abs(dq[joint]):.2f} rad/s, {most}"
        return ""
