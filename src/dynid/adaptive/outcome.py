"""Outcome of an adaptive run: segments, results of precision checks ("looks"), and the reason for the run's end."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dynid.adaptive.segment_constraints import Segment
from dynid.identification.result import Identification
from dynid.robot import FloatArray


@dataclass(frozen=True, eq=False)
class Look:
    """Result of one precision check of an adaptive run.

    A precision check identifies a model from the recording so far, and compares its confidence intervals with their
    limits.

    Attributes:
        motion_s: time of motion before the check [s].
        widest: largest ratio of a confidence interval's half width to its limit; infinite without a model.
        parameter: name of the parameter whose interval has this ratio; "torque" if it is the interval of a predicted
            torque.
        accepted: whether the identification's verdict accepted the model.
        seconds: duration of the check [s].
        reason: reason why there is no model; "" if there is one.
    """

    motion_s: float
    widest: float
    parameter: str
    accepted: bool
    seconds: float
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as a dictionary of plain values; `widest` is None if no model was identified."""
        return asdict(self) | {"widest": self.widest if np.isfinite(self.widest) else None}


@dataclass(frozen=True, eq=False)
class AdaptiveRun:
    """Outcome of an adaptive run, with its model.

    A precision check identifies a model from the recording so far, and compares its confidence intervals with their
    limits.

    Attributes:
        identification: latest identification of a precision check; None if no check gave a model.
        precise: whether the model was accepted with all confidence intervals within their limits.
        segments: executed segments, in order.
        looks: results of the precision checks, in order.
        tracking: largest tracking errors of each segment, (segments, n) [rad].
        limits: largest permitted half widths of the base parameters' confidence intervals, (p,).
        motion_s: total time of motion [s].
        stopped: number of segments that the arm stopped before their end.
        quantile: ratio of a confidence interval's half width to the standard deviation, computed for the maximum time
            of motion.
        out_of_time: whether there was no time for another segment.
    """

    identification: Identification | None
    precise: bool
    segments: tuple[Segment, ...]
    looks: tuple[Look, ...]
    tracking: FloatArray
    limits: FloatArray
    motion_s: float
    stopped: int
    quantile: float = 1.0
    out_of_time: bool = False

    @property
    def accepted(self) -> bool:
        """Whether the verdict on `identification` accepts the model; False if there is no identification."""
        return self.identification is not None and self.identification.verdict.accepted

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences about the result of every precision check, and about the reason for the end of the run."""
        return (*(look_line(look) for look in self.looks), self.end)

    @property
    def end(self) -> str:
        """Sentence that states the total time of motion, why the run ended, and whether a model was accepted."""
        why = (
            "every interval is within its limit"
            if self.precise
            else "the motion time is used up"
            if self.out_of_time
            else "no further segment is safe"
        )
        verdict = "the model is accepted" if self.accepted else "no model was accepted"
        return f"ended after {self.motion_s:.1f} s of motion: {why}; {verdict}"

    def as_dict(self) -> dict[str, Any]:
        """Return segments, precision checks, and the reason for the end of the run as a dictionary of plain values."""
        looks = [one.as_dict() for one in self.looks]
        segments = [
            {"expected": self.quantile * one.widest, "planning_s": one.seconds, "waited": one.waited}
            for one in self.segments
        ]
        return {
            "motion_s": self.motion_s,
            "accepted": self.accepted,
            "precise": self.precise,
            "end": self.end,
            "stopped_segments": self.stopped,
            "looks": looks,
            "segments": segments,
        }


def look_line(look: Look) -> str:
    """Return one line of text that describes the result of a precision check, see `Look`."""
    if look.reason:
        return f"{look.motion_s:5.1f} s  no model yet: {look.reason}"
    verdict = "accepted" if look.accepted else "not accepted"
    return f"{look.motion_s:5.1f} s  {verdict}; widest interval {look.widest:.2f} of its limit ({look.parameter})"
