"""How near a controller brings the servos to switching themselves off, and how it eases a hold that would."""

import numpy as np

from dynid.hardware.safety.overload import OverloadModel
from dynid.robot import FloatArray, Robot

EASED = 0.25  # of what trips a servo: from here on a held joint is not pushed any more than its servo stands for ever
EASED_SHARE = 0.85  # of the nominal current
EASE_RAD_S = 0.1  # how fast the reference goes to where the joint stands


class ServoLoad:
    """The load of the servos by the torques that are commanded, by `OverloadModel`.

    A joint that sticks under load beside its reference is pushed for nothing: friction carries it where it stands.

    Args:
        robot: torque constants; without a motors.yaml nothing is eased.

    Attributes:
        share: how much of what trips each servo is used up, (n,).
    """

    def __init__(self, robot: Robot) -> None:
        self._model, self._constants = OverloadModel.of(robot), robot.torque_constants
        self.share = np.zeros(robot.size)
        self._light = np.full(robot.size, np.inf)
        if self._model is not None:
            self._light = EASED_SHARE * np.sqrt(self._model.nominal) * self._constants

    def add(self, tau: FloatArray, step_s: float) -> None:
        """Torques (n,) [N m] that were commanded for so long [s]."""
        if self._model is not None:
            self.share = self._model.step(self.share, tau / self._constants, step_s)

    def ease(self, posture: FloatArray, q: FloatArray, tau: FloatArray, step_s: float) -> None:
        """Lead a held posture (n,) [rad], in place, to where joints q (n,) [rad] stand that are pushed too hard.

        Args:
            posture: what is held.
            q: where the arm is.
            tau: by which torques it is held, (n,) [N m].
            step_s: time since the last call [s].
        """
        hard = (self.share > EASED) & (np.abs(tau) > self._light)
        if hard.any():
            most = EASE_RAD_S * step_s
            posture += np.where(hard, np.clip(q - posture, -most, most), 0.0)
