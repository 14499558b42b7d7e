"""Interface of an arm that executes the segments of an adaptive run; a segment is a motion from rest to rest."""

from typing import Protocol

from dynid.adaptive.feedforward import Feedforward
from dynid.errors import SafetyError
from dynid.identification.data.recordings import Recording
from dynid.robot import FloatArray
from dynid.trajectory.polynomial import PolynomialTrajectory


class RefusedError(SafetyError):
    """Error for a segment that the arm's driver or executor refuses to execute because it considers it unsafe."""


class Arm(Protocol):
    """Interface of an arm that executes segments, which are motions from rest to rest.

    A real arm moves while the next segment is planned.

    Attributes:
        at: reference posture at which the arm stands between motions, (n,) [rad].
        moved_s: total duration of all segments and return motions so far [s].
        along_s: executed time of the last segment [s]; less than its duration if the arm stopped before its end.
        pauses_for_planning: whether the arm's clock stops while a segment is planned, as in a lock-step simulation.
    """

    at: FloatArray
    moved_s: float
    along_s: float
    pauses_for_planning: bool

    @property
    def load(self) -> FloatArray:
        """Used fraction of each servo's overload capacity, (n,) [-]; at 1 the servo switches itself off."""
        ...

    def begin(
        self, motion: PolynomialTrajectory, feedforward: Feedforward, tube: FloatArray, most_load: FloatArray
    ) -> None:
        """Start the execution of a segment.

        The arm stops before the segment's end if a tracking error exceeds `tube`, or if the used fraction of a servo's
        overload capacity exceeds `most_load`.

        Args:
            motion: the segment.
            feedforward: feedforward torques.
            tube: maximum tracking errors, (n,) [rad].
            most_load: maximum used fraction of each servo's overload capacity, (n,) [-].

        Raises:
            RefusedError: the driver or the executor refused the segment.
        """
        ...

    def finish(self) -> FloatArray:
        """Wait until the arm stands still; return the segment's largest tracking error of each joint, (n,) [rad]."""
        ...

    def retrace(self, motion: PolynomialTrajectory, along_s: float, feedforward: Feedforward) -> None:
        """Move the arm back to the start of a segment, along the executed part of its path.

        Args:
            motion: the segment.
            along_s: executed time of the segment [s].
            feedforward: feedforward torques.
        """
        ...

    def follow(self, motion: PolynomialTrajectory, feedforward: Feedforward, tube: FloatArray | None = None) -> None:
        """Execute a motion that does not serve the identification, such as a motion to the rest posture.

        Args:
            motion: the motion.
            feedforward: feedforward torques.
            tube: maximum tracking errors, (n,) [rad]; None does not check them.

        Raises:
            SafetyError: a tracking error exceeds `tube`.
        """
        ...

    def hold(self, feedforward: Feedforward, duration_s: float = 1.0) -> None:
        """Hold the arm still for `duration_s` [s] at its measured posture, which becomes the reference posture `at`.

        `feedforward` gives the holding torques.
        """
        ...

    def source(self, name: str) -> Recording:
        """Return the data recorded so far as a recording for the identification; `name` becomes its name."""
        ...
