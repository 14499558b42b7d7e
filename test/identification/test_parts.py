"""A part of a recording is identified independently of the rest."""

from dataclasses import replace

import numpy as np
import pytest
from recordings import recorded

from dynid.errors import ConfigurationError, DataError
from dynid.identification.data.parts import Span, _cut, parts_of
from dynid.identification.methods import identify
from dynid.identification.settings import load_identification
from dynid.robot import load_robot

ROBOT = load_robot("aloha_class")
SETTINGS = load_identification(ROBOT)


def test_part_contains_and_reports_the_rows_of_its_span() -> None:
    whole = recorded(ROBOT)
    (part,) = parts_of([whole], Span(5.0, 15.0))
    signals = part.signals(SETTINGS)
    assert (signals.time[0], signals.time[-1]) == (pytest.approx(5.0), pytest.approx(14.99))
    assert len(signals.tau) == len(signals.torque_time) == len(signals.q) == 1000
    assert "only rows from 5 s until 15 s are used" in part.notes
    assert np.array_equal(signals.q, whole.signals(SETTINGS).q[500:1500])


def test_every_signal_of_a_part_has_the_rows_of_its_times() -> None:
    whole = recorded(ROBOT).signals(SETTINGS)
    full = replace(whole, goal=whole.q, dq=whole.q, q_read=whole.q)
    part = _cut(full, Span(5.0, 15.0), "log")
    rows = [value for value in vars(full) if getattr(full, value) is whole.q or value in ("time", "tau", "torque_time")]
    assert {"q", "goal", "dq", "q_read"} < set(rows)
    assert all(len(getattr(part, name)) == 1000 for name in rows)


def test_without_a_span_recordings_stay_as_they_are() -> None:
    whole = recorded(ROBOT)
    assert parts_of([whole], Span()) == [whole]
    (rest,) = parts_of([whole], Span(5.0, None))
    signals, all_signals = rest.signals(SETTINGS), whole.signals(SETTINGS)
    assert signals.time[-1] == all_signals.time[-1] and signals.torque_time[-1] == all_signals.torque_time[-1]


@pytest.mark.parametrize(
    ("span", "words"),
    [((15.0, 5.0), "ends before it begins"), ((90.0, None), "has no rows"), ((np.nan, None), "no finite bounds")],
)
def test_a_span_without_rows_is_refused(span: tuple[float, float | None], words: str) -> None:
    with pytest.raises(DataError, match=words):
        parts_of([recorded(ROBOT)], Span(*span))[0].signals(SETTINGS)


def test_a_span_belongs_to_a_regression() -> None:
    with pytest.raises(ConfigurationError, match="span belongs to method 'regression'"):
        identify(ROBOT, [recorded(ROBOT)], method="closed-loop", span=(1.0, None))
