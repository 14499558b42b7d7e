"""Report section on an adaptive run: decrease of the model's uncertainty over time, and reason for its end.

In an adaptive run the model is identified while the arm moves, and each motion segment is planned to reduce the
remaining uncertainty.
"""

from math import log
from typing import Any

WIDTH, HEIGHT, EDGE = 520.0, 200.0, 26.0
AXIS_MINIMUM = 0.25  # lower end of the vertical axis, as a multiple of the limit


def adaptive_section(history: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the report's data on an adaptive run; None if there was no such run.

    Args:
        history: the result of `AdaptiveRun.as_dict()`.

    Returns:
        A dictionary with these entries. The ratio is the largest ratio of a confidence interval's half width to the
        limit required for it, over the model's base parameters and predicted torques. Curves and heights are
        coordinates in an SVG drawing; a curve is the text of a polyline's points:

        - end: reason why the run ended.
        - rows: for each check of the model during the run, a dictionary of texts: time, ratio ("widest"), parameter
          with this ratio, and outcome.
        - points: curve of the ratio at the checks, over the time of motion, on a logarithmic axis.
        - expected: curve of the ratios that the planner expected after each segment. The segments are evenly spaced
          over the time axis.
        - dots: the points of the curve `points` again, as pairs of coordinates, to mark each point by a dot.
        - limit: height of the ratio 1, at which the interval equals its limit.
        - last_s: right end of the time axis [s].
        - most: ratio at the upper end of the vertical axis.
    """
    if not history:
        return None
    looks = history["looks"]
    seen = [(look["motion_s"], look["widest"]) for look in looks if look["widest"]]
    last = max([history["motion_s"], *(time for time, _ in seen)])
    count = max(1, len(history["segments"]))
    planned = [(last * (k + 1) / count, one["expected"]) for k, one in enumerate(history["segments"])]
    most = max([2.0, *(widest for _, widest in (*seen, *planned))])

    def height(widest: float) -> float:
        share = log(max(widest, AXIS_MINIMUM) / AXIS_MINIMUM) / log(most / AXIS_MINIMUM)
        return HEIGHT - EDGE - share * (HEIGHT - 2.0 * EDGE)

    points, expected = (
        [(EDGE + (WIDTH - 2.0 * EDGE) * time / last, height(widest)) for time, widest in own] for own in (seen, planned)
    )
    rows = [
        {
            "time": f"{look['motion_s']:.1f} s",
            "widest": f"{look['widest']:.2f}" if look["widest"] else "–",
            "parameter": look["parameter"],
            "outcome": look["reason"] or ("accepted" if look["accepted"] else "not accepted"),
        }
        for look in looks
    ]
    return {
        "end": history["end"],
        "rows": rows,
        "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
        "expected": " ".join(f"{x:.1f},{y:.1f}" for x, y in expected),
        "dots": [(f"{x:.1f}", f"{y:.1f}") for x, y in points],
        "limit": f"{height(1.0):.1f}",
        "last_s": f"{last:.0f}",
        "most": f"{most:.2g}",
    }
