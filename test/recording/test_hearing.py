"""A recorder hears a node when it knows the publishers of its topics, and they know the recorder."""

import pytest

from dynid.recording.hearing import FRESH_S, REPORTS_HEARD, TOPICS_HEARD, Hearing, unheard
from dynid.recording.messages import DiagnosticStatus, encode_diagnostics, encode_string


def report(*names: str) -> bytes:
    return encode_diagnostics(1, [DiagnosticStatus(name, 0, "", "", {}) for name in names])


@pytest.fixture
def hearing() -> Hearing:
    found = Hearing()
    assert found.matched("joint_states", 1, 0) and found.matched("reference", 1, 0)
    assert found.heard(report("hardware", "hardware line"), 0.0) and found.heard(report("executor"), 0.0)
    return found


def missing(hearing: Hearing, now_s: float = 0.5) -> list[str]:
    told = hearing.report(now_s)
    return unheard(told[TOPICS_HEARD], told[REPORTS_HEARD], ("joint_states", "reference"), ("hardware", "executor"))


def test_nothing_is_missing_once_every_topic_and_node_is_heard(hearing: Hearing) -> None:
    assert missing(hearing) == []
    assert not hearing.matched("joint_states", 2, 0) and not hearing.heard(report("executor"), 0.1), "no news"
    assert missing(hearing) == []


def test_at_first_everything_is_missing() -> None:
    hearing = Hearing()
    assert missing(hearing) == ["joint_states", "reference"]
    assert not hearing.matched("joint_states", 0, 0)


def test_a_publisher_that_is_known_may_not_know_the_recorder() -> None:
    hearing = Hearing()
    for topic in ("joint_states", "reference"):
        hearing.matched(topic, 1, 0)
    hearing.heard(report("hardware", "executive"), 0.0)
    assert missing(hearing) == ["reports of executor"]


def test_who_leaves_must_be_heard_again(hearing: Hearing) -> None:
    assert hearing.matched("reference", 0, 1)
    assert missing(hearing) == ["reference"]
    assert hearing.matched("reference", 1, 1)
    assert missing(hearing) == ["reports of hardware", "reports of executor"]
    assert hearing.heard(report("executor"), 0.1) and hearing.heard(report("hardware"), 0.1)
    assert missing(hearing) == []


@pytest.mark.parametrize("counts", [[(2, 0), (1, 1)], [(1, 1)]])
def test_who_is_replaced_must_be_heard_again(hearing: Hearing, counts: list[tuple[int, int]]) -> None:
    """The new one may be known before the old one is forgotten, or both may come as one event."""
    for publishers, departed in counts:
        hearing.matched("reference", publishers, departed)
    assert missing(hearing) == ["reports of hardware", "reports of executor"]


def test_who_is_silent_is_heard_no_more(hearing: Hearing) -> None:
    """A killed node stays known to the middleware for long."""
    hearing.heard(report("hardware"), 2.0)
    assert missing(hearing, FRESH_S) == []
    assert missing(hearing, FRESH_S + 0.1) == ["reports of executor"]
    assert missing(hearing, FRESH_S + 2.1) == ["reports of hardware", "reports of executor"]


def test_what_is_no_report_is_not_heard(hearing: Hearing) -> None:
    assert not hearing.heard(encode_string("x")[:6], 0.2)
    assert missing(hearing) == []
