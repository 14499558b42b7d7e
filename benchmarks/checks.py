"""The checks of campaign and demo, made like those of `dynid.identification.checks`.

DIRECT_FIT                 held-out bags against a fit to themselves
CAMPAIGN, CONTRACTION      all runs of a campaign; its cloud at one sampling interval
RECORDED, PUBLISHED, GAIN, AT_REST   what the demo measures besides
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dynid.identification.checks import Measured, Rule
from dynid.recording.completeness import Completeness


class DirectFit(NamedTuple):
    """Relative errors on held-out bags: of the result, of a fit to these bags, and of one without friction."""

    result: float
    direct: float
    smooth: float

    def ratio(self) -> Measured:
        """The result's error over the least that is possible."""
        ratio = self.result / self.direct if self.direct > 0 else np.inf
        return ratio, (
            f"relative error of a direct fit to the held-out bags {self.direct:.3g}, without friction beside "
            f"{self.smooth:.3g}"
        )


class Contraction(NamedTuple):
    """Traces of the covariances of a campaign's sets by stage, at one sampling interval, and of how many runs."""

    interval_ms: float
    runs: int
    ols: float
    sdp: float
    clie: float


BEYOND_DIRECT_FIT = "held-out torque error / error of a direct fit"
DIRECT_FIT = (Rule[DirectFit]("torque_error_over_direct_fit", "Prediction", BEYOND_DIRECT_FIT, DirectFit.ratio, 1.05),)
CAMPAIGN: tuple[Rule[float], ...] = (
    Rule("feasible_runs", "Campaign", "share of feasible runs", lambda share: share, 150 / 160, "at least"),
)
CONTRACTION: tuple[Rule[Contraction], ...] = (
    Rule(
        "cloud_contraction",
        "Campaign",
        "spread of CLIE at {0.interval_ms:g} ms (limit: spread of OLS)",
        lambda one: (one.clie, f"trace of the covariance of {one.runs} sets; SDP {one.sdp:.3g}"),
        lambda one: one.ols,
    ),
)
RECORDED: tuple[Rule[Completeness], ...] = (
    Rule("lost_states", "Data", "states published but not in the bag", lambda found: found.lost, 0.0),
    Rule(
        "missed_cycles_of_driver",
        "Data",
        "missed cycles of the driver",
        lambda found: (100 * found.missed_fraction, f"of {found.published + found.missed}"),
        0.1,
        unit="%",
    ),
)


class Published(NamedTuple):
    """The published model against the files: whether hash and acceptance agree, and by how much the rest differs.

    Attributes:
        matching: hash and acceptance are those of model.yaml.
        difference, number: largest difference of a parameter, NaN where one was never set, and how many there are.
        topic_nm, file_nm: largest torque differences of the published URDF and of model.urdf [N m].
    """

    matching: bool
    difference: float
    number: int
    topic_nm: float
    file_nm: float


PUBLISHED: tuple[Rule[Published], ...] = (
    Rule(
        "published_hash",
        "Chain",
        "published hash and acceptance match model.yaml",
        lambda found: found.matching,
        1.0,
        "equals",
    ),
    Rule(
        "published_parameters",
        "Chain",
        "published parameters against model.yaml, {0.number} values",
        lambda found: found.difference,
        0.0,
    ),
    Rule("published_urdf", "Chain", "published URDF against the model", lambda one: one.topic_nm, 1e-6, unit="N m"),
    Rule("written_urdf", "Chain", "model.urdf against the model", lambda one: one.file_nm, 1e-6, unit="N m"),
)


def tracking_ratio(rms: Sequence[float]) -> Measured:
    """Tracking with the model over tracking without, RMS errors in degrees; NaN where it was not put to use."""
    if len(rms) < 2:
        return float("nan"), "the executor has no accepted model"
    return rms[1] / rms[0], f"{rms[1]:.3f} deg RMS with computed torque, {rms[0]:.3f} deg with FF+PD"


TRACKING = "tracking error, computed torque / FF+PD"
GAIN: tuple[Rule[Sequence[float]], ...] = (Rule("tracking_gain", "Chain", TRACKING, tracking_ratio, 0.5),)
AT_REST: tuple[Rule[Mapping[str, list[float]]], ...] = (
    Rule("torque_at_end", "Chain", "servos with torque on at the end", lambda end: sum(end["torque_enabled"]), 0.0),
    Rule(
        "current_at_end",
        "Chain",
        "largest goal current at the end",
        lambda end: max(map(abs, end["goal_current_a"])),
        0.0,
        unit="A",
    ),
)
