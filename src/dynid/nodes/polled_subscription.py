"""Subscription whose owner takes the messages itself, for a thread with a cycle of its own.

A subscription of an executor wakes the executor's thread for each message, and that thread then competes with the
cycle for Python's interpreter lock. A polled subscription wakes no thread of Python: messages wait in its queue.
"""

from collections.abc import Iterator
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.type_support import check_is_valid_msg_type


class PolledSubscription:
    """Subscription to serialized messages, which `messages` returns; its events are served by the node's executor.

    Args:
        node: node that owns the subscription.
        message_type: type of the messages.
        topic: name of the topic.
        quality: quality of service; its depth limits the number of waiting messages, the oldest are dropped.
        events: callbacks of the subscription's events.
    """

    def __init__(
        self, node: Node, message_type: Any, topic: str, quality: QoSProfile, events: SubscriptionEventCallbacks
    ) -> None:
        check_is_valid_msg_type(message_type)
        self._node, self._type = node, message_type
        with node.handle:
            self._handle = rclpy_implementation.Subscription(
                node.handle, message_type, topic, quality.get_c_qos_profile()
            )
        self._events = events.create_event_handlers(node.default_callback_group, self._handle, topic)
        for event in self._events:
            node.add_waitable(event)

    def messages(self) -> Iterator[tuple[bytes, int]]:
        """Take the waiting messages, the oldest first; yield each with its time of receipt on the wall clock [ns].

        Messages that the caller leaves are taken by the next call.
        """
        with self._handle:
            while (taken := self._handle.take_message(self._type, True)) is not None:
                yield taken[0], taken[1]["received_timestamp"]

    def destroy(self) -> None:
        """Destroy the subscription and its events."""
        for event in self._events:
            self._node.remove_waitable(event)
            event.destroy()
        self._handle.destroy_when_not_in_use()
