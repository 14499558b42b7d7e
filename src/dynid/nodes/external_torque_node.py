"""Node that detects contact without a force sensor, from the topics joint_states and applied_commands.

`external_torque` (JointState) holds the external torque on every joint, `tool_force` (WrenchStamped, in the base link)
the force at the tool. `contact` (String, JSON) reports whether the arm is in contact. An executor whose parameter
`contact` is "stop" stops the arm at a contact, and starts no motion while these messages are missing. The node uses the
model and payload that the executor shares on `control_model`, or model_file if there is no executor. It runs in its own
process, so that contact detection does not delay control.
"""

import time

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from dynid.contact.contact_report import ContactReport, SharedModel, digest
from dynid.contact.contact_sense import ContactSense
from dynid.contact.payload import with_payload
from dynid.contact.recorded import arm_of
from dynid.contact.shared_sense import SharedSense
from dynid.errors import ConfigurationError, DynidError
from dynid.hardware.loop.realtime import prefer_latency
from dynid.nodes.arm_interlocks import SinglePublisherSubscription
from dynid.nodes.common import LATCHED, STREAM, run_node
from dynid.nodes.sensing_node import SensingNode
from dynid.recording.messages import DiagnosticStatus, JointStateEncoder, encode_diagnostics
from dynid.recording.settings import parse_settings, reported_settings

STATES_PER_REPORT = 10  # states per report, enough for displays; the start and end of a contact are reported at once
CONTACT_INTERVAL_S = 1.0  # shortest time between two contacts that are counted and logged separately


