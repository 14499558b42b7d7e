"""Durations of segments and times of updates: within the longest run, and without additional updates."""

import numpy as np
import pytest

from dynid.adaptive.settings import SHORTEST_SEGMENT_S, AdaptiveSettings
from dynid.commands.adaptive import chosen_settings


@pytest.mark.parametrize(
    ("moved_s", "length_s"),
    [(0.0, 3.0), (27.0, 3.0), (27.007, 2.9), (26.0, 3.0), (28.44, 1.5), (28.5, 1.5), (28.51, 0.0), (30.0, 0.0)],
)
def test_the_last_segment_uses_the_remaining_time(moved_s: float, length_s: float) -> None:
    assert AdaptiveSettings().segment_after(moved_s) == pytest.approx(length_s)


def test_no_run_exceeds_its_longest_time() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        settings = AdaptiveSettings(longest_s=random.uniform(15.0, 40.0), segment_s=random.uniform(1.6, 5.0))
        moved = 0.0
        while length := settings.segment_after(moved):
            # a stopped segment moves for less than it was planned for
            moved += length * (1.0 if random.uniform() < 0.8 else random.uniform(0.2, 1.0))
        assert settings.longest_s - SHORTEST_SEGMENT_S - 0.1 < moved <= settings.longest_s + 1e-6


def test_the_number_of_looks_follows_from_the_times() -> None:
    whole = AdaptiveSettings(longest_s=30.0, first_look_s=15.0, segment_s=3.0)
    assert whole.looks == 6 and whole.model_copy(update={"longest_s": 31.0}).looks == 7
    assert whole.model_copy(update={"first_look_s": 30.0}).looks == 1


def test_model_update_happens_once_near_its_time() -> None:
    own = AdaptiveSettings(update_times_s=(9.0, 18.0))
    assert [own.update_due(0, moved) for moved in (6.0, 8.9, 9.7)] == [False, True, True]
    assert not own.update_due(1, 9.7) and own.update_due(1, 18.2) and not own.update_due(2, 30.0)


def test_chosen_precision_scales_the_limits_of_the_run() -> None:
    usual, coarse = chosen_settings(None, None), chosen_settings(None, None, 2.0)
    assert usual == AdaptiveSettings() and coarse.inertial_share == pytest.approx(0.02)
    assert coarse.torque_share / usual.torque_share == pytest.approx(4.0)
    assert coarse.model_copy(update={"inertial_share": 0.005, "torque_share": 0.05}) == usual
