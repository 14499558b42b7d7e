"""Interlocks of nodes: detection of a second publisher of a topic, and of a driver that stops its arm."""

from collections.abc import Callable
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.event_handler import QoSSubscriptionMatchedInfo, SubscriptionEventCallbacks
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState

from dynid.errors import SafetyError
from dynid.hardware.loop.diagnostics import ENDED, LOADS, LOOP, STATE, TIMES_OFF
from dynid.hardware.safety.guard_states import GuardState
from dynid.nodes.common import NEWEST
from dynid.nodes.polled_subscription import PolledSubscription
from dynid.recording.messages import header_stamp_ns
from dynid.robot import FloatArray

COMMAND_TOPIC = "joint_commands"
STOPPED_BY_DRIVER = (GuardState.STOPPING.value, GuardState.FAULT.value, ENDED)
HEADER_BYTES = 16  # bytes of a serialized message up to the end of its stamp, and the length of its frame
UNKNOWN = "_UNKNOWN_"  # part of the name that the middleware reports for a node not yet known


class TorqueWatch:
    """Monitor of the hardware node's diagnostics: torque, faults, and whether the driver itself moves the arm.

    Args:
        node: node that creates the subscription.
        went_off: called if torque was switched off since the last report.
        took_over: called with the driver's status message when the driver stops following commands. The driver then
            brakes, holds and lowers the arm, and ignores all commands.
        loaded: called with the used fraction of each servo's overload capacity, as counted by the driver, (n,) [-].

    Attributes:
        fault: message of the fault for which the driver stops the arm; "" without a fault.
        off: whether the driver reports that torque is off.
        drives: whether the driver no longer follows commands: it stops and lowers the arm itself, or an error ended it.
        reports: number of reports received so far.
        incomplete: number of cycles in which a servo did not reply, as counted by the driver.
    """

    def __init__(
        self,
        node: Node,
        went_off: Callable[[], None],
        took_over: Callable[[str], None] = lambda _: None,
        loaded: Callable[[FloatArray], None] = lambda _: None,
    ) -> None:
        self._loaded = loaded
        self._times_off, self._enabled, self._went_off, self._took_over = "", False, went_off, took_over
        self.fault, self.off, self.drives, self.reports, self.incomplete = "", False, False, 0, 0
        self._last_stop = ""  # why the driver stopped the arm last, until torque is on again
        node.create_subscription(DiagnosticArray, "diagnostics", self._on_report, 10)

    def _on_report(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == LOOP:
                self._note(status, {pair.key: pair.value for pair in status.values})

    def _note(self, status: DiagnosticStatus, values: dict[str, str]) -> None:
        self.reports += 1
        incomplete = values.get("incomplete", "")
        self.incomplete = int(incomplete) if incomplete.isdecimal() else self.incomplete
        if (loads := _loads_of(values.get(LOADS, ""))) is not None:
            self._loaded(loads)
        state = values.get(STATE, status.message.partition(",")[0])
        self.fault = status.message if status.level == DiagnosticStatus.ERROR else ""
        self.off = state == GuardState.DISABLED.value
        self.drives = state in STOPPED_BY_DRIVER
        self._last_stop = status.message if self.drives else self._last_stop if self.off else ""
        was_enabled, self._enabled = self._enabled, state == GuardState.ENABLED.value
        before, self._times_off = self._times_off, values.get(TIMES_OFF, self._times_off)
        if was_enabled and not self._enabled:
            self._took_over(status.message)
        if before and self._times_off != before:
            self._went_off()

    def refuse_stopped(self, done: str) -> None:
        """Raise SafetyError if the driver stops the arm, with or without a fault; it ignores all commands meanwhile.

        `done` is the participle of the refused action for the message, such as "held".
        """
        if self.fault or self.drives:
            raise SafetyError(f"nothing is {done}: the driver stops the arm ({self.fault or self._last_stop})")

    def refuse_idle(self) -> None:
        """Raise SafetyError if the driver stops the arm or torque is off, since the arm would not follow a motion."""
        self.refuse_stopped("moved")
        if self.off:
            reason = f" since the driver stopped the arm ({self._last_stop})" if self._last_stop else ""
            raise SafetyError(f"nothing is moved: torque is off{reason}; switch it on with hardware/enable")


def _loads_of(text: str) -> FloatArray | None:
    """Return the used fractions of overload capacity, (n,) [-], from the driver's text; None if "" or malformed."""
    try:
        return np.array([float(word) for word in text.split()]) if text else None
    except ValueError:
        return None


class SinglePublisherSubscription:
    """Subscription to a topic used for control, which reports if more than one node publishes that topic.

    The middleware reports every publisher that joins or leaves, so a second one is noticed before its first message.
    While there are two, all messages are ignored. A latched message of a publisher that has left must not stay in
    force. So once only one publisher remains, a new subscription requests the latched message of this publisher.

    Args:
        node: node that creates the subscription.
        message_type: type of the messages.
        topic: name of the topic.
        callback: called with every message while there is only one publisher.
        quality: quality of service of the subscription.
        found: called with a description of the problem when a second publisher appears.
        raw: whether the callback gets serialized messages.

    Attributes:
        count: number of publishers that are matched now.
    """

    def __init__(
        self,
        node: Node,
        message_type: Any,
        topic: str,
        callback: Callable[[Any], None],
        quality: QoSProfile,
        found: Callable[[str], None],
        *,
        raw: bool = False,
    ) -> None:
        self._node, self._topic, self._found, self._callback = node, topic, found, callback
        self._message_type, self._raw, self._quality = message_type, raw, quality
        self._renewal: Any = None
        self._subscribe()

    def close(self) -> None:
        """Destroy the subscription."""
        if self._renewal is not None:
            self._node.destroy_timer(self._renewal)
        self._node.destroy_subscription(self._subscription)

    def _subscribe(self) -> None:
        self.count = self._total_matched = 0
        events = SubscriptionEventCallbacks(matched=self._on_matched)
        self._subscription = self._node.create_subscription(
            self._message_type, self._topic, self._on_message, self._quality, raw=self._raw, event_callbacks=events
        )

    def _on_message(self, message: Any) -> None:
        if self.count <= 1:
            self._callback(message)

    def _on_matched(self, info: Any) -> None:
        assert isinstance(info, QoSSubscriptionMatchedInfo)
        self._note(info.current_count, info.total_count)

    def _note(self, present: int, ever: int) -> None:
        """Process a change of the publishers: report a second one, or subscribe again if only one publisher remains.

        Args:
            present: number of publishers that are matched now.
            ever: number of publishers that have been matched since the subscription was created.
        """
        others = self.count > 1 or self.count + ever - self._total_matched > 1  # or a second publisher came and left
        self.count, self._total_matched = present, ever
        if self.count > 1:
            self._found(self.text)
        elif self.count == 1 and others and self._quality.durability == DurabilityPolicy.TRANSIENT_LOCAL:
            self._renew_soon()

    def _renew_soon(self) -> None:
        """Schedule a new subscription by a timer, since an event callback cannot destroy its own subscription."""
        if self._renewal is None:
            self._renewal = self._node.create_timer(0.0, self._renew)

    def _renew(self) -> None:
        self._node.destroy_timer(self._renewal)
        self._renewal = None
        self._node.destroy_subscription(self._subscription)
        self._subscribe()

    @property
    def text(self) -> str:
        """Error message for a topic with several publishers, which lists them and says how to fix this."""
        return (
            f"{self.count} publishers send {self._topic} ({publishers(self._node, self._topic)}), and nothing says "
            "which of them is the arm's: end all but one (a killed publisher disappears after about 20 s)"
        )

    @property
    def refusal(self) -> str:
        """Error message if the topic has several publishers, so that nothing may be commanded; else ''."""
        return self.text if self.count > 1 else ""


class SingleCommander(SinglePublisherSubscription):
    """Subscription to `joint_commands`, which accepts commands from only one publisher at a time.

    No callback runs when a message arrives: the control cycle fetches the commands by `take`.

    Args:
        node: node that creates the subscription.
        on_command: called by `take` with every serialized command and its time of receipt on the wall clock [ns].
        stop: called with the fault's text when a second publisher appears.
    """

    def __init__(
        self, node: LifecycleNode, on_command: Callable[[tuple[bytes, int]], None], stop: Callable[[str], None]
    ) -> None:
        super().__init__(node, JointState, COMMAND_TOPIC, on_command, NEWEST, stop, raw=True)

    def take(self, newest_ns: int) -> None:
        """Pass the received commands to `on_command`, the oldest first.

        The call ends after the first command that was computed from the newest state, since no later one can exist yet.
        All calls must come from the same thread; it need not be the thread that spins the node.

        Args:
            newest_ns: timestamp of the newest state that was published [ns].
        """
        for command in self._polled.messages():
            self._on_message(command)
            if len(command[0]) > HEADER_BYTES and header_stamp_ns(command[0]) == newest_ns:
                break  # nothing newer can have arrived

    def close(self) -> None:
        """Destroy the subscription."""
        self._polled.destroy()

    def _subscribe(self) -> None:
        self.count = self._total_matched = 0
        events = SubscriptionEventCallbacks(matched=self._on_matched)
        self._polled = PolledSubscription(self._node, self._message_type, self._topic, self._quality, events)

    @property
    def text(self) -> str:
        """Error message for joint commands from several publishers, which lists them and says how to fix this."""
        return (
            f"{self.count} publishers command the arm on topic {COMMAND_TOPIC} "
            f"({publishers(self._node, COMMAND_TOPIC)}), an arm has one commander: end all but one (a killed publisher "
            "disappears after about 20 s)"
        )


class SecondSources:
    """Record of topics that had more than one publisher at any time since the record was cleared.

    A recorder uses it to report the bag as doubtful: messages of a second publisher may be from another arm.

    Attributes:
        text: error message for the first such topic; '' if there was none.
    """

    def __init__(self, node: Node) -> None:
        self._node, self._counts, self.text = node, dict[str, int](), ""

    def note(self, topic: str, count: int) -> None:
        """Store the present number of publishers of a topic; set the error message if there is more than one."""
        self._counts[topic] = count
        if count > 1 and not self.text:
            self.text = (
                f"{count} publishers send {topic} ({publishers(self._node, topic)}), and nothing says which of them is "
                "the arm's: end all but one, and record again"
            )

    def clear(self) -> None:
        """Clear the error message; set it again if a topic has more than one publisher at present."""
        self.text = ""
        for topic, count in tuple(self._counts.items()):
            self.note(topic, count)


def publishers(node: Node, topic: str) -> str:
    """Return a phrase that names the nodes that publish a topic, such as "from /controller, /test".

    The middleware may not know the name of a new publisher's node yet. The phrase then contains "a node that is still
    joining" instead. Without publishers, the phrase is "its publisher has left".
    """
    found = node.get_publishers_info_by_topic(topic)
    names = sorted(
        {
            "a node that is still joining"
            if UNKNOWN in one.node_name
            else f"{one.node_namespace.rstrip('/')}/{one.node_name}"
            for one in found
        }
    )
    return f"from {', '.join(names)}" if names else "its publisher has left"
