"""Limits on the bytes and rate of one topic."""

import pytest

from dynid.recording.topic_budget import ARM_LIMITS, TopicBudget, TopicLimits

LIMITS = TopicLimits(depth=1, largest=100, bytes_per_s=50.0, messages_per_s=2.0, burst_s=4.0)


@pytest.mark.parametrize(("size", "taken"), [(10, 8), (50, 4), (100, 2), (101, 0)])
def test_burst_is_accepted_and_the_rest_refused(size: int, taken: int) -> None:
    budget = TopicBudget(LIMITS)
    assert [budget.take(size, 5.0) for _ in range(20)] == [True] * taken + [False] * (20 - taken)
    assert budget.refused == 20 - taken and budget.exceeded


def test_budget_refills_with_time_up_to_its_limit() -> None:
    budget = TopicBudget(LIMITS)
    assert sum(budget.take(10, 0.0) for _ in range(20)) == 8
    assert sum(budget.take(10, 1.0) for _ in range(20)) == 2
    assert sum(budget.take(10, 1000.0) for _ in range(20)) == 8
    assert not budget.take(10, 0.0)  # a clock that steps back gives nothing


def test_an_arms_states_are_limited_in_size_alone() -> None:
    budget = TopicBudget(ARM_LIMITS)
    assert all(budget.take(600, 0.0) for _ in range(100_000)) and not budget.take(2**17, 0.0)