class ExternalTorqueNode(SensingNode):
    """Node that estimates external torques and detects contact without a force sensor."""

    def __init__(self) -> None:
        super().__init__("external_torque")
        if "policy" in self._parameter_overrides:
            raise ConfigurationError(
                "external_torque has no parameter 'policy': set the executor's parameter contact to report or stop"
            )
        self._mount, self._model_trouble = self.robot.file.default_mount, ""
        self._shared: SharedModel | None = None
        self._sense, self._model = SharedSense(self._made()), ""
        self._encode = JointStateEncoder(self.robot.joint_names, fields=("effort",))
        self._states = self._contacts = 0
        self._last_contact_s, self._joint, self._contact_reported = -np.inf, "", False
        self._torques = self.create_publisher(JointState, "external_torque", STREAM)
        self._forces = self.create_publisher(WrenchStamped, "tool_force", STREAM)
        self._reports = self.create_publisher(String, "contact", STREAM)
        self._diagnostics = self.create_publisher(DiagnosticArray, "diagnostics", 10)
        self._sources = (
            SinglePublisherSubscription(
                self, String, "hardware_settings", self._on_settings, LATCHED, self._on_trouble
            ),
            SinglePublisherSubscription(self, String, "control_model", self._on_model, LATCHED, self._on_trouble),
            SinglePublisherSubscription(
                self, JointState, "joint_states", self._on_state, STREAM, self._on_trouble, raw=True
            ),
        )
        self.create_timer(1.0, self._report)

    def shut_down(self) -> None:
        """Do nothing, since this node commands nothing.

        An executor whose parameter `contact` is "stop" stops the arm when the messages of this node are missing.
        """

    def _made(self) -> ContactSense:
        """Return a contact detector with the model and payload that the executor shares.

        While the executor shares no model, the detector uses the model of parameter `model_file`. The standard
        deviations of the torque residuals are always those stated in that file.
        """
        arm, model = arm_of(self.robot, self._content, self._mount)
        if self._shared is not None:
            model = self._shared.control_model(self.robot.name, arm) or model
            body = np.array(self._shared.payload)
            model = with_payload(arm, model, body) if body.any() else model
        return ContactSense(self.robot, arm, model, self._content.torque_deviations)

    def _on_settings(self, message: String) -> None:
        """Apply the settings that the driver reports.

        They state whether the servo line is simulated, which determines the delay from a command to its torque, and
        the arm's mount, which determines the direction of gravity.
        """
        try:
            reported = reported_settings(message.data, self.robot)
            self._take_line(simulated=reported.simulated)
            if reported.mount != self._mount:
                self._mount = reported.mount
                self._sense.replace(self._made())
        except DynidError as error:
            self._on_trouble(str(error))

    def _on_model(self, message: String) -> None:
        """Use the new model or payload that the executor shares; log it as an error if it is not valid."""
        try:
            self._shared = parse_settings("control_model", message.data, SharedModel)
            self._sense.follow(self._made())
        except DynidError as error:
            self._model, self._model_trouble = "", str(error)
            self.get_logger().error(str(error))
            return
        self._model, self._model_trouble = digest(message.data), ""

    def _on_state(self, raw: bytes) -> None:
        try:
            state = self._decode_state.decode(raw)
            if state is None or not np.isfinite(state[1]["position"]).all():
                return
            contact = self._sense.update(state[0], state[1]["position"], self.torque_until(state[0]))
        except DynidError as error:
            self.get_logger().warning(f"joint_states: left out, {error}", throttle_duration_sec=1.0)
            return
        self._torques.publish(self._encode.encode(state[0], effort=self._sense.sense.observer.torque))
        self._states += 1
        if contact:
            self._note_contact()
        if contact or self._states % STATES_PER_REPORT == 0:
            self._publish_force(state[0])
        if self._sense.judged_ns >= 0 and (contact != self._contact_reported or self._states % STATES_PER_REPORT == 0):
            self._contact_reported = contact
            self._reports.publish(String(data=self._contact_report(contact).model_dump_json()))

    def _contact_report(self, felt: bool) -> ContactReport:
        """Return the message that reports whether the arm is in contact, which the argument `felt` states.

        The message names the joint whose external torque is largest relative to its threshold. Its timestamp is that
        of the newest state for which contact could be judged.
        """
        sense = self._sense.sense
        torque, threshold = sense.observer.torque, sense.bars.threshold
        joint = int(np.argmax(np.abs(torque) / threshold))
        return ContactReport(
            stamp_ns=self._sense.judged_ns,
            contact=felt,
            joint=self.robot.joint_names[joint],
            torque_nm=float(torque[joint]),
            threshold_nm=float(threshold[joint]),
            force_n=float(np.linalg.norm(sense.force()[0])),
            model=self._model,
        )

    def _publish_force(self, stamp_ns: int) -> None:
        message = WrenchStamped()
        message.header.frame_id = self.robot.file.base_link
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 1_000_000_000)
        force = self._sense.sense.force()[0]
        message.wrench.force.x, message.wrench.force.y, message.wrench.force.z = map(float, force)
        self._forces.publish(message)

    def _note_contact(self) -> None:
        """Count a new contact, and log the joint whose external torque is largest relative to its threshold.

        This is called for every state with contact. If the previous call was less than `CONTACT_INTERVAL_S` ago, the
        same contact continues, and is neither counted nor logged again.
        """
        last, self._last_contact_s = self._last_contact_s, time.monotonic()
        if self._last_contact_s - last < CONTACT_INTERVAL_S:
            return
        self._contacts += 1
        sense = self._sense.sense
        share = np.abs(sense.observer.torque) / sense.bars.threshold
        self._joint = self.robot.joint_names[int(np.argmax(share))]
        self.get_logger().info(f"contact, first detected by {self._joint}")

    def _report(self) -> None:
        contact, trouble = self._sense.sense.contact, self._trouble or self._model_trouble
        values = {
            "contact": str(contact),
            "contacts": str(self._contacts),
            "last_felt_by": self._joint,
            "model": self._model,
            "payload_kg": f"{self._shared.payload[9] if self._shared else 0.0:.3f}",
            "states": str(self._states),
        } | self.torque_report()
        text = trouble or ("contact" if contact else "free")
        status = DiagnosticStatus("external_torque", 2 if trouble else 0, text, "", values)
        self._diagnostics.publish(encode_diagnostics(time.time_ns(), [status]))


def main() -> None:
    """Run the external-torque node in this process."""
    prefer_latency()
    run_node(ExternalTorqueNode, events=True)


if __name__ == "__main__":
    main()
