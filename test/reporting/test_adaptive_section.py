"""The report's section about an adaptive run: uncertainties of its updates, drawn with the limit."""

from typing import Any

import pytest

from dynid.reporting.adaptive_section import EDGE, HEIGHT, WIDTH, adaptive_section


def history(widest: list[float | None]) -> dict[str, Any]:
    looks = [
        {
            "motion_s": 10.0 * (k + 1),
            "widest": one,
            "parameter": "XX2",
            "accepted": k > 0,
            "reason": "" if one else "few",
        }
        for k, one in enumerate(widest)
    ]
    segments = [{"expected": 8.0 / (k + 1), "planning_s": 1.0} for k in range(4)]
    return {"motion_s": 30.0, "looks": looks, "segments": segments, "end": "ended after 30.0 s of motion: it is over"}


def points(text: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in text.split())]


def test_other_results_have_no_such_section() -> None:
    assert adaptive_section(None) is None and adaptive_section({}) is None


def test_values_within_the_limit_are_below_the_line() -> None:
    found = adaptive_section(history([4.0, 1.0, 0.5]))
    assert found is not None
    (_, first), (_, second), (right, last) = points(found["points"])
    limit = float(found["limit"])
    assert second == pytest.approx(limit) and first < limit < last <= HEIGHT - EDGE and right == WIDTH - EDGE
    heights = [y for _, y in points(found["expected"])]
    assert heights == sorted(heights) and heights[0] == pytest.approx(EDGE)  # the widest is at the top
    assert [row["outcome"] for row in found["rows"]] == ["not accepted", "accepted", "accepted"]
    assert "30.0 s" in found["end"]


def test_a_look_without_a_model_has_no_point() -> None:
    found = adaptive_section(history([None, 2.0]))
    assert found is not None and len(points(found["points"])) == 1
    assert found["rows"][0]["outcome"] == "few" and found["rows"][0]["widest"] == "–"
