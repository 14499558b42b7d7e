"""Relief of held joints: slow reduction of motor currents that push against friction, before servos overload.

After lifting, the motor of a held joint carries the load and still pushes against friction. For example, joint 4 of
CRANE-X7 then draws 1.15 A, although 0.61 A would carry the forearm. The relief decreases a holding current slowly until
it is too low to overload the servo; friction then carries the difference. A joint that slips meanwhile is held at its
new position.
"""

import numpy as np

from dynid.hardware.safety.overload import OverloadModel
from dynid.robot import FloatArray, Robot

RELIEF_SHARE = 0.9  # share of the nominal current (which never trips the servo) above which a joint yields
LAG_S = 0.1  # damping over stiffness of hold and controllers: delay with which a slipping joint follows
STANDSTILL_S, AVERAGE_S = 0.2, 0.05  # shortest standstill before a joint yields; averaging time of its current
SLIP_RAD = 0.004  # movement that counts as slipping: two and a half encoder counts


class Relief:
    """Relief of held joints: slow reduction of motor currents that push against friction and would overload the servos.

    The caller changes either the holding currents or the held positions by the results of `step`.

    Args:
        overload: overload model of the servos, with the nominal currents that never trip them.
        pace: rate of change, (n,): in [A/s] if the caller changes holding currents, in [rad/s] if it changes held
            positions.

    Attributes:
        yielding: mask of the joints that are being relieved in this cycle, (n,); joints that have slipped are excluded.
    """

    def __init__(self, overload: OverloadModel, pace: FloatArray) -> None:
        self._threshold_a, self._pace, size = RELIEF_SHARE * np.sqrt(overload.nominal), pace, len(pace)
        self._current, self._anchor, self._stood_s, self._yielded = np.zeros((4, size))
        self._slipped, self._restarting = np.zeros(size, dtype=np.bool_), True
        self.yielding = np.zeros(size, dtype=np.bool_)

    @classmethod
    def of(cls, robot: Robot, pace: float) -> "Relief | None":
        """Return a `Relief` for the joints of a robot, with the same rate `pace` [A/s or rad/s] for all joints.

        The result is None if the overload data of the servos are not known.
        """
        overload = OverloadModel.of(robot)
        return None if overload is None else cls(overload, np.full(robot.size, pace))

    def reset(self) -> None:
        """Restart the relief of all joints at the next step; call this while joints are not held, or at a new hold."""
        self._restarting = True

    def step(self, dt: float, q: FloatArray, current_a: FloatArray) -> FloatArray:
        """Return the changes of holding currents or held positions in this cycle that reduce high currents, (n,).

        The unit is A for changes of currents and rad for changes of positions, according to the rate `pace`. A joint is
        relieved if it is at rest and its current is above `RELIEF_SHARE` of the largest current that never overloads
        its servo. Its change has the opposite sign of its current. Other joints get 0.

        A joint reacts to the changes with a delay of about `LAG_S`. If the joint slips, the changes during the last
        `LAG_S` are reversed, because it has not reacted to them yet. It is then not relieved again until `reset`.

        Args:
            dt: cycle time [s].
            q: measured joint angles, (n,) [rad].
            current_a: currents that hold the joints, (n,) [A].
        """
        if self._restarting:
            self._restarting, self._anchor, self._current = False, np.array(q), np.array(current_a)
            self._stood_s[:], self._yielded[:], self._slipped[:] = 0.0, 0.0, False
        self._current += min(1.0, dt / AVERAGE_S) * (current_a - self._current)
        change = np.zeros_like(q)
        moved = np.abs(q - self._anchor) > SLIP_RAD
        if moved.any():
            slips = moved & (self._yielded != 0.0) & ~self._slipped
            returned = np.sign(self._yielded) * np.minimum(np.abs(self._yielded), LAG_S * self._pace)
            change -= np.where(slips, returned, 0.0)
            self._slipped |= slips
            self._anchor, self._stood_s = np.where(moved, q, self._anchor), np.where(moved, 0.0, self._stood_s)
        self._stood_s += dt
        self.yielding = (np.abs(self._current) > self._threshold_a) & (self._stood_s > STANDSTILL_S) & ~self._slipped
        if self.yielding.any():
            change -= np.where(self.yielding, self._pace * dt * np.sign(self._current), 0.0)
        self._yielded += change
        return change
