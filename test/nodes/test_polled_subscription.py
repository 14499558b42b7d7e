"""A polled subscription: messages in order, with their time of receipt, and without a callback."""

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

import rclpy
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from sensor_msgs.msg import JointState

from dynid.nodes.common import NEWEST
from dynid.nodes.hardware_node import OWN_CLOCK_S, HardwareNode
from dynid.nodes.polled_subscription import PolledSubscription
from dynid.recording.messages import JointStateEncoder, header_stamp_ns

TOPIC, PATIENCE_S = "polled", 20.0


@pytest.fixture
def node() -> Iterator[Node]:
    context = rclpy.Context()
    rclpy.init(context=context)
    made = Node("polling", context=context)
    yield made
    made.destroy_node()
    rclpy.shutdown(context=context)


def wait(found: Callable[[], Any]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < end_s, "nothing arrived"
        time.sleep(0.001)


def subscribe(node: Node) -> PolledSubscription:
    return PolledSubscription(node, JointState, TOPIC, NEWEST, SubscriptionEventCallbacks())


def more(polled: PolledSubscription, found: list[int]) -> list[int]:
    """Append the stamps of what has arrived."""
    found += [header_stamp_ns(raw) for raw, _ in polled.messages()]
    return found


def message(stamp_ns: int) -> bytes:
    return JointStateEncoder(("joint_1",), fields=("effort",)).encode(stamp_ns, effort=np.zeros(1))


def test_messages_are_taken_in_order_with_their_receipt(node: Node) -> None:
    polled, publisher = subscribe(node), node.create_publisher(JointState, TOPIC, NEWEST)
    wait(publisher.get_subscription_count)
    assert list(polled.messages()) == []
    before_ns, found = time.time_ns(), list[tuple[bytes, int]]()

    def all_there() -> bool:
        found.extend(polled.messages())
        return len(found) == 3

    for stamp_ns in (1, 2, 3):
        publisher.publish(message(stamp_ns))
    wait(all_there)
    assert [header_stamp_ns(raw) for raw, _ in found] == [1, 2, 3]
    assert before_ns <= found[0][1] <= found[1][1] <= found[2][1] <= time.time_ns()
    polled.destroy()


def test_oldest_untaken_messages_are_dropped(node: Node) -> None:
    polled, publisher = subscribe(node), node.create_publisher(JointState, TOPIC, NEWEST)
    wait(publisher.get_subscription_count)
    for stamp_ns in range(NEWEST.depth + 3):
        publisher.publish(message(stamp_ns))
    found = list[int]()
    wait(lambda: NEWEST.depth + 2 in more(polled, found))
    assert found == list(range(3, NEWEST.depth + 3))
    polled.destroy()


def test_the_executor_handles_events_and_leaves_messages_to_the_poll(node: Node) -> None:
    matched = list[int]()
    events = SubscriptionEventCallbacks(matched=lambda info: matched.append(info.current_count))
    polled = PolledSubscription(node, JointState, TOPIC, NEWEST, events)
    assert not any(one.topic_name.endswith(TOPIC) for one in node.subscriptions)
    publisher = node.create_publisher(JointState, TOPIC, NEWEST)
    executor = rclpy.executors.SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    wait(lambda: executor.spin_once(timeout_sec=0.01) or matched)
    assert matched == [1]
    publisher.publish(message(7))
    found = list[int]()
    wait(lambda: executor.spin_once(timeout_sec=0.01) or more(polled, found))
    assert found == [7]
    polled.destroy()
    executor.shutdown()


def loop_at(now_s: float, offset_s: float) -> Any:
    """A loop whose arm's clock reads `now_s`, and whose timestamps are ahead of it by `offset_s`."""
    clock = SimpleNamespace(monotonic_ns=lambda: round(now_s * 1e9))
    bus = SimpleNamespace(clock=clock, monotonic_s=lambda stamp_ns: stamp_ns * 1e-9 - offset_s)
    return SimpleNamespace(arm=SimpleNamespace(bus=bus))


def command_time(stamp_s: float, age_s: float) -> float:
    received_ns = time.time_ns() - round(age_s * 1e9)
    return HardwareNode._command_time(None, loop_at(100.0, 5.0), round(stamp_s * 1e9), received_ns)  # type: ignore[arg-type]


def test_command_is_as_old_as_its_state() -> None:
    assert command_time(104.9, age_s=3.0) == pytest.approx(99.9)


@pytest.mark.parametrize("stamp_s", [0.0, 106.0, 104.9 - OWN_CLOCK_S])
def test_command_without_a_time_of_the_arm_is_as_old_as_its_receipt(stamp_s: float) -> None:
    assert command_time(stamp_s, age_s=3.0) == pytest.approx(97.0, abs=0.5)
    assert command_time(stamp_s, age_s=-1.0) == 100.0  # the wall clock was set back meanwhile
