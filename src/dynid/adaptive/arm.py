"""Interface of an arm that executes the segments of an adaptive run."""

from typing import Protocol

from dynid.adaptive.feedforward import Feedforward
from dynid.errors import SafetyError
from dynid.identification.data.recordings import Recording
from dynid.robot import FloatArray
from dynid.trajectory.polynomial import PolynomialTrajectory


class RefusedError(SafetyError):
    """A segment was refused, because the arm's driver or executor considers it unsafe."""


class Arm(Protocol):
    """Executor of segments; a real arm moves between `begin` and `finish` while the next segment is planned.

    Attributes:
        at: posture at rest, (n,) [rad].
        moved_s: total time of motion [s].
        along_s: time that the last segment lasted [s].
        pauses_for_planning: whether its time stops while a segment is planned, as in lock-step.
    """

    at: FloatArray
    moved_s: float
    along_s: float
    pauses_for_planning: bool

    @property
    def load(self) -> FloatArray:
        """Used share of each servo's overload limit, at which it switches itself off, (n,)."""
        ...

    def begin(
        self, motion: PolynomialTrajectory, feedforward: Feedforward, tube: FloatArray, most_load: FloatArray
    ) -> None:
        """Start a segment, which stops if a joint's tracking error exceeds the tube (n,) [rad].

        It also stops if a servo uses more than `most_load` (n,) of its overload limit.

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
            SafetyError: a joint leaves the tube (n,) [rad].
        """
        ...

    def hold(self, feedforward: Feedforward, duration_s: float = 1.0) -> None:
        """Stand still for `duration_s` [s]."""
        ...

    def source(self, name: str) -> Recording:
        """Return the recording so far as input of the identification."""
        ...
