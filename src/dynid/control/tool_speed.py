"""Speed of the tool and of the other links' ends along a planned motion, kept below `tool_limit_m_s` of safety.yaml."""

import numpy as np

from dynid.hardware.safety.posture import Posture
from dynid.robot import FloatArray, Robot
from dynid.trajectory.motion import Motion

TOOL_SHARE = 0.85  # share of the limit for a planned motion; the rest is for tracking errors and noise of velocities
SAMPLE_S = 0.01  # time between samples [s]; a link's end changes its speed by a few cm/s within it
SLOWER = 0.98  # ratio of the next pace to the one that would just keep the limit, so that few attempts suffice
ATTEMPTS = 20  # most attempts to find a pace: on a short way, a lower pace lowers the peak speed by less


class ToolSpeed:
    """Speed of the fastest link end, such as the tool, along motions, computed as in the driver's safety guard.

    Args:
        robot: robot with URDF and tool.
        limit_m_s: `tool_limit_m_s` of safety.yaml [m/s].

    Attributes:
        allowed_m_s: highest permitted speed of a link end in a planned motion, `TOOL_SHARE` of the limit [m/s]. The
            rest of the limit is reserved for tracking errors and noise.
    """

    def __init__(self, robot: Robot, limit_m_s: float) -> None:
        self._posture, self.limit_m_s, self.allowed_m_s = Posture(robot), limit_m_s, TOOL_SHARE * limit_m_s

    def along(self, motion: Motion) -> tuple[FloatArray, FloatArray]:
        """Return sample times of a motion [s], and the speeds of its fastest link end at them [m/s], (N,) each."""
        times = np.linspace(0.0, motion.duration, 1 + int(np.ceil(motion.duration / SAMPLE_S)))
        q, dq, _ = motion.sample_all(times)
        found = np.empty(len(times))
        for k in range(len(times)):
            self._posture.place(q[k])
            found[k] = self._posture.speed(dq[k])
        return times, found
