"""Subscription whose messages are fetched by polling, for a thread with a control cycle of its own.

A subscription of an executor wakes the executor's thread for each message, and that thread then competes with the
cycle for Python's interpreter lock. A polled subscription wakes no Python thread: messages wait in its queue.
"""

from collections.abc import Iterator
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.type_support import check_is_valid_msg_type


class PolledSubscription:
    """Subscription to serialized messages, which wait until `messages` is called.

    The node's executor serves only the events of the subscription, such as a new publisher.

    Args:
        node: node that owns the subscription.
        message_type: type of the messages.
        topic: name of the topic.
        quality: quality of service. Its depth is the maximum number of waiting messages; older ones are dropped.
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
        """Yield the waiting serialized messages, the oldest first, each with its wall-clock time of receipt [ns].

        If the caller stops early, the next call yields the remaining messages.
        """
        with self._handle:
            while (taken := self._handle.take_message(self._type, True)) is not None:
                yield taken[0], taken[1]["received_timestamp"]

    def destroy(self) -> None:
        """Destroy the subscription and its event handlers."""
        for event in self._events:
            self._node.remove_waitable(event)
            event.destroy()
        self._handle.destroy_when_not_in_use()
