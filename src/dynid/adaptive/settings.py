"""Settings of an adaptive identification."""

from math import ceil, floor, isfinite
from typing import Annotated

from pydantic import Field

from dynid.errors import ConfigurationError
from dynid.robot import Positive, Strict

# longest time of motion [s]: default, minimum, and default with a previous model
LONGEST_S, LEAST_S, AFTER_CHANGE_S = 30.0, 15.0, 10.0
SHORTEST_SEGMENT_S, LENGTH_STEP_S = 1.5, 0.1  # minimum length of the last segment, and its increments [s]
TIME_TOLERANCE_S = 0.01  # tolerance of times, which are not multiples of the cycle [s]

Share = Annotated[float, Field(gt=0, le=1)]


class AdaptiveSettings(Strict):
    """Limits and stopping criteria of an adaptive run.

    Attributes:
        segment_s: length of a segment, from rest to rest; the last one may be shorter [s].
        longest_s: maximum total time of motion, after which the run ends [s].
        first_look_s: time of motion before the model is judged for the first time [s].
        update_times_s: times of motion at which planning adopts the model of the recording, without judging it [s].
        inertial_share: largest half width of the interval of a link or rotor parameter, as the torque that it causes
            over the whole torque of a joint.
        friction_share: largest half width for viscous friction, likewise; only planning uses it, because the estimate
            of viscous friction depends strongly on the other friction terms.
        torque_share: largest half width of the interval of a joint's predicted torque, over the joint's torque.
        confidence: probability that all intervals hold, whenever the run stops.
        stages: shares of ranges and speeds for the first segments; the last share applies to all later segments.
        profile: profile of excitation.yaml whose limits of position, speed and acceleration are kept.
        draws: number of random starts of a segment.
        candidates: number of best starts that may be optimised, until one passes all checks.
        iterations: iterations of the first optimisation; in lock-step, only these limit planning, not a clock.
        planning_share: planning time as a share of the segment's length, for an arm that does not wait.
    """

    segment_s: Positive = 3.0
    longest_s: Positive = 30.0
    first_look_s: Positive = 15.0
    update_times_s: tuple[Positive, ...] = (9.0, 18.0)
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
        """Return settings with another limit of link and rotor parameters [%]; that of torques is scaled likewise."""
        factor = percent / 100.0 / self.inertial_share
        shares = {"inertial_share": percent / 100.0, "torque_share": factor * self.torque_share}
        return self.model_copy(update=shares)

    @property
    def looks(self) -> int:
        """Maximum number of judgements of the recording."""
        return 1 + max(0, ceil((self.longest_s - self.first_look_s) / self.segment_s - 1e-9))

    def update_due(self, updates: int, moved_s: float) -> bool:
        """Return whether the next update of the current model is due after `moved_s` [s] of motion.

        An update is due half a segment before its time, so that the nearest segment end is used. `updates` is the
        number of earlier updates.
        """
        return updates < len(self.update_times_s) and moved_s > self.update_times_s[updates] - 0.5 * self.segment_s

    def segment_after(self, moved_s: float) -> float:
        """Return the length of the segment that starts after `moved_s` [s] of motion; 0 if no time is left for one."""
        left = LENGTH_STEP_S * floor((self.longest_s - moved_s) / LENGTH_STEP_S + 1e-6)
        return min(self.segment_s, left) if left >= min(self.segment_s, SHORTEST_SEGMENT_S) else 0.0


def longest_motion(longest_s: float | None, *, after: bool) -> float:
    """Return the maximum time of motion [s], checked; None is the default, which is shorter `after` a previous model.

    Raises:
        ConfigurationError: the time is not finite, or too short for a model.
    """
    if longest_s is None:
        return AFTER_CHANGE_S if after else LONGEST_S
    least = 3.0 * AdaptiveSettings().segment_s if after else LEAST_S
    if not isfinite(longest_s) or longest_s < least:
        raise ConfigurationError(
            f"the longest motion is {longest_s:g} s; expected at least {least:g} s"
            + ("" if after else " without a model before")
        )
    return longest_s
