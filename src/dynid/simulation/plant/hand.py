"""Simulated hand of a person, which pushes single joints periodically or guides all joints along a path."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.errors import ConfigurationError, UnknownNameError
from dynid.hardware.safety.posture import Posture
from dynid.robot import FloatArray, Robot
from dynid.trajectory.motion import Motion

STIFFNESS_NM_RAD, DAMPING_NM_S_RAD = 40.0, 0.5
STALL_RAD = 0.15  # maximum stretch of the hand's spring, at which it waits until the arm yields [rad]
RELEASE_S = 0.3
GUIDED_RAD_S, GUIDED_M_S = 1.0, 0.2  # largest speeds of a guiding hand: half the speeds at which the guard stops
SAMPLE_S = 0.01


@dataclass(frozen=True)
class Push:
    """Periodic torque on one joint, torque_nm * sin(2 pi t / period_s).

    Attributes:
        axis: index of the joint, from 0.
        torque_nm: amplitude [N m].
        period_s: period [s].
    """

    axis: int
    torque_nm: float
    period_s: float

    @classmethod
    def parse(cls, text: str, robot: Robot) -> "Push":
        """Parse a push from `JOINT:TORQUE_NM:PERIOD_S`.

        Raises:
            ConfigurationError: the text has another form, or a number is invalid.
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
    """Return the sum of all periodic torques on the `size` = n joints at a time [s], (n,) [N m]."""
    torques = np.zeros(size)
    for push in pushes:
        torques[push.axis] += push.torque_nm * np.sin(2.0 * np.pi * time_s / push.period_s)
    return torques


class Lead:
    """Simulated hand that guides all joints of the arm along a path from their present posture, then releases the arm.

    The hand pulls every joint by a spring and a damper. It advances along the path only while the arm follows. So its
    torques stay limited if the arm does not yield.

    Args:
        path: motion of the hand, which is shifted so that it starts at the arm's present posture.
        wait_s: time before the hand grasps the arm [s]; until then only the motors move the arm.
        pace: speed of the hand as a fraction of the path's own speed [-].
    """

    def __init__(self, path: Motion, wait_s: float = 2.0, pace: float = 1.0) -> None:
        self._pace = pace
        self._path, self._left_s, self._time_s = path, wait_s, 0.0
        n = len(path.joint_names)
        self._from, self._none = np.zeros(n), np.zeros(n)
        self._now = np.zeros((3, n))
        self._holds = False

    @property
    def done(self) -> bool:
        """Whether the hand has released the arm."""
        return self._time_s > self._path.duration + RELEASE_S

    def torques(self, dt: float, q: FloatArray, dq: FloatArray) -> FloatArray:
        """Return the hand's joint torques for the next `dt` [s], (n,) [N m], and advance the hand by this time.

        `q` (n,) [rad] and `dq` (n,) [rad/s] are the arm's present joint positions and velocities.
        """
        self._left_s -= dt
        if self._left_s > 0.0 or self.done:
            return self._none
        if not self._holds:
            self._from, self._holds = q - self._path.start, True
        place, speed, _ = self._now
        self._path.sample_into(self._time_s, *self._now)
        away = self._from + place - q
        going = float(np.abs(away).max()) < STALL_RAD
        self._time_s += self._pace * dt * going
        pull = STIFFNESS_NM_RAD * np.clip(away, -STALL_RAD, STALL_RAD)
        return np.asarray(pull + DAMPING_NM_S_RAD * (going * self._pace * speed - dq))


def guiding_pace(robot: Robot, path: Motion) -> float:
    """Return the largest fraction of a path's speed, at most 1, at which a simulated hand may guide the arm along it.

    At this speed no joint exceeds `GUIDED_RAD_S`, and no link's end exceeds `GUIDED_M_S`.
    """
    posture, now, pace = Posture(robot), np.zeros((3, robot.size)), 1.0
    for time_s in np.arange(0.0, path.duration, SAMPLE_S):
        path.sample_into(float(time_s), *now)
        posture.place(now[0])
        fastest = max(posture.speed(now[1]) / GUIDED_M_S, float(np.abs(now[1]).max()) / GUIDED_RAD_S)
        pace = min(pace, 1.0 / max(fastest, 1.0))
    return pace
