"""Evaluation of the contact benchmark: bounds, coverage of intervals, and missed limits."""

import numpy as np
from benchmarks.contact.feel import BARS, missed
from benchmarks.contact.weighing import MASSES_KG, Weighing, weighing_figures


def weighings(factor: float) -> list[Weighing]:
    """Four hundred estimates whose deviations are `factor` times what they should be."""
    random = np.random.default_rng(3)
    errors = 0.005 * random.normal(size=400)
    return [Weighing(MASSES_KG[k % 3], MASSES_KG[k % 3] + e, 0.005 * factor, 0.01) for k, e in enumerate(errors)]


def test_interval_coverage_is_reported_with_its_uncertainty() -> None:
    honest, narrow = weighing_figures(weighings(1.0)), weighing_figures(weighings(0.4))
    low, high = honest["payload_in_90_percent_interval_share_between"]
    assert low < 0.9 < high and high - low < 0.06
    assert narrow["payload_in_90_percent_interval_share_between"][1] < 0.6
    np.testing.assert_allclose(honest["payload_rms_g"], 5.0, rtol=0.1)
    np.testing.assert_allclose(honest["payload_within_10_g_share"], 0.954, atol=0.03)


def test_bars_that_are_missed_are_named() -> None:
    good = dict.fromkeys(BARS, 0.0) | {
        "push_ratio": {"elbow": 0.4},
        "payload_in_90_percent_interval_share": 0.9,
        "force_in_90_percent_interval_share": {"moving": 0.9},
        "drawn_arms": {"payloads": 40, "payload_in_90_percent_interval_share": 0.91},
    }
    assert missed(good) == []
    for wrong, part in (
        ({"payload_error_g": 11.0}, "payload_error_g is 11"),
        ({"detect_ms": None}, "detect_ms is null"),
        ({"push_ratio": {"elbow": 0.6}}, "leads elbow"),
        ({"payload_in_90_percent_interval_share": 1.0}, "100 % of the 90 % intervals of payloads"),
        ({"force_in_90_percent_interval_share": {"still": 0.6}}, "of pulls, still"),
        ({"drawn_arms": {"payloads": 40, "payload_in_90_percent_interval_share": 0.7}}, "drawn arms"),
    ):
        (sentence,) = missed(good | wrong)
        assert part in sentence
