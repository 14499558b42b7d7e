"""A recorder hears a node when it knows the publishers of its topics, and they know the recorder."""

import pytest

from dynid.recording.hearing import REPORTS_HEARD, TOPICS_HEARD, Hearing, unheard
from dynid.recording.messages import DiagnosticStatus, encode_diagnostics, encode_string


def report(*names: str) -> bytes:
    return encode_diagnostics(1, [DiagnosticStatus(name, 0, "", "", {}) for name in names])


@pytest.fixture
def hearing() -> Hearing:
    found = Hearing()
    assert found.matched("joint_states", 1) and found.matched("reference", 1)
    assert found.heard(report("hardware", "hardware line")) and found.heard(report("executor"))
    return found


def missing(hearing: Hearing) -> list[str]:
    told = hearing.report()
    return unheard(told[TOPICS_HEARD], told[REPORTS_HEARD], ("joint_states", "reference"), ("hardware", "executor"))


def test_nothing_is_missing_once_every_topic_and_node_is_heard(hearing: Hearing) -> None:
    assert missing(hearing) == []
    assert not hearing.matched("joint_states", 2) and not hearing.heard(report("executor")), "no news"
    assert missing(hearing) == []


def test_at_first_everything_is_missing() -> None:
    hearing = Hearing()
    assert missing(hearing) == ["joint_states", "reference"]
    assert not hearing.matched("joint_states", 0)


def test_a_publisher_that_is_known_may_not_know_the_recorder() -> None:
    hearing = Hearing()
    for topic in ("joint_states", "reference"):
        hearing.matched(topic, 1)
    hearing.heard(report("hardware", "executive"))
    assert missing(hearing) == ["reports of executor"]


def test_who_leaves_must_be_heard_again(hearing: Hearing) -> None:
    assert hearing.matched("reference", 0)
    assert missing(hearing) == ["reference"]
    assert hearing.matched("reference", 1)
    assert missing(hearing) == ["reports of hardware", "reports of executor"]
    hearing.heard(report("executor"))
    hearing.heard(report("hardware"))
    assert missing(hearing) == []


def test_who_is_replaced_must_be_heard_again(hearing: Hearing) -> None:
    """The new one may be known before the old one is forgotten."""
    assert not hearing.matched("reference", 2)
    assert hearing.matched("reference", 1)
    assert missing(hearing) == ["reports of hardware", "reports of executor"]


def test_what_is_no_report_is_not_heard(hearing: Hearing) -> None:
    assert not hearing.heard(encode_string("x")[:6])
    assert missing(hearing) == []
