"""The emergency stop on a topic: whoever pressed it, and nobody else, releases it.

rclpy does not say which publisher sent a message. A `true` therefore counts for every publisher that is on the topic at
that moment, and a `false` only for a publisher that has been alone on it for a while.
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
# A subscription that wants latched messages does not match a publisher that does not latch, and one that wants reliable
# ones none that is not: an emergency stop must arrive from all of them. The last one matches every publisher.
QUALITIES = (
    LATCHED,
    *(
        QoSProfile(
            history=HistoryPolicy.KEEP_LAST, depth=10, reliability=reliability, durability=DurabilityPolicy.VOLATILE
        )
        for reliability in (ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT)
    ),
)
ALONE_S = 1.0  # a message of a publisher that has left is delivered within this time
LOOK_S = 0.25
REPEATED_S = 0.5  # within this time, the other subscriptions bring the same message


class Presses:
    """Who may have pressed an emergency stop and has not released it; no ROS.

    Attributes:
        pressed: identifiers of publishers that are there.
        unknown: whether somebody pressed who has left, or was never known.
        present: the publishers at the last look.
    """

    def __init__(self) -> None:
        self.pressed: set[bytes] = set()
        self.unknown = False
        self.present: frozenset[bytes] = frozenset()
        self._matched, self._alone_since_s = 0, float("inf")
        self._repeats: set[int] = set()  # subscriptions that are still to bring the last `true`
        self._pressed_s = float("-inf")

    @property
    def active(self) -> bool:
        """Whether the emergency stop is pressed."""
        return bool(self.pressed) or self.unknown

    def look(self, present: frozenset[bytes], matched: int, now_s: float) -> None:
        """Take up which publishers there are, and how many are matched: one may be so before it is known."""
        alone = len(present) == 1 and matched <= 1
        if not alone:
            self._alone_since_s = float("inf")
        elif present != self.present or self._alone_since_s > now_s:
            self._alone_since_s = now_s
        self.present, self._matched = present, matched
        if self.pressed - present:
            self.pressed &= present
            self.unknown = True

    def alone(self, now_s: float) -> bool:
        """Whether one publisher has been alone for so long that every message is its own."""
        return now_s - self._alone_since_s >= ALONE_S

    def press(self, way: int, now_s: float) -> None:
        """Take up a `true` from a subscription, by its index: any publisher that is there may have sent it.

        Each subscription brings the same message, and by then others may have joined, who did not send it.
        """
        if way in self._repeats and now_s - self._pressed_s <= REPEATED_S:
            self._repeats.discard(way)
            return
        self._repeats, self._pressed_s = set(range(len(QUALITIES))) - {way}, now_s
        self.pressed |= self.present
        self.unknown |= not self.present or self._matched > len(self.present)

    def release(self, now_s: float) -> bool:
        """Take up a `false`; whether it could release anything."""
        if self.alone(now_s):
            self.pressed -= self.present
            return True
        return False


class EmergencyStop:
    """Listens to `estop` (std_msgs/Bool): true stops the arm whatever it does.

    Args:
        node: creates the subscriptions.
        stop: called with the fault's text when the emergency stop is pressed.
    """

    def __init__(self, node: LifecycleNode, stop: Callable[[str], None]) -> None:
        self._node, self._stop, self._presses = node, stop, Presses()
        self._asked_again = False
        self._subscriptions: list[Subscription] = [self._subscribe(way) for way in range(len(QUALITIES))]
        node.create_timer(LOOK_S, self._look_again)

    def _subscribe(self, way: int) -> Subscription:
        quality, receive = QUALITIES[way], partial(self._on_message, way)
        # no warning that one of the subscriptions does not match a publisher
        matched = self._on_matched if quality is QUALITIES[-1] else None
        events = SubscriptionEventCallbacks(use_default_callbacks=False, matched=matched)
        return self._node.create_subscription(Bool, ESTOP_TOPIC, receive, quality, event_callbacks=events)

    def _look(self) -> float:
        """Look who publishes; returns the moment [s]."""
        now_s = time.monotonic()
        present = frozenset(bytes(one.endpoint_gid) for one in self._node.get_publishers_info_by_topic(ESTOP_TOPIC))
        self._presses.look(present, max(one.get_publisher_count() for one in self._subscriptions), now_s)
        return now_s

    def _on_matched(self, _: Any) -> None:
        self._asked_again = False
        self._look()

    def _look_again(self) -> None:
        """Ask a publisher that has been alone long enough for what it has latched: its `false` may have come before."""
        alone = self._presses.alone(self._look())
        if alone and not self._asked_again and self._presses.pressed:
            self._node.destroy_subscription(self._subscriptions[0])
            self._subscriptions[0] = self._subscribe(0)
            self._asked_again = True
        self._asked_again &= alone

    def _on_message(self, way: int, message: Bool) -> None:
        now_s, was = self._look(), self._presses.active
        if message.data:
            self._presses.press(way, now_s)
            if not was:
                self._stop(self.text)
        elif was and not self._presses.release(now_s):
            self._node.get_logger().warning(
                f"false on topic {ESTOP_TOPIC} released nothing: {self._whose}", throttle_duration_sec=1.0
            )

    @property
    def _whose(self) -> str:
        """Why a `false` is nobody's, and what to do."""
        count = len(self._presses.present)
        if count > 1:
            return (
                f"{count} publishers send it ({publishers(self._node, ESTOP_TOPIC)}), and nothing says whose message "
                "it is: end all but the one that pressed, and release again"
            )
        return f"its publisher has been alone on the topic for less than {ALONE_S:g} s: release again"

    @property
    def pressed(self) -> bool:
        """Whether somebody pressed who has not released it."""
        return self._presses.active

    @property
    def text(self) -> str:
        """The fault in words, with who pressed it."""
        return f"emergency stop: true on topic {ESTOP_TOPIC} ({publishers(self._node, ESTOP_TOPIC)})"

    @property
    def refusal(self) -> str:
        """Why torque cannot be switched on, '' if it can."""
        self._look()
        if self._presses.pressed or not self._presses.unknown:
            return self.clear_refusal
        return (
            f"the emergency stop is active, and who pressed it has left topic {ESTOP_TOPIC}: make sure that the arm "
            "may move, and clear the fault"
        )

    @property
    def clear_refusal(self) -> str:
        """Why the fault cannot be cleared, '' if it can: one that pressed and is still there has not released."""
        self._look()
        if not self._presses.pressed:
            return ""
        more = f"; {self._whose}" if len(self._presses.present) > 1 else ""
        return (
            f"the emergency stop is active (topic {ESTOP_TOPIC} is true): the publisher that pressed it must publish "
            f"false{more}; then clear the fault"
        )

    def forget_absent(self) -> None:
        """The fault was cleared: who pressed and has left does not count any more."""
        self._presses.unknown = False
