"""Interface of all joint-space motions."""

from abc import ABC, abstractmethod

import numpy as np

from dynid.errors import DataError
from dynid.robot import FloatArray
from dynid.trajectory.pieces import Pieces

Sample = tuple[FloatArray, FloatArray, FloatArray]


class Motion(ABC):
    """Interface of a motion of n axes from rest to rest; the arm rests before its start and after its end.

    Attributes:
        name: name of the motion.
        joint_names: names of the axes, (n,).
        knots: times at which the pieces of the motion begin and end, (k,) [s]; the first is 0, the last the duration.
        ends: first and last posture, (2, n) [rad].
    """

    name: str
    joint_names: tuple[str, ...]
    knots: FloatArray
    ends: FloatArray

    @property
    def duration(self) -> float:
        """Duration of the motion [s]."""
        return float(self.knots[-1])

    @property
    def start(self) -> FloatArray:
        """First posture of the motion, (n,) [rad]."""
        return np.asarray(self.ends[0])

    @property
    def end(self) -> FloatArray:
        """Last posture of the motion, (n,) [rad]."""
        return np.asarray(self.ends[1])

    @property
    @abstractmethod
    def peak_velocities(self) -> FloatArray:
        """Largest absolute velocity of each joint, (n,) [rad/s]."""

    @abstractmethod
    def pieces(self) -> Pieces:
        """Return the motion as piecewise polynomials of time, from its start to its end."""

    @abstractmethod
    def sample_into(self, t: float, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
        """Write the state of the motion at time t [s] into the buffers q [rad], dq [rad/s], ddq [rad/s^2], (n,) each.

        Only the first call allocates memory.
        """

    @abstractmethod
    def _sample_rows(self, times: FloatArray, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
        """Write the states of the motion at times (N,) [s] into q [rad], dq [rad/s] and ddq [rad/s^2], (N, n) each."""

    def sample_all(self, times: FloatArray) -> Sample:
        """Return the states q [rad], dq [rad/s] and ddq [rad/s^2] of the motion at times (N,) [s], (N, n) each.

        Raises:
            DataError: a time is not finite or `times` is not one-dimensional.
        """
        times = np.ascontiguousarray(times, dtype=np.float64)
        if times.ndim != 1 or not np.isfinite(times).all():
            raise DataError(
                f"trajectory '{self.name}': times must be finite and of shape (N,), got shape {times.shape}"
            )
        q, dq, ddq = np.empty((3, len(times), len(self.joint_names)))
        self._sample_rows(times, q, dq, ddq)
        return q, dq, ddq
