"""Gaps with the period of the kernel's real-time limit are attributed to it; others are not."""

import numpy as np

from dynid.recording.periodic_gaps import RealtimeLimit, throttling_gaps, throttling_sentence


def test_gaps_of_50_ms_once_a_second_are_named() -> None:
    random = np.random.default_rng(0)
    ends = np.arange(6) + 3.0 + random.normal(0.0, 0.004, 6)
    lengths = random.uniform(0.045, 0.055, 6)
    assert throttling_gaps(ends, lengths) == 6
    text = throttling_sentence(ends, lengths)
    assert "sched_rt_runtime_us" in text and "95%" in text and "6 holes of up to 50 ms" in text


def test_periods_without_a_hole_between_are_no_objection() -> None:
    assert throttling_gaps([1.0, 2.0, 5.0, 6.0], [0.05] * 4) == 4


def test_gaps_at_random_times_are_not_named() -> None:
    random = np.random.default_rng(1)
    named = sum(bool(throttling_gaps(np.sort(random.uniform(0, 20, 12)), [0.05] * 12)) for _ in range(500))
    assert named == 0


def test_periodic_gaps_of_other_lengths_are_not_named() -> None:
    ends = np.arange(8.0)
    assert throttling_gaps(ends, [0.005] * 8) == 0, "shorter ones are another program's"
    assert throttling_gaps(ends, [0.3] * 8) == 0, "longer ones are not the limit's"


def test_three_gaps_are_too_few() -> None:
    assert throttling_gaps([1.0, 2.0, 3.0], [0.05] * 3) == 0
    assert not throttling_sentence([], [])


def test_limits_of_other_systems_are_followed() -> None:
    other = RealtimeLimit(runtime_s=0.08, period_s=0.1)
    ends = np.arange(10) * 0.1
    assert throttling_gaps(ends, [0.02] * 10, other) == 10
    assert throttling_gaps(ends, [0.02] * 10) == 0
    assert throttling_gaps(ends, [0.02] * 10, RealtimeLimit(1.0, 1.0)) == 0, "there is no limit"
