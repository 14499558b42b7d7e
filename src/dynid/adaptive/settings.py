"""Settings of an adaptive identification."""

from math import ceil, floor, isfinite
from typing import Annotated

from pydantic import Field

from dynid.errors import ConfigurationError
from dynid.robot import Positive, Strict

LONGEST_S, LEAST_S, AFTER_S = 30.0, 15.0, 10.0  # of motion
SHORTEST_SEGMENT_S, LENGTH_STEP_S = 1.5, 0.1  # of the last segment, for which no more time is left
SLACK_S = 0.01  # of a time: what cycles do not divide

Share = Annotated[float, Field(gt=0, le=1)]


class AdaptiveSettings(Strict):
    """What an adaptive run may do, and when it has seen enough.

    segment_s: length of a segment, from rest to rest; the last one may be shorter.
    longest_s: of motion in all; then the run ends with what there is.
    first_look_s: of motion before the model is judged for the first time.
    lessons_s: of motion after which the model in hand becomes that of all that was recorded; nothing is judged then.
    inertial_share: largest half width of the interval of a parameter of links and rotors, as the torque that it makes
        over the torque that a joint takes.
    friction_share: the same of viscous friction, by which segments are planned; it trades with the rest of friction.
    torque_share: largest half width of the interval of a joint's torques by all parameters, over their size.
    confidence: that all intervals hold, whenever the run stops.
    stages: shares of ranges and speeds of one segment after the other, until the last counts for all.
    profile: of excitation.yaml, whose limits of position, speed and acceleration are kept.
    draws: random starts of a segment.
    candidates: how many of them, the best, may be optimised, until one passes its check whole.
    iterations: of the first optimisation; they, and no clock, bound planning in lock-step.
    planning_share: of the length of a segment; an arm that does not wait gets what an optimisation has by then.
    """

    segment_s: Positive = 3.0
    longest_s: Positive = 30.0
    first_look_s: Positive = 15.0
    lessons_s: tuple[Positive, ...] = (9.0, 18.0)
    inertial_share: Positive = 0.005
    friction_share: Positive = 0.10
    torque_share: Positive = 0.05
    confidence: Share = 0.95
    stages: tuple[Share, ...] = (0.35, 0.7, 1.0)
    profile: str = "limited"
    draws: Annotated[int, Field(ge=1)] = 160
    candidates: Annotated[int, Field(ge=1)] = 3
    iterations: Annotated[int, Field(ge=1)] = 60
    planning_share: Share = 0.7

    def as_precise_as(self, percent: float) -> "AdaptiveSettings":
        """With another limit of links and rotors [%], and that of torques in proportion."""
        factor = percent / 100.0 / self.inertial_share
        shares = {"inertial_share": percent / 100.0, "torque_share": factor * self.torque_share}
        return self.model_copy(update=shares)

    @property
    def looks(self) -> int:
        """How often the model may be judged."""
        return 1 + max(0, ceil((self.longest_s - self.first_look_s) / self.segment_s - 1e-9))

    def lesson_after(self, lessons: int, moved_s: float) -> bool:
        """Whether there is one more lesson than there were, after so much motion [s], or next to it."""
        return lessons < len(self.lessons_s) and moved_s > self.lessons_s[lessons] - 0.5 * self.segment_s

    def segment_after(self, moved_s: float) -> float:
        """Length of the segment that begins after so much motion [s]; 0 where there is no time for one."""
        left = LENGTH_STEP_S * floor((self.longest_s - moved_s) / LENGTH_STEP_S + 1e-6)
        return min(self.segment_s, left) if left >= min(self.segment_s, SHORTEST_SEGMENT_S) else 0.0


def longest_motion(longest_s: float | None, *, after: bool) -> float:
    """How long an arm may move [s]; None is the usual time, which is shorter `after` a change.

    Raises:
        ConfigurationError: it is not finite, or too short for a model.
    """
    if longest_s is None:
        return AFTER_S if after else LONGEST_S
    least = 3.0 * AdaptiveSettings().segment_s if after else LEAST_S
    if not isfinite(longest_s) or longest_s < least:
        raise ConfigurationError(
            f"the longest motion is {longest_s:g} s; expected at least {least:g} s"
            + ("" if after else " without a model before")
        )
    return longest_s
