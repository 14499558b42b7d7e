"""Interface of an arm that executes the segments of an adaptive run."""

from typing import Protocol

from dynid.adaptive.feedforward import Feedforward
from dynid.errors import SafetyError
from dynid.identification.data.recordings import Recording
from dynid.robot import FloatArray
from dynid.trajectory.polynomial import PolynomialTrajectory


class RefusedError(SafetyError):
    """Refusal of a segment that the arm's driver or executor considers unsafe."""


class Arm(Protocol):
    """Interface of an arm that executes segments; a real arm moves while the next segment is planned.

    Attributes:
        at: posture at rest, (n,) [rad].
        moved_s: total time of motion [s].
        along_s: executed time of the last segment [s]; less than its duration if the arm stopped on the way.
        pauses_for_planning: whether the arm's clock stops while a segment is planned, as in lock-step.
    """

    at: FloatArray
    moved_s: float
    along_s: float
    pauses_for_planning: bool

    @property
    def load(self) -> FloatArray:
        """Overload state of each servo as a share of its limit, (n,) [-]; at 1 the servo switches itself off."""
        ...

    def begin(
        self, motion: PolynomialTrajectory, feedforward: Feedforward, tube: FloatArray, most_load: FloatArray
    ) -> None:
        """Start a segment; the arm stops on the way if a tracking error exceeds `tube` (n,) [rad].

        The arm also stops if a servo uses more than the share `most_load` (n,) of its overload limit.

        Raises:
            RefusedError: the segment was refused.
        """
        ...

    def finish(self) -> FloatArray:
        """Wait until the arm stands; return the largest tracking errors of the segment, (n,) [rad]."""
        ...

    def retrace(self, motion: PolynomialTrajectory, along_s: float, feedforward: Feedforward) -> None:
        """Return to the start of a segment that was executed for `along_s` [s]."""
        ...

    def follow(self, motion: PolynomialTrajectory, feedforward: Feedforward, tube: FloatArray | None = None) -> None:
        """Follow a motion that is not part of the identification.

        Raises:
            SafetyError: a tracking error exceeds `tube` (n,) [rad].
        """
        ...

    def hold(self, feedforward: Feedforward, duration_s: float = 1.0) -> None:
        """Stand still for `duration_s` [s]."""
        ...

    def source(self, name: str) -> Recording:
        """Return the recording so far as input of the identification."""
        ...
