"""Somebody's hand at a simulated arm: joints that are pushed to and fro."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.errors import ConfigurationError, UnknownNameError
from dynid.robot import FloatArray, Robot


@dataclass(frozen=True)
class Push:
    """One joint, pushed with torque_nm * sin(2 pi t / period_s).

    Attributes:
        axis: which joint, from 0.
        torque_nm: amplitude [N m].
        period_s: [s].
    """

    axis: int
    torque_nm: float
    period_s: float

    @classmethod
    def parse(cls, text: str, robot: Robot) -> "Push":
        """A push as `JOINT:TORQUE_NM:PERIOD_S`.

        Raises:
            ConfigurationError: the text is not of this form, or a number makes no sense.
            UnknownNameError: the robot has no such joint.
        """
        name, *numbers = text.split(":")
        try:
            torque_nm, period_s = map(float, numbers)
        except ValueError:
            raise ConfigurationError(f"push '{text}': expected JOINT:TORQUE_NM:PERIOD_S") from None
        if not (np.isfinite(torque_nm) and 0.0 < period_s < np.inf):
            raise ConfigurationError(f"push '{text}': expected a finite torque [N m] and a period above 0 s")
        if name not in robot.joint_names:
            raise UnknownNameError("joint", name, robot.joint_names)
        return cls(robot.joint_names.index(name), torque_nm, period_s)


def pushed(pushes: Sequence[Push], time_s: float, size: int) -> FloatArray:
    """Torques of the hand on all joints at a time [s], (n,) [N m]."""
    torques = np.zeros(size)
    for push in pushes:
        torques[push.axis] += push.torque_nm * np.sin(2.0 * np.pi * time_s / push.period_s)
    return torques
