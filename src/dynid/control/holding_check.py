"""Does the arm carry the gravity that a control law expects? A wrong mount or model would drive it."""

import numba
import numpy as np

from dynid.control.controller import TorqueLaw
from dynid.errors import SafetyError
from dynid.robot import FloatArray, Robot

FRICTION_SHARE = 0.05  # of the torque limit: so much friction may carry or hide
STEADY_S, STANDING_RAD_S, AVERAGE_S = 0.5, 0.05, 0.1
MODEL_ERROR = 0.5  # of the expected torque


@numba.njit(cache=True)
def _stands(dq: FloatArray, tau: FloatArray) -> bool:
    """Return whether all joints stand, dq (n,) [rad/s], and a torque is known of one, tau (n,) [N m]."""
    known = False
    for j in range(len(dq)):
        if not abs(dq[j]) < STANDING_RAD_S:
            return False
        known |= abs(tau[j]) > 0.0
    return known


class HoldingTorque:
    """What an arm that stands is held by, from its states.

    Args:
        robot: names and torque limits.
    """

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._hidden = FRICTION_SHARE * robot.torque_limits
        self._tau, self._q = np.zeros((2, robot.size))
        self._steady_s, self._last_ns = 0.0, 0

    @property
    def q(self) -> FloatArray:
        """Where the arm was last, (n,) [rad]."""
        return self._q

    def note(self, stamp_ns: int, q: FloatArray, dq: FloatArray, tau: FloatArray) -> None:
        """One state: stamp [ns], q [rad], dq [rad/s], present torque [N m], (n,) each; NaN where not measured."""
        step_s, self._last_ns = min(max((stamp_ns - self._last_ns) * 1e-9, 0.0), AVERAGE_S), stamp_ns
        standing = _stands(dq, tau)
        self._steady_s = self._steady_s + step_s if standing else 0.0
        self._tau = tau + (self._tau - tau) * np.exp(-step_s / AVERAGE_S) if self._steady_s else np.array(tau)
        self._q = q

    def refuse_contradiction(self, law: TorqueLaw, friction: FloatArray | None = None) -> None:
        """Compare with what a law would hold the arm by; passes where torque is off, or the arm moves.

        A joint that is held by nothing may lean on something, so it says nothing. `friction` (n,) [N m] is what gears
        may carry or hide by a model, where that is more than a share of the torque limit.

        Raises:
            SafetyError: a joint is held against the expected direction, or, once it has stood for a while, by a torque
                that friction and a model's error do not explain.
        """
        if not self._steady_s:
            return
        still = np.zeros(self._robot.size)
        expected, held = law.torque(self._q, still, self._q, still, still), self._tau
        hidden = self._hidden if friction is None else np.maximum(self._hidden, friction)
        apart, carries = np.abs(held - expected), np.abs(held) > hidden
        wrong = carries & (held * expected < 0.0) & (np.abs(expected) > hidden)
        if self._steady_s >= STEADY_S:
            wrong |= carries & (apart > 2.0 * hidden + MODEL_ERROR * np.abs(expected))
        if wrong.any():
            joint = int(np.argmax(np.where(wrong, apart, 0.0)))
            raise SafetyError(
                f"{self._robot.joint_names[joint]} is held by {held[joint]:.2f} N m, but {law.name} expects "
                f"{expected[joint]:.2f} N m there: check the mount in hardware_settings, the model, and what the arm "
                "carries or leans on"
            )
