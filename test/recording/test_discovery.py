"""Mutual discovery of recorder and publishers."""

import pytest

from dynid.recording.completeness import MOST_REPORT_AGE_S, Discovery
from dynid.recording.messages import DiagnosticStatus, encode_diagnostics, encode_string


def report(*names: str) -> bytes:
    return encode_diagnostics(1, [DiagnosticStatus(name, 0, "", "", {}) for name in names])


def empty() -> Discovery:
    return Discovery(("joint_states", "reference"), ("hardware", "executor"))


@pytest.fixture
def discovery() -> Discovery:
    found = empty()
    assert found.matched("joint_states", 1, 0) and found.matched("reference", 1, 0)
    assert found.reported(report("hardware", "hardware line"), 0.0) and found.reported(report("executor"), 0.0)
    return found


def missing(discovery: Discovery, now_s: float = 0.5) -> list[str]:
    return discovery.unmatched(now_s)


def test_nothing_is_missing_once_every_topic_and_node_is_discovered(discovery: Discovery) -> None:
    assert missing(discovery) == []
    assert not discovery.matched("joint_states", 2, 0) and not discovery.reported(report("executor"), 0.1), "no news"
    assert missing(discovery) == []


def test_at_first_everything_is_missing() -> None:
    discovery = empty()
    assert missing(discovery) == ["joint_states", "reference"]
    assert not discovery.matched("joint_states", 0, 0)


def test_known_publisher_may_not_have_discovered_the_recorder() -> None:
    discovery = empty()
    for topic in ("joint_states", "reference"):
        discovery.matched(topic, 1, 0)
    discovery.reported(report("hardware", "executive"), 0.0)
    assert missing(discovery) == ["reports of executor"]


def test_departed_node_must_report_again(discovery: Discovery) -> None:
    assert discovery.matched("reference", 0, 1)
    assert missing(discovery) == ["reference"]
    assert discovery.matched("reference", 1, 1)
    assert missing(discovery) == ["reports of hardware", "reports of executor"]
    assert discovery.reported(report("executor"), 0.1) and discovery.reported(report("hardware"), 0.1)
    assert missing(discovery) == []


@pytest.mark.parametrize("counts", [[(2, 0), (1, 1)], [(1, 1)]])
def test_replaced_node_must_report_again(discovery: Discovery, counts: list[tuple[int, int]]) -> None:
    """The new one may be known before the old one is forgotten, or both may come as one event."""
    for publishers, departed in counts:
        discovery.matched("reference", publishers, departed)
    assert missing(discovery) == ["reports of hardware", "reports of executor"]


def test_silent_node_counts_as_missing(discovery: Discovery) -> None:
    """A killed node stays known to the middleware for long."""
    discovery.reported(report("hardware"), 2.0)
    assert missing(discovery, MOST_REPORT_AGE_S) == []
    assert missing(discovery, MOST_REPORT_AGE_S + 0.1) == ["reports of executor"]
    assert missing(discovery, MOST_REPORT_AGE_S + 2.1) == ["reports of hardware", "reports of executor"]


def test_non_reports_do_not_count(discovery: Discovery) -> None:
    assert not discovery.reported(encode_string("x")[:6], 0.2)
    assert missing(discovery) == []
