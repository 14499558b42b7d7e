"""Checks and verdicts: the side of a limit that passes, undefined values, and their texts."""

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from dynid.verdict import Check, Verdict


def check(value: Any, sense: Any = "at most", **more: Any) -> Check:
    return Check(name="it", value=value, limit=2.0, sense=sense, **more)


@pytest.mark.parametrize(
    ("sense", "below", "at", "above"),
    [("at most", True, True, False), ("at least", False, True, True), ("equals", False, True, False)],
)
def test_rule_passes_on_its_permitted_side(sense: str, below: bool, at: bool, above: bool) -> None:
    assert [check(value, sense).passed for value in (1.0, 2.0, 3.0)] == [below, at, above]
    assert not check(math.nan, sense).passed
    assert math.isnan(check(math.nan, sense).as_dict()["value"])
    assert check(math.inf, sense).passed == (sense == "at least")


def test_values_are_numbers_of_any_library_but_no_text() -> None:
    for value in (1, np.float32(1.0), np.int64(1), np.array(1.0)):
        found = check(value).value
        assert found == 1.0 and type(found) is float
    with pytest.raises(ValidationError):
        check("1.0 kg", strict=True)
    with pytest.raises(ValidationError):
        check("one")
    plain = Check(name="it", value=1.0, limit=2.0)
    assert (plain.id, plain.group, plain.sense, plain.unit, plain.detail) == ("", "", "at most", "", "")


def test_a_check_is_given_as_a_sentence_and_as_plain_values() -> None:
    assert check(1.0).sentence() == "it: 1, at most 2: passed"
    told = check(1.0, "at least", unit="rad", detail="elbow")
    assert told.sentence() == "it: 1 rad, at least 2 rad: FAILED - elbow"
    assert told.as_dict() == {
        "id": "",
        "group": "",
        "name": "it",
        "value": 1.0,
        "limit": 2.0,
        "sense": "at least",
        "unit": "rad",
        "detail": "elbow",
        "passed": False,
    }


def test_a_verdict_needs_checks_and_all_of_them_passed() -> None:
    good, bad = check(1.0), check(3.0)
    assert not Verdict(()).accepted and Verdict((good, good)).accepted and not Verdict((good, bad)).accepted
    both = Verdict((good,)) + Verdict((bad,))
    assert both.checks == (good, bad) and both.failed == (bad,) and Verdict((good,)).failed == ()
    assert both.as_dict() == {"accepted": False, "checks": [good.as_dict(), bad.as_dict()]}
    assert str(both).splitlines() == [good.sentence(), bad.sentence(), "not accepted"]
    assert str(Verdict((good,))).splitlines() == [good.sentence(), "accepted"]
