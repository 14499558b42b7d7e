"""Search for a short event that causes most of a motion's squared torque error, such as a contact or a loose plug."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynid.robot import FloatArray

SHARE = 0.5  # least share of the squared error in an event
WINDOW, SHORTEST_S = 0.05, 0.2  # length of an event over the motion's duration, and least length [s]
FEW = 100  # least number of samples for windows that are shorter than the motion


class Event(NamedTuple):
    """Short event during a motion that causes a large share of its squared torque error.

    Attributes:
        begin: start of the event on the recording's time axis [s].
        end: end of the event on the recording's time axis [s].
        share: share of the squared error of all joints.
        joint: name of the joint with the largest squared error in the event.
    """

    begin: float
    end: float
    share: float
    joint: str

    def sentence(self) -> str:
        """Return a sentence with the event's time, its share of the squared torque error, and its main joint."""
        return (
            f"{100 * self.share:.0f} % of the squared torque error lie between {self.begin:.2f} s and {self.end:.2f} "
            f"s, most of it at {self.joint}: see what happened there"
        )


def find_event(time: FloatArray, error: FloatArray, joints: Sequence[str]) -> Event | None:
    """Return the short event with the largest share of the squared torque errors; None if no share reaches `SHARE`.

    Args:
        time: times of the samples, (N,) [s].
        error: torque errors, (N, n) [N m].
        joints: names of the joints, (n,).
    """
    if len(time) < FEW:
        return None
    width = max(WINDOW * (time[-1] - time[0]), SHORTEST_S)
    squares = np.concatenate([np.zeros((1, error.shape[1])), np.cumsum(error**2, axis=0)])
    ends = np.searchsorted(time, time + width, side="right")
    held = squares[ends] - squares[:-1]
    total, place = float(squares[-1].sum()), int(np.argmax(held.sum(axis=1)))
    if total <= 0.0 or held[place].sum() < SHARE * total:
        return None
    inside = np.arange(place, ends[place])
    own = np.flatnonzero((error[inside] ** 2).sum(axis=1) > 0.01 * (error[inside] ** 2).sum(axis=1).max())
    begin, end = float(time[inside[own[0]]]), float(time[inside[own[-1]]])
    return Event(begin, end, float(held[place].sum()) / total, joints[int(np.argmax(held[place]))])
