"""Interlocks of an arm with two publishers of one topic, and their messages."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from std_msgs.msg import String

from dynid.errors import SafetyError
from dynid.hardware.loop.diagnostics import LOOP, STATE
from dynid.nodes.arm_interlocks import SecondSources, SinglePublisherSubscription, TorqueWatch, publishers
from dynid.nodes.common import LATCHED
from dynid.nodes.supervisor import Supervisor


def node(*names: tuple[str, str]) -> Any:
    found = [SimpleNamespace(node_namespace=namespace, node_name=name) for namespace, name in names]
    return SimpleNamespace(get_publishers_info_by_topic=lambda topic: found)


def test_publishers_are_named_once_each_with_their_namespace() -> None:
    assert publishers(node(("/", "executor"), ("/left", "rqt"), ("/", "executor")), "t") == "from /executor, /left/rqt"


def test_publisher_of_an_unknown_node_is_described() -> None:
    unknown = ("_NODE_NAMESPACE_UNKNOWN_", "_NODE_NAME_UNKNOWN_")
    assert publishers(node(unknown, ("/", "executor")), "t") == "from /executor, a node that is still joining"


def test_a_publisher_that_is_gone_is_no_error() -> None:
    assert publishers(node(), "t") == "its publisher has left"


@pytest.mark.parametrize(
    ("level", "message", "state"),
    [
        (DiagnosticStatus.OK, "stopping", "stopping"),
        (DiagnosticStatus.WARN, "stopped: no usable command for 1.0 s", "stopping"),
        (DiagnosticStatus.ERROR, "servo 2 is silent", "fault"),
    ],
)
def test_nothing_is_held_or_moved_while_the_driver_stops_the_arm(level: bytes, message: str, state: str) -> None:
    """It ignores all commands meanwhile, with or without a fault."""
    watch = TorqueWatch(SimpleNamespace(create_subscription=lambda *_: None), lambda: None)  # type: ignore[arg-type]

    def report(level: bytes, message: str, state: str) -> None:
        values = [KeyValue(key=STATE, value=state)]
        watch._on_report(
            DiagnosticArray(status=[DiagnosticStatus(name=LOOP, level=level, message=message, values=values)])
        )

    report(DiagnosticStatus.OK, "enabled", "enabled")
    watch.refuse_idle()
    report(level, message, state)
    for refuse in (watch.refuse_idle, lambda: watch.refuse_stopped("held")):
        with pytest.raises(SafetyError, match=rf"the driver stops the arm \({message}\)"):
            refuse()
    report(DiagnosticStatus.OK, "enabled", "enabled")
    watch.refuse_idle()


def test_messages_of_a_second_source_are_ignored_and_not_kept(domain: str) -> None:
    """A forger that comes and goes while nothing moves must leave no mount behind."""
    heard: list[str] = []
    found: list[str] = []
    with Supervisor() as listening, Supervisor() as others:
        driver = others.node.create_publisher(String, "settings", LATCHED)
        driver.publish(String(data="upright"))
        source = SinglePublisherSubscription(
            listening.node, String, "settings", lambda message: heard.append(message.data), LATCHED, found.append
        )
        listening.wait(lambda: heard == ["upright"], 10.0, "the driver's settings")
        forger = others.node.create_publisher(String, "settings", LATCHED)
        forger.publish(String(data="hanging"))
        listening.wait(lambda: bool(found), 10.0, "the finding")
        assert "2 publishers send settings" in source.refusal
        driver.publish(String(data="not now"))
        forger.publish(String(data="hanging"))
        others.node.destroy_publisher(forger)
        listening.wait(lambda: heard[-1] == "not now", 10.0, "what the driver has latched")
        assert "hanging" not in heard and not source.refusal


def test_short_lived_second_source_is_noticed() -> None:
    asked: list[Any] = []
    fake = SimpleNamespace(
        create_subscription=lambda *args, **more: None,
        create_timer=lambda seconds, callback: asked.append(callback),
        get_publishers_info_by_topic=lambda topic: [],
    )
    source = SinglePublisherSubscription(fake, String, "settings", asked.append, LATCHED, asked.append)
    source._note(1, 1)
    assert not asked
    source._note(1, 2)  # one came and one went
    assert asked == [source._renew]


def test_recorder_keeps_the_first_finding_until_it_is_cleared() -> None:
    sources = SecondSources(node(("/", "hardware"), ("/", "forger")))
    sources.note("joint_states", 1)
    sources.note("reference", 2)
    sources.note("joint_states", 3)
    assert sources.text.startswith("2 publishers send reference (from /forger, /hardware), and nothing says which")
    sources.note("reference", 1)
    sources.clear()
    assert sources.text.startswith("3 publishers send joint_states")
    sources.note("joint_states", 1)
    sources.clear()
    assert sources.text == ""
