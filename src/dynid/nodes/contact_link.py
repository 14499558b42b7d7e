"""Contact handling of the executor node: publish its model and payload, and let contact stop its motions.

Parameter `contact` sets the reaction: with "stop", contact stops the arm, see `dynid.contact.stop`. With "report" or ""
(the default), which have the same effect, it does not.
"""

from rclpy.node import Node
from std_msgs.msg import String

from dynid.contact.contact_report import ContactReport, SharedModel, digest
from dynid.contact.stop import ContactStop
from dynid.control.control_model import ControlModel
from dynid.control.motion import MotionExecutor
from dynid.errors import DataError, SafetyError, UnknownNameError
from dynid.model.dynamics import ArmModel
from dynid.nodes.arm_interlocks import SinglePublisherSubscription
from dynid.nodes.common import LATCHED, NEWEST, declare
from dynid.recording.settings import parse_settings
from dynid.robot import FloatArray

STOP = "stop"
POLICIES = ("", "report", STOP)


class ContactLink:
    """Connection of the executor to contact detection: it subscribes to `contact` and publishes `control_model`.

    Args:
        node: node of the executor.
        motion: motion executor, whose motions contact stops.
    """

    def __init__(self, node: Node, motion: MotionExecutor) -> None:
        self._node, self._stop, self._last_shared = node, ContactStop(motion), ""
        text = (
            "'stop': nothing moves during contact, or while contact cannot be judged; '' or 'report': motion is allowed"
        )
        self.set(declare(node, "contact", POLICIES[0], text))
        self._models = node.create_publisher(String, "control_model", LATCHED)
        self._source = SinglePublisherSubscription(
            node, String, "contact", self._on_report, NEWEST, self._on_second_source
        )

    @staticmethod
    def check(policy: object) -> None:
        """Raise UnknownNameError if `policy` is not a valid value of the parameter `contact`."""
        if policy not in POLICIES:
            raise UnknownNameError("contact policy", str(policy), POLICIES)

    def set(self, policy: object) -> None:
        """Set the reaction to contact; raise UnknownNameError if the policy is unknown."""
        self.check(policy)
        self._stop.enabled = policy == STOP

    def share(self, arm: ArmModel, model: ControlModel | None, payload: FloatArray) -> None:
        """Publish the executor's model and payload for contact detection if either has changed.

        Args:
            arm: geometry and structure of the model.
            model: model of the arm without payload; None if there is no model.
            payload: standard parameters of the payload, (10,) in SI units; zeros without payload.
        """
        text = SharedModel.of(arm, model, payload).model_dump_json()
        if text != self._last_shared:
            self._last_shared = text
            self._stop.expect(digest(text))
            self._models.publish(String(data=text))

    def refuse(self, stamp_ns: int) -> None:
        """Raise SafetyError if contact is detected, has just ended, or cannot be ruled out.

        This function does nothing unless the reaction to contact is "stop". Contact is ruled out only by a recent
        message on `contact` that was computed with the executor's model and payload, and only if the topic has one
        publisher. `stamp_ns` is the timestamp of the arm's present state [ns].
        """
        if self._stop.enabled and self._source.refusal:
            raise SafetyError(self._source.refusal)
        self._stop.refuse(stamp_ns)

    def watch(self, stamp_ns: int) -> None:
        """Stop the present motion if contact is detected or cannot be ruled out.

        This function does nothing unless the reaction to contact is "stop". Contact is ruled out only by a recent
        message on `contact` that was computed with the executor's model and payload. `stamp_ns` is the timestamp of the
        arm's present state [ns].
        """
        if reason := self._stop.watch(stamp_ns):
            self._node.get_logger().warning(f"the motion is stopped: {reason}")

    def _on_report(self, message: String) -> None:
        try:
            self._stop.receive(parse_settings("contact", message.data, ContactReport))
        except DataError as error:
            self._node.get_logger().warning(f"left out: {error}", throttle_duration_sec=1.0)

    def _on_second_source(self, text: str) -> None:
        self._node.get_logger().error(text)
