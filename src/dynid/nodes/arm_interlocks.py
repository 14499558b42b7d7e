"""What stops an arm from outside of its driver: a second commander or source, and torque that was switched off."""

from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.event_handler import QoSSubscriptionMatchedInfo, SubscriptionEventCallbacks
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState

from dynid.errors import SafetyError
from dynid.hardware.loop.diagnostics import ENDED, LOOP, STATE, TIMES_OFF
from dynid.hardware.safety.guard_states import GuardState
from dynid.nodes.common import NEWEST

COMMAND_TOPIC = "joint_commands"
STOPPED_BY_DRIVER = (GuardState.STOPPING.value, GuardState.FAULT.value, ENDED)
UNKNOWN = "_UNKNOWN_"  # in what the middleware says while it does not know a node's name


class TorqueWatch:
    """Listens to the hardware node's diagnostics: who moves the arm, its driver or whoever commands it.

    Args:
        node: creates the subscription.
        went_off: called if torque was switched off since the last report.
        took_over: called with what the driver says when it no longer follows commands: it brakes, holds and lowers
            the arm, whatever is commanded.

    Attributes:
        fault: what the driver stops the arm for, in words; "" while it would follow commands.
        off: whether the driver says that torque is off.
        drives: whether the driver moves the arm itself.
        reports: how many reports came so far.
        incomplete: cycles without the reply of a servo that the driver has counted.
    """

    def __init__(
        self, node: Node, went_off: Callable[[], None], took_over: Callable[[str], None] = lambda _: None
    ) -> None:
        self._times, self._follows, self._went_off, self._took_over = "", False, went_off, took_over
        self.fault, self.off, self.drives, self.reports, self.incomplete = "", False, False, 0, 0
        node.create_subscription(DiagnosticArray, "diagnostics", self._on_report, 10)

    def _on_report(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == LOOP:
                self._note(status, {pair.key: pair.value for pair in status.values})

    def _note(self, status: DiagnosticStatus, values: dict[str, str]) -> None:
        self.reports += 1
        incomplete = values.get("incomplete", "")
        self.incomplete = int(incomplete) if incomplete.isdecimal() else self.incomplete
        state = values.get(STATE, status.message.partition(",")[0])
        self.fault = status.message if status.level == DiagnosticStatus.ERROR else ""
        self.off = state == GuardState.DISABLED.value
        self.drives = state in STOPPED_BY_DRIVER
        followed, self._follows = self._follows, state == GuardState.ENABLED.value
        before, self._times = self._times, values.get(TIMES_OFF, self._times)
        if followed and not self._follows:
            self._took_over(status.message)
        if before and self._times != before:
            self._went_off()

    def refuse_fault(self, done: str) -> None:
        """Raise SafetyError while the driver stops the arm; `done` is what it would be, such as "held"."""
        if self.fault:
            raise SafetyError(f"nothing is {done}: the driver stops the arm ({self.fault})")

    def refuse_idle(self) -> None:
        """Raise SafetyError where the arm would not follow a motion: it would be over, and the arm where it was."""
        self.refuse_fault("moved")
        if self.off:
            raise SafetyError("nothing is moved: torque is off; switch it on with hardware/enable")


class OneSource:
    """Subscribes to a topic that control rests on, and says so when more than one node publishes it.

    The middleware reports every publisher that comes or goes, so a second one is noticed before its first message.
    While there are two, no message counts. What somebody has said who is gone must not stay: once one publisher is
    left, a new subscription asks it for what it has latched.

    Args:
        node: creates the subscription.
        message_type, topic, callback, quality: of the subscription.
        found: called with the finding in words when a second publisher appears.
        raw: whether the callback gets serialized messages.

    Attributes:
        count: how many publishers are known.
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
        self._what, self._raw, self._quality = message_type, raw, quality
        self._renewal: Any = None
        self._subscribe()

    def close(self) -> None:
        """Listen no longer."""
        if self._renewal is not None:
            self._node.destroy_timer(self._renewal)
        self._node.destroy_subscription(self._subscription)

    def _subscribe(self) -> None:
        self.count = self._seen = 0
        events = SubscriptionEventCallbacks(matched=self._on_matched)
        self._subscription = self._node.create_subscription(
            self._what, self._topic, self._on_message, self._quality, raw=self._raw, event_callbacks=events
        )

    def _on_message(self, message: Any) -> None:
        if self.count <= 1:
            self._callback(message)

    def _on_matched(self, info: Any) -> None:
        assert isinstance(info, QoSSubscriptionMatchedInfo)
        self._note(info.current_count, info.total_count)

    def _note(self, present: int, ever: int) -> None:
        """How many publishers there are, and were since the subscription was made."""
        others = self.count > 1 or self.count + ever - self._seen > 1  # also one that has left again meanwhile
        self.count, self._seen = present, ever
        if self.count > 1:
            self._found(self.text)
        elif self.count == 1 and others and self._quality.durability == DurabilityPolicy.TRANSIENT_LOCAL:
            self._renew_soon()

    def _renew_soon(self) -> None:
        """Not within the subscription's own event."""
        if self._renewal is None:
            self._renewal = self._node.create_timer(0.0, self._renew)

    def _renew(self) -> None:
        self._node.destroy_timer(self._renewal)
        self._renewal = None
        self._node.destroy_subscription(self._subscription)
        self._subscribe()

    @property
    def text(self) -> str:
        """The finding in words, with the publishers' names."""
        return (
            f"{self.count} publishers send {self._topic} ({publishers(self._node, self._topic)}), and nothing says "
            "which of them is the arm's: end all but one (a killed publisher disappears after about 20 s)"
        )

    @property
    def refusal(self) -> str:
        """Why nothing may be commanded, '' if it may."""
        return self.text if self.count > 1 else ""


class OneCommander(OneSource):
    """Subscribes to `joint_commands`, and sees to it that one node at a time publishes them.

    Args:
        node: creates the subscription.
        on_command: called with every serialized command.
        stop: called with the fault's text when a second publisher appears.
    """

    def __init__(self, node: LifecycleNode, on_command: Callable[[bytes], None], stop: Callable[[str], None]) -> None:
        super().__init__(node, JointState, COMMAND_TOPIC, on_command, NEWEST, stop, raw=True)

    @property
    def text(self) -> str:
        """The finding in words, with the publishers' names."""
        return (
            f"{self.count} publishers command the arm on topic {COMMAND_TOPIC} "
            f"({publishers(self._node, COMMAND_TOPIC)}), an arm has one commander: end all but one (a killed publisher "
            "disappears after about 20 s)"
        )


class SecondSources:
    """Notes, for a recorder, which topics of one publisher had more than one at any time since it was cleared.

    Attributes:
        text: the finding in words, '' if there was none.
    """

    def __init__(self, node: Node) -> None:
        self._node, self._counts, self.text = node, dict[str, int](), ""

    def note(self, topic: str, count: int) -> None:
        """Take up how many publishers a topic has."""
        self._counts[topic] = count
        if count > 1 and not self.text:
            self.text = (
                f"{count} publishers send {topic} ({publishers(self._node, topic)}), and nothing says which of them is "
                "the arm's: end all but one, and record again"
            )

    def clear(self) -> None:
        """Forget what was, and look at what is."""
        self.text = ""
        for topic, count in tuple(self._counts.items()):
            self.note(topic, count)


def publishers(node: Node, topic: str) -> str:
    """Who publishes; a publisher may be matched a moment before the middleware knows its node's name."""
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
