"""The executor's side of contact: it shares its model and payload, and is stopped by what is felt.

Parameter `contact` says what a contact does: "stop" stops the arm, see `dynid.contact.stop`; "report", or "", does not.
"""

from rclpy.node import Node
from std_msgs.msg import String

from dynid.contact.contact_report import ContactReport, SharedModel, digest
from dynid.contact.stop import ContactStop
from dynid.control.control_model import ControlModel
from dynid.control.motion import MotionExecutor
from dynid.errors import DataError, SafetyError, UnknownNameError
from dynid.model.dynamics import ArmModel
from dynid.nodes.arm_interlocks import OneSource
from dynid.nodes.common import LATCHED, NEWEST, declare
from dynid.recording.settings import parse_settings
from dynid.robot import FloatArray

STOP = "stop"
POLICIES = ("", "report", STOP)


class ContactLink:
    """Subscribes to `contact` and publishes `control_model`; see the module.

    Args:
        node: the executor.
        motion: that is stopped.
    """

    def __init__(self, node: Node, motion: MotionExecutor) -> None:
        self._node, self._stop, self._told = node, ContactStop(motion), ""
        text = (
            "'stop': nothing moves while something is felt, or while nobody says whether it is; '' or 'report': it may"
        )
        self.set(declare(node, "contact", POLICIES[0], text))
        self._models = node.create_publisher(String, "control_model", LATCHED)
        self._source = OneSource(node, String, "contact", self._on_report, NEWEST, self._on_second_source)

    @staticmethod
    def check(policy: object) -> None:
        """Raise UnknownNameError if there is no such policy."""
        if policy not in POLICIES:
            raise UnknownNameError("contact policy", str(policy), POLICIES)

    def set(self, policy: object) -> None:
        """Let a contact do this from now on; raises as `check`."""
        self.check(policy)
        self._stop.asked = policy == STOP

    def share(self, arm: ArmModel, model: ControlModel | None, payload: FloatArray) -> None:
        """Publish the model without payload, and the payload (10,), if they are others than before."""
        text = SharedModel.of(arm, model, payload).model_dump_json()
        if text != self._told:
            self._told = text
            self._stop.expect(digest(text))
            self._models.publish(String(data=text))

    def refuse(self, stamp_ns: int) -> None:
        """Raise SafetyError where nothing may begin to move at this stamp [ns]."""
        if self._stop.asked and self._source.refusal:
            raise SafetyError(self._source.refusal)
        self._stop.refuse(stamp_ns)

    def watch(self, stamp_ns: int) -> None:
        """Stop what moves at this stamp [ns] if it must not."""
        if reason := self._stop.watch(stamp_ns):
            self._node.get_logger().warning(f"the motion is stopped: {reason}")

    def _on_report(self, message: String) -> None:
        try:
            self._stop.hear(parse_settings("contact", message.data, ContactReport))
        except DataError as error:
            self._node.get_logger().warning(f"left out: {error}", throttle_duration_sec=1.0)

    def _on_second_source(self, text: str) -> None:
        self._node.get_logger().error(text)
