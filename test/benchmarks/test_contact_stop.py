"""The table "contact": one case of each kind, and a violation of each requirement."""

from dataclasses import replace

import pytest
from benchmarks.faults.contact_arm import AT_REST, CAUSES, IN_MOTION, IN_PUSH, SILENT, draw
from benchmarks.faults.contact_stop import contact_rows, touch_arm

NAME = "crane_x7"
HIT = (0.0, 6.0, 0.0)  # a harder one throws the arm off its reference, which stops it as well


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CAUSES)), ids=CAUSES)
def test_each_kind_of_case_stops_the_arm(number: int) -> None:
    found = touch_arm(NAME, draw(number))
    assert found.violations == () and found.false_stops == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (IN_MOTION, "the motion goes on"),
        (IN_PUSH, "the motion goes on"),
        (AT_REST, "a motion began while the arm was hit"),
        (SILENT, "the motion goes on"),
    ],
)
def test_missing_stop_at_contact_is_a_violation(cause: str, words: str) -> None:
    touch = replace(draw(CAUSES.index(cause)), hit=HIT)
    found = touch_arm(NAME, touch, stops=False)
    assert any(words in one for one in found.violations), found
    (row,) = contact_rows([found])
    assert row.violations == 1 and words in row.findings[0] and row.title == cause
