"""Words in which an arm's interlocks name who publishes."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from dynid.nodes.arm_interlocks import publishers


def node(*names: tuple[str, str]) -> Any:
    found = [SimpleNamespace(node_namespace=namespace, node_name=name) for namespace, name in names]
    return SimpleNamespace(get_publishers_info_by_topic=lambda topic: found)


def test_publishers_are_named_once_each_with_their_namespace() -> None:
    assert publishers(node(("/", "executor"), ("/left", "rqt"), ("/", "executor")), "t") == "from /executor, /left/rqt"


def test_a_publisher_whose_node_is_not_known_yet_is_told_in_words() -> None:
    unknown = ("_NODE_NAMESPACE_UNKNOWN_", "_NODE_NAME_UNKNOWN_")
    assert publishers(node(unknown, ("/", "executor")), "t") == "from /executor, a node that is still joining"


def test_a_publisher_that_is_gone_is_no_error() -> None:
    assert publishers(node(), "t") == "its publisher has left"
