"""Check that the arm carries the gravity torque that a control law expects, to detect a wrong mount or model."""

import numba
import numpy as np

from dynid.control.controller import TorqueLaw
from dynid.errors import SafetyError
from dynid.robot import FloatArray, Robot

FRICTION_SHARE = 0.05  # share of the torque limit that friction may carry or hide
STEADY_S, STANDING_RAD_S, AVERAGE_S = 0.5, 0.05, 0.1
# upper limit of that share if a model predicts more friction, since the model itself may be wrong
MOST_FRICTION_SHARE = 0.2
MODEL_ERROR = 0.5  # share of the expected torque that model errors may cause


@numba.njit(cache=True)
def _stands(dq: FloatArray, tau: FloatArray) -> bool:
    """Return whether all joints stand still and at least one torque is known and not zero.

    Args:
        dq: joint velocities, (n,) [rad/s]; NaN counts as moving.
        tau: joint torques, (n,) [N m]; NaN if unknown.
    """
    known = False
    for j in range(len(dq)):
        if not abs(dq[j]) < STANDING_RAD_S:
            return False
        known |= abs(tau[j]) > 0.0
    return known


class HoldingTorque:
    """Estimate of the torque that holds an arm at rest, averaged over its measured states.

    Args:
        robot: robot with the names and torque limits of the joints.
    """

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._hidden = FRICTION_SHARE * robot.torque_limits
        self._most_hidden = MOST_FRICTION_SHARE * robot.torque_limits
        self._tau, self._q = np.zeros((2, robot.size))
        self._steady_s, self._last_ns = 0.0, 0

    @property
    def q(self) -> FloatArray:
        """Measured posture in the newest state, (n,) [rad]."""
        return self._q

    def note(self, stamp_ns: int, q: FloatArray, dq: FloatArray, tau: FloatArray) -> None:
        """Add one measured state to the estimate of the holding torque.

        Args:
            stamp_ns: timestamp of the state [ns].
            q: positions, (n,) [rad].
            dq: velocities, (n,) [rad/s]; NaN if not measured.
            tau: torques, (n,) [N m]; NaN if not measured.
        """
        step_s, self._last_ns = min(max((stamp_ns - self._last_ns) * 1e-9, 0.0), AVERAGE_S), stamp_ns
        standing = _stands(dq, tau)
        self._steady_s = self._steady_s + step_s if standing else 0.0
        self._tau = tau + (self._tau - tau) * np.exp(-step_s / AVERAGE_S) if self._steady_s else np.array(tau)
        self._q = q

    def refuse_contradiction(self, law: TorqueLaw, friction: FloatArray | None = None) -> None:
        """Raise SafetyError if the torque that holds the arm at rest contradicts the torque that a law expects.

        Nothing is checked if the arm moves, or if all measured torques are zero or unknown, as with torque switched
        off. A joint is not checked if its measured torque is so small that friction alone could cause it: an obstacle
        may carry the joint's load.

        Args:
            law: the law that would hold the arm.
            friction: largest torque of static friction that a model predicts, (n,) [N m]. It is clipped to at least
                `FRICTION_SHARE` and at most `MOST_FRICTION_SHARE` times the torque limit. None means `FRICTION_SHARE`
                times this limit.

        Raises:
            SafetyError: the measured torque of a joint has the opposite direction to the expected one, and both exceed
                that of friction; or, once the arm has been at rest for `STEADY_S`, friction and model error do not
                explain the difference between them.
        """
        if not self._steady_s:
            return
        still = np.zeros(self._robot.size)
        expected, held = law.torque(self._q, still, self._q, still, still), self._tau
        hidden = self._hidden
        if friction is not None:
            hidden = np.minimum(np.maximum(hidden, friction), self._most_hidden)
        apart, carries = np.abs(held - expected), np.abs(held) > hidden
        wrong = carries & (held * expected < 0.0) & (np.abs(expected) > hidden)
        if self._steady_s >= STEADY_S:
            wrong |= carries & (apart > 2.0 * hidden + MODEL_ERROR * np.abs(expected))
        if wrong.any():
            joint = int(np.argmax(np.where(wrong, apart, 0.0)))
            raise SafetyError(
                f"{self._robot.joint_names[joint]} is held by {held[joint]:.2f} N m, but {law.name} expects "
                f"{expected[joint]:.2f} N m there: check the mount in hardware_settings, the model, the payload, and "
                "whether the arm leans on something"
            )
