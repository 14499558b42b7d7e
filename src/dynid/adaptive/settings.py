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
    """Limits and stopping criteria of an adaptive run, which consists of segments (motions from rest to rest).

    A precision check identifies a model from the recording so far, and compares its confidence intervals with their
    limits.

    Attributes:
        segment_s: duration of a segment; the last one may be shorter [s].
        longest_s: maximum total time of motion, after which the run ends [s].
        first_look_s: time of motion before the first precision check [s].
        update_times_s: times of motion at which a model is identified from the recording to plan with it, without a
            precision check [s].
        inertial_share: limit of the half width of a link or rotor parameter's confidence interval. The limit is given
            as the torque that this half width alone causes, as a fraction of a joint's whole torque.
        friction_share: limit of the half width of a viscous friction parameter's confidence interval, expressed as a
            torque like `inertial_share`. Only planning uses it, because the estimate of viscous friction depends
            strongly on the other friction terms.
        torque_share: limit of the half width of the confidence interval of a joint's predicted torque, as a fraction of
            the joint's torque.
        confidence: probability that all intervals contain the true values, whenever the run stops.
        stages: fractions of the full ranges and speeds, one for each of the first segments; the last one applies to all
            later segments.
        profile: name of the set of limits of position, speed and acceleration in excitation.yaml that segments keep.
        draws: number of random initial guesses for the optimisation of a segment.
        candidates: maximum number of best guesses that are optimised, until one passes all checks.
        iterations: maximum number of iterations of a segment's first optimisation. A simulated arm in lock-step waits
            for the planner, so only this number limits the optimisation.
        planning_share: maximum optimisation time as a fraction of the segment's duration, for an arm that moves while
            the next segment is planned.
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
        """Return settings with the precision limit `inertial_share` of link and rotor parameters set to `percent` [%].

        The precision limit of predicted torques, `torque_share`, changes in proportion: if the limit of the parameters
        is halved, that of the torques is halved, too.
        """
        factor = percent / 100.0 / self.inertial_share
        shares = {"inertial_share": percent / 100.0, "torque_share": factor * self.torque_share}
        return self.model_copy(update=shares)

    @property
    def looks(self) -> int:
        """Number of precision checks that share the confidence (Bonferroni correction).

        Checks beyond this number cannot end the run.
        """
        return 1 + max(0, ceil((self.longest_s - self.first_look_s) / self.segment_s - 1e-9))

    def update_due(self, updates: int, moved_s: float) -> bool:
        """Return whether planning should adopt a newly identified model after `moved_s` [s] of motion.

        `updates` is the number of earlier updates, so the next one is planned for the time `update_times_s[updates]`;
        without such a time, none is due. An update is possible only at the end of a segment. It is due from half a
        segment's duration before its time on, so that it takes place at the segment end nearest to this time.
        """
        return updates < len(self.update_times_s) and moved_s > self.update_times_s[updates] - 0.5 * self.segment_s

    def segment_after(self, moved_s: float) -> float:
        """Return the duration of the next segment [s]; 0 if no time is left for one.

        Args:
            moved_s: total time of motion at the start of this segment [s].
        """
        left = LENGTH_STEP_S * floor((self.longest_s - moved_s) / LENGTH_STEP_S + 1e-6)
        return min(self.segment_s, left) if left >= min(self.segment_s, SHORTEST_SEGMENT_S) else 0.0


def longest_motion(longest_s: float | None, *, after: bool) -> float:
    """Check the requested maximum time of motion of an adaptive run, and return it or the default [s].

    Args:
        longest_s: requested time [s]; None returns the default.
        after: whether the run starts from a previous model; default and minimum are then shorter.

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
