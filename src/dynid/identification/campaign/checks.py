"""Checks of a campaign, in the format of `dynid.identification.checks`.

DIRECT_FIT compares the result's error on held-out bags with the error of a model that was fitted to these bags.
CAMPAIGN requires a minimum fraction of feasible runs. CONTRACTION compares the scatter of the runs' parameter sets at
one sampling interval. The sets from the closed-loop refinement (CLIE) must not scatter more than the sets from ordinary
least squares (OLS).
"""

from typing import NamedTuple

import numpy as np

from dynid.identification.checks import Measured, Rule


class DirectFit(NamedTuple):
    """Relative torque errors on held-out bags, of the campaign's result and of models fitted to these bags.

    Attributes:
        result: error of the campaign's resulting model.
        direct: error of a least-squares fit to the held-out bags themselves.
        smooth: error of a least-squares fit of the base parameters alone, without additional friction parameters, to
            these bags.
    """

    result: float
    direct: float
    smooth: float

    def ratio(self) -> Measured:
        """Return the ratio of the result's error to the error of the direct fit, with an explanatory text."""
        ratio = self.result / self.direct if self.direct > 0 else np.inf
        return ratio, (
            f"relative error of a direct fit to the held-out bags {self.direct:.3g}, without friction beside "
            f"{self.smooth:.3g}"
        )


class Contraction(NamedTuple):
    """Scatter of a campaign's parameter sets at one sampling interval, after each step of the identification.

    The scatter is the trace of the covariance of the sets' principal-component scores.

    Attributes:
        interval_ms: sampling interval [ms].
        runs: number of runs at this interval.
        ols: scatter of the sets from ordinary least squares.
        sdp: scatter of the sets after the projection to models with positive-definite inertia.
        clie: scatter of the sets from the closed-loop refinement.
    """

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
