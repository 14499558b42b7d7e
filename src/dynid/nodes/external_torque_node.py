"""Node that feels contact without a sensor: joint_states and applied_commands in, external torques and forces out.

`external_torque` (JointState) holds what acts on every joint, `tool_force` (WrenchStamped, in the base link) the force
at the tool. Parameter `policy` says what a contact does: "report" publishes it in the diagnostics, "stop" also calls
`cancel` of the executor, which brakes along the path and holds. It is a process of its own: what feels must not delay
what controls.
"""

import time

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from dynid.contact.recorded import sense_of
from dynid.errors import DynidError
from dynid.hardware.loop.realtime import prefer_latency
from dynid.nodes.arm_interlocks import OneSource
from dynid.nodes.common import LATCHED, NEWEST, STREAM, declare, run_node, string
from dynid.nodes.sensing_node import SensingNode
from dynid.recording.messages import DiagnosticStatus, JointStateEncoder, encode_diagnostics
from dynid.recording.settings import reported_settings

POLICIES = ("report", "stop")
FORCE_EVERY = 10  # states: forces are for people and plots
AGAIN_S = 1.0  # between two contacts, and two calls of the executor


class ExternalTorqueNode(SensingNode):
    """Feels the arm; see the module."""

    def __init__(self) -> None:
        super().__init__("external_torque", "contact", POLICIES, "what a contact does", NEWEST)
        self._mount = self.robot.file.default_mount
        self._sense = sense_of(self.robot, self._content, self._mount)
        executor = declare(self, "executor", "executor", "node that stops the arm", fixed=True)
        self._encode = JointStateEncoder(self.robot.joint_names, fields=("effort",))
        self._states = self._contacts = 0
        self._felt_s, self._joint = -np.inf, ""
        self._torques = self.create_publisher(JointState, "external_torque", STREAM)
        self._forces = self.create_publisher(WrenchStamped, "tool_force", STREAM)
        self._diagnostics = self.create_publisher(DiagnosticArray, "diagnostics", 10)
        self._cancel = self.create_client(Trigger, f"{executor}/cancel")
        self._sources = (
            OneSource(self, String, "hardware_settings", self._on_settings, LATCHED, self._on_trouble),
            OneSource(self, JointState, "joint_states", self._on_state, NEWEST, self._on_trouble, raw=True),
        )
        self.create_timer(1.0, self._report)

    def shut_down(self) -> None:
        """Nothing is commanded here."""

    def _on_settings(self, message: String) -> None:
        """Gravity is that of the mount which the hardware reports."""
        try:
            reported = reported_settings(message.data, self.robot)
            self._take_line(simulated=reported.simulated)
            if reported.mount != self._mount:
                self._sense, self._mount = sense_of(self.robot, self._content, reported.mount), reported.mount
        except DynidError as error:
            self._on_trouble(str(error))

    def _on_state(self, raw: bytes) -> None:
        try:
            state = self._decode_state.decode(raw)
            if state is None or not np.isfinite(state[1]["position"]).all():
                return
            felt = self._sense.update(state[0], state[1]["position"], self.torque_until(state[0]))
        except DynidError as error:
            self.get_logger().warning(f"joint_states: left out, {error}", throttle_duration_sec=1.0)
            return
        self._torques.publish(self._encode.encode(state[0], effort=self._sense.observer.torque))
        self._states += 1
        if felt:
            self._react()
        if felt or self._states % FORCE_EVERY == 0:
            self._publish_force(state[0])

    def _publish_force(self, stamp_ns: int) -> None:
        message = WrenchStamped()
        message.header.frame_id = self.robot.file.base_link
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 1_000_000_000)
        force = self._sense.force()[0]
        message.wrench.force.x, message.wrench.force.y, message.wrench.force.z = map(float, force)
        self._forces.publish(message)

    def _react(self) -> None:
        """A contact: stop the arm if the policy says so, once per contact."""
        last, self._felt_s = self._felt_s, time.monotonic()
        if self._felt_s - last < AGAIN_S:
            return
        self._contacts += 1
        share = np.abs(self._sense.observer.torque) / self._sense.bars.threshold
        self._joint = self.robot.joint_names[int(np.argmax(share))]
        if string(self, "policy") == "stop":
            self._cancel.call_async(Trigger.Request())
        self.get_logger().info(f"contact, first felt by {self._joint}")

    def _report(self) -> None:
        contact = self._sense.contact
        values = {
            "contact": str(contact),
            "contacts": str(self._contacts),
            "last_felt_by": self._joint,
            "policy": string(self, "policy"),
            "states": str(self._states),
        } | self.torque_report()
        status = DiagnosticStatus(
            "external_torque",
            2 if self._trouble else 0,
            self._trouble or ("contact" if contact else "free"),
            "",
            values,
        )
        self._diagnostics.publish(encode_diagnostics(time.time_ns(), [status]))


def main() -> None:
    """Run the node."""
    prefer_latency()
    run_node(ExternalTorqueNode, events=True)


if __name__ == "__main__":
    main()
