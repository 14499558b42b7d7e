"""Statistics of the tracking errors of a motion."""

from dataclasses import dataclass

import numpy as np

from dynid.control.motion_kernels import add_error
from dynid.robot import FloatArray, read_only


@dataclass(frozen=True, eq=False)
class Tracking:
    """Tracking errors of a motion.

    Attributes:
        rms: root mean square of each joint's error, (n,) [rad].
        largest: largest absolute error of each joint, (n,) [rad].
        states: number of states from which the errors were computed.
    """

    rms: FloatArray
    largest: FloatArray
    states: int

    def summary(self, joint_names: tuple[str, ...]) -> dict[str, float | int | str]:
        """Return a dictionary of the errors [deg]: RMS over all joints, and the largest error with its joint's name."""
        if not self.states:
            return {"states": 0}
        worst = int(np.argmax(self.largest))
        return {
            "states": self.states,
            "rms_deg": float(np.rad2deg(np.sqrt(np.mean(self.rms**2)))),
            "largest_deg": float(np.rad2deg(self.largest[worst])),
            "largest_at": joint_names[worst],
        }


class TrackingMeter:
    """Accumulator of tracking errors.

    Args:
        size: number of joints n.
    """

    def __init__(self, size: int) -> None:
        self._squares, self._largest, self._states = np.zeros(size), np.zeros(size), 0
        self.add(np.zeros(size), np.zeros(size))  # compile now, not in a motion
        self.clear()

    def clear(self) -> None:
        """Discard all tracking errors accumulated so far."""
        self._squares[:], self._largest[:], self._states = 0.0, 0.0, 0

    def add(self, error: FloatArray, tolerance: FloatArray) -> bool:
        """Add the tracking errors of one state; return whether the error of a joint exceeds its tolerance.

        Args:
            error: tracking errors, (n,) [rad].
            tolerance: largest permitted absolute errors, (n,) [rad].
        """
        self._states += 1
        beyond: bool = add_error(error, tolerance, self._squares, self._largest)
        return beyond

    def result(self) -> Tracking:
        """Return the statistics of the tracking errors accumulated so far."""
        return Tracking(
            read_only(np.sqrt(self._squares / max(self._states, 1))), read_only(self._largest), self._states
        )
