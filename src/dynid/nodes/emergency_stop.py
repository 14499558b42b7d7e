"""Emergency stop on a topic, which only the publisher that pressed it can release.

rclpy does not report which publisher sent a message. So `true` counts as pressed by every publisher present on the
topic at that moment. `false` counts only if a publisher has been the only one on the topic for at least a second.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from std_msgs.msg import Bool

from dynid.nodes.arm_interlocks import publishers
from dynid.nodes.common import LATCHED

ESTOP_TOPIC = "estop"
# Quality of service of each subscription. One that requests latched or reliable messages does not match a publisher
# that does not offer them, but an emergency stop must arrive from any publisher. The last matches every publisher.
QUALITIES = (
    LATCHED,
    *(
        QoSProfile(
            history=HistoryPolicy.KEEP_LAST, depth=10, reliability=reliability, durability=DurabilityPolicy.VOLATILE
        )
        for reliability in (ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT)
    ),
)
DELIVERY_S = 1.0  # time in which the last message of a publisher that has left is delivered [s]
CHECK_PERIOD_S = 0.25
REPEATED_S = 0.5  # time within which the other subscriptions receive the same message [s]


class PressedPublishers:
    """Record of publishers that may have pressed the emergency stop and have not released it.

    Attributes:
        pressed: identifiers of publishers still present that may have pressed.
        unknown: whether the stop may have been pressed by a publisher that has left, or that was never identified.
        present: identifiers of the publishers at the last check.
    """

    def __init__(self) -> None:
        self.pressed: set[bytes] = set()
        self.unknown = False
        self.present: frozenset[bytes] = frozenset()
        self._matched, self._alone_since_s = 0, float("inf")
        self._repeats: set[int] = set()  # subscriptions that have not received the last `true` yet
        self._pressed_s = float("-inf")

    @property
    def active(self) -> bool:
        """Whether the emergency stop is pressed."""
        return bool(self.pressed) or self.unknown

    def update_publishers(self, present: frozenset[bytes], matched: int, now_s: float) -> None:
        """Update the publishers of the topic.

        Args:
            present: identifiers of the publishers that are present.
            matched: number of publishers from which the middleware receives messages. It exceeds the length of
                `present` while the identifier of a new publisher is not known yet.
            now_s: monotonic time of this check [s].
        """
        alone = len(present) == 1 and matched <= 1
        if not alone:
            self._alone_since_s = float("inf")
        elif present != self.present or self._alone_since_s > now_s:
            self._alone_since_s = now_s
        self.present, self._matched = present, matched
        if self.pressed - present:
            self.pressed &= present
            self.unknown = True

    def has_sole_publisher(self, now_s: float) -> bool:
        """Return whether one publisher has been alone on the topic for at least `DELIVERY_S`.

        Every message that arrives now must then come from this publisher. `now_s` is the monotonic time [s].
        """
        return now_s - self._alone_since_s >= DELIVERY_S

    def press(self, subscription: int, now_s: float) -> None:
        """Process a message `true`: all publishers that are present count as pressed, since any may have sent it.

        Each quality of service in `QUALITIES` has a subscription, so the same message may arrive several times.
        Repeated arrivals are ignored: publishers that have joined since the first arrival did not send the message.

        Args:
            subscription: index of the subscription in `QUALITIES` that received the message.
            now_s: monotonic time of the receipt [s].
        """
        if subscription in self._repeats and now_s - self._pressed_s <= REPEATED_S:
            self._repeats.discard(subscription)
            return
        self._repeats, self._pressed_s = set(range(len(QUALITIES))) - {subscription}, now_s
        self.pressed |= self.present
        self.unknown |= not self.present or self._matched > len(self.present)

    def release(self, now_s: float) -> bool:
        """Process a message `false` at the monotonic time `now_s` [s]; return whether it counts as a release.

        The message counts only if the topic's present publisher has been alone on the topic for at least `DELIVERY_S`.
        """
        if self.has_sole_publisher(now_s):
            self.pressed -= self.present
            return True
        return False


class EmergencyStop:
    """Subscription to the topic `estop` (std_msgs/Bool), on which `true` stops the arm in any state.

    Args:
        node: node that creates the subscriptions.
        stop: called with the fault's text when the emergency stop is pressed.
    """

    def __init__(self, node: LifecycleNode, stop: Callable[[str], None]) -> None:
        self._node, self._stop, self._presses = node, stop, PressedPublishers()
        self._resubscribed = False
        self._subscriptions: list[Subscription] = [
            self._subscribe(subscription) for subscription in range(len(QUALITIES))
        ]
        node.create_timer(CHECK_PERIOD_S, self._request_latched)

    def _subscribe(self, subscription: int) -> Subscription:
        quality, receive = QUALITIES[subscription], partial(self._on_message, subscription)
        # the default callbacks would warn of each publisher that a subscription does not match
        matched = self._on_matched if quality is QUALITIES[-1] else None
        events = SubscriptionEventCallbacks(use_default_callbacks=False, matched=matched)
        return self._node.create_subscription(Bool, ESTOP_TOPIC, receive, quality, event_callbacks=events)

    def _update_publishers(self) -> float:
        """Determine which publishers of the topic are present; return the monotonic time of this check [s]."""
        now_s = time.monotonic()
        present = frozenset(bytes(one.endpoint_gid) for one in self._node.get_publishers_info_by_topic(ESTOP_TOPIC))
        self._presses.update_publishers(present, max(one.get_publisher_count() for one in self._subscriptions), now_s)
        return now_s

    def _on_matched(self, _: Any) -> None:
        self._resubscribed = False
        self._update_publishers()

    def _request_latched(self) -> None:
        """Subscribe again if a publisher is now alone on the topic, so that its latched message arrives once more.

        The message may be a `false` that did not release the stop, because the topic had other publishers when it
        arrived. Nothing is done unless the stop is pressed and the publisher has been alone for `DELIVERY_S`.
        """
        alone = self._presses.has_sole_publisher(self._update_publishers())
        if alone and not self._resubscribed and self._presses.pressed:
            self._node.destroy_subscription(self._subscriptions[0])
            self._subscriptions[0] = self._subscribe(0)
            self._resubscribed = True
        self._resubscribed &= alone

    def _on_message(self, subscription: int, message: Bool) -> None:
        now_s, was_active = self._update_publishers(), self._presses.active
        if message.data:
            self._presses.press(subscription, now_s)
            if not was_active:
                self._stop(self.text)
        elif was_active and not self._presses.release(now_s):
            self._node.get_logger().warning(
                f"false on topic {ESTOP_TOPIC} released nothing: {self._release_refusal}", throttle_duration_sec=1.0
            )

    @property
    def _release_refusal(self) -> str:
        """Reason why a `false` does not release the emergency stop, and what the user must do to release it."""
        count = len(self._presses.present)
        if count > 1:
            return (
                f"{count} publishers send it ({publishers(self._node, ESTOP_TOPIC)}), and nothing says whose message "
                "it is: end all but the one that pressed, and release again"
            )
        return f"its publisher has been alone on the topic for less than {DELIVERY_S:g} s: release again"

    @property
    def pressed(self) -> bool:
        """Whether the emergency stop is pressed and not released."""
        return self._presses.active

    @property
    def text(self) -> str:
        """Message of the fault that the emergency stop causes; it names the publishers of the topic."""
        return f"emergency stop: true on topic {ESTOP_TOPIC} ({publishers(self._node, ESTOP_TOPIC)})"

    @property
    def refusal(self) -> str:
        """Reason why the emergency stop forbids switching torque on; '' if it does not."""
        self._update_publishers()
        if self._presses.pressed or not self._presses.unknown:
            return self.clear_refusal
        return (
            f"the emergency stop is active, and who pressed it has left topic {ESTOP_TOPIC}: make sure that the arm "
            "may move, and clear the fault"
        )

    @property
    def clear_refusal(self) -> str:
        """Reason why the emergency stop forbids clearing the fault; '' if the fault may be cleared.

        Clearing is forbidden while a publisher that pressed the stop is present and has not released it.
        """
        self._update_publishers()
        if not self._presses.pressed:
            return ""
        reason = f"; {self._release_refusal}" if len(self._presses.present) > 1 else ""
        return (
            f"the emergency stop is active (topic {ESTOP_TOPIC} is true): the publisher that pressed it must publish "
            f"false{reason}; then clear the fault"
        )

    def forget_absent(self) -> None:
        """Discard presses by publishers that have left or were never identified; call it when the fault is cleared."""
        self._presses.unknown = False
