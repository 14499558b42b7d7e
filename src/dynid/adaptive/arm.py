"""What carries out the segments of an adaptive run."""

from typing import Protocol

from dynid.adaptive.feed import Feed
from dynid.errors import SafetyError
from dynid.identification.data.sources import Source
from dynid.robot import FloatArray
from dynid.trajectory.polynomial import PolynomialTrajectory


class RefusedError(SafetyError):
    """The arm does not take a segment: what drives it finds it unsafe."""


class Arm(Protocol):
    """What carries out segments: a real arm moves between `begin` and `finish`, while the next one is planned.

    Attributes:
        at: where it stands, (n,) [rad].
        moved_s: of motion so far.
        along_s: how far along the last segment it came [s].
        waits: whether its time stands still while a segment is planned, as in lock-step.
    """

    at: FloatArray
    moved_s: float
    along_s: float
    waits: bool

    @property
    def load(self) -> FloatArray:
        """What is used up of what makes its servos switch themselves off, (n,)."""
        ...

    def begin(self, motion: PolynomialTrajectory, feed: Feed, tube: FloatArray, most_load: FloatArray) -> None:
        """Begin a segment, which stops where a joint is off by more than the tube (n,) [rad].

        It also stops where a servo uses up more than `most_load` (n,) of what makes it switch itself off.

        Raises:
            RefusedError: it does not begin.
        """
        ...

    def finish(self) -> FloatArray:
        """Wait until the arm stands; the largest tracking errors of the segment, (n,) [rad]."""
        ...

    def back(self, motion: PolynomialTrajectory, along_s: float, feed: Feed) -> None:
        """Go back to the start of a segment, of which so much was carried out [s]."""
        ...

    def go(self, motion: PolynomialTrajectory, feed: Feed, tube: FloatArray | None = None) -> None:
        """Follow a motion that identification does not need; SafetyError where a joint leaves the tube (n,) [rad]."""
        ...

    def hold(self, feed: Feed, duration_s: float = 1.0) -> None:
        """Stand still for a time [s]."""
        ...

    def source(self, name: str) -> Source:
        """All that was recorded so far."""
        ...
