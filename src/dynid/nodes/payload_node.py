"""Node that estimates the payload of a moving arm from the topics joint_states and applied_commands.

The topic `payload` (InertiaStamped, in the last link's frame) has the newest estimate; its standard deviations are in
the diagnostics. If parameter `policy` is "report", nothing else is done. If it is "apply", an estimate is sent to the
executor if it fits the data and differs significantly from the payload adopted before (none at the start); the
executor's torques then change without a jump. The payload is not estimated while the arm may be hand-guided, because a
steady hand force looks like a weight. The node runs in its own process, so that the estimation does not delay control.
"""

import time

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import InertiaStamped
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.parameter import Parameter
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from dynid.contact.payload import HeldMass
from dynid.contact.recorded import live_payload_of
from dynid.control.model_laws import GravityCompensation
from dynid.errors import DynidError, UnknownNameError
from dynid.hardware.loop.realtime import prefer_throughput
from dynid.model.standard import to_link_frame
from dynid.nodes.arm_interlocks import SinglePublisherSubscription
from dynid.nodes.common import LATCHED, STREAM, check_parameters, declare, run_node, string
from dynid.nodes.payload_parameters import payload_values
from dynid.nodes.sensing_node import SensingNode
from dynid.recording.messages import DiagnosticStatus, encode_diagnostics
from dynid.recording.settings import reported_settings
from dynid.robot.urdf_text import read_urdf_text
from dynid.robot.urdf_tree import read_tree

POLICIES = ("report", "apply")
REQUEST_INTERVAL_S = 1.0  # shortest time between two requests to the executor


class PayloadNode(SensingNode):
    """Node that estimates the payload of a moving arm, and with policy "apply" sends it to the executor."""

    def __init__(self) -> None:
        super().__init__("payload")
        declare(self, "policy", POLICIES[0], f"use of an estimate: {' or '.join(POLICIES)}")
        self._refuse_unknown_policy(string(self, "policy"))
        check_parameters(self, self._on_set)
        self._executor = declare(self, "executor", "executor", "node that takes it", fixed=True)
        self._take_mount(self.robot.file.default_mount)
        names = self.robot.joint_names
        last = read_tree(read_urdf_text(self.robot.urdf_path)).joint(names[self.robot.chain_size - 1])
        self._frame = last.child
        self._states = 0
        self._guided, self._request_s = False, -np.inf
        self._published: HeldMass | None = None
        self._applied, self._requested = np.zeros(10), np.zeros(10)
        self._payloads = self.create_publisher(InertiaStamped, "payload", STREAM)
        self._diagnostics = self.create_publisher(DiagnosticArray, "diagnostics", 10)
        service = f"{self._executor}/set_parameters_atomically"
        self._set = self.create_client(SetParametersAtomically, service)
        self._sources = (
            SinglePublisherSubscription(
                self, String, "hardware_settings", self._on_settings, LATCHED, self._on_trouble
            ),
            SinglePublisherSubscription(
                self, JointState, "joint_states", self._on_state, STREAM, self._on_trouble, raw=True
            ),
        )
        self.create_subscription(DiagnosticArray, "diagnostics", self._on_report, 10)
        self.create_timer(1.0, self._report)

    def shut_down(self) -> None:
        """Do nothing: this node commands nothing, and the executor keeps its payload until another is set."""

    def _refuse_unknown_policy(self, policy: str) -> None:
        if policy not in POLICIES:
            raise UnknownNameError("payload policy", policy, POLICIES)

    def _on_set(self, given: list[Parameter]) -> None:
        for one in given:
            if one.name == "policy":
                self._refuse_unknown_policy(str(one.value))

    def _take_mount(self, mount: str) -> None:
        self._mount = mount
        self._live = live_payload_of(self.robot, self._content, mount)

    def _on_settings(self, message: String) -> None:
        """Apply the settings that the driver reports.

        They state whether the servo line is simulated, which determines the delay from a command to its torque, and
        the arm's mount, which determines the direction of gravity.
        """
        try:
            reported = reported_settings(message.data, self.robot)
            self._take_line(simulated=reported.simulated)
            if reported.mount != self._mount:
                self._take_mount(reported.mount)
        except DynidError as error:
            self._on_trouble(str(error))

    def _on_report(self, message: DiagnosticArray) -> None:
        """Note whether the executor runs gravity compensation, since the arm may then be hand-guided.

        The payload is not estimated while gravity compensation runs, and the estimation restarts whenever it begins or
        ends.
        """
        for status in message.status:
            if status.name == self._executor:
                law = next((pair.value for pair in status.values if pair.key == "controller"), "")
                guided = law == GravityCompensation.name
                if guided != self._guided:
                    self._live.restart()
                self._guided = guided

    def _on_state(self, raw: bytes) -> None:
        try:
            state = self._decode_state.decode(raw)
            if state is None or self._guided or not np.isfinite(state[1]["position"]).all():
                return
            self._live.update(state[0], state[1]["position"], self.torque_until(state[0]))
        except DynidError as error:
            self.get_logger().warning(f"joint_states: left out, {error}", throttle_duration_sec=1.0)
            return
        self._states += 1
        found = self._live.estimate
        if found is not None and found is not self._published:
            self._published = found
            self._publish(state[0], found)
        if string(self, "policy") == "apply" and not np.array_equal(self._live.held, self._applied):
            self._apply()

    def _publish(self, stamp_ns: int, found: HeldMass) -> None:
        message = InertiaStamped()
        message.header.frame_id = self._frame
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 1_000_000_000)
        body = message.inertia
        body.m = found.mass_kg
        body.com.x, body.com.y, body.com.z = map(float, found.centre_m)
        if found.mass_kg > 0.0:
            inertia = to_link_frame(found.parameters, self._live.arm.mdh.in_link[-1]).inertia
            body.ixx, body.ixy, body.ixz = map(float, inertia[0])
            body.iyy, body.iyz, body.izz = float(inertia[1, 1]), float(inertia[1, 2]), float(inertia[2, 2])
        self._payloads.publish(message)

    def _apply(self) -> None:
        """Send the estimated payload to the executor as one atomic parameter call; after a refusal, retry later."""
        if time.monotonic() - self._request_s < REQUEST_INTERVAL_S or not self._set.service_is_ready():
            return
        self._request_s, self._requested = time.monotonic(), self._live.held
        values = payload_values(self._requested, self._live.arm.structure_hash)
        request = SetParametersAtomically.Request()
        request.parameters = [Parameter(key, value=value).to_parameter_msg() for key, value in values.items()]
        self._set.call_async(request).add_done_callback(self._on_answer)

    def _on_answer(self, future: Future) -> None:
        result = None if future.exception() else future.result().result
        if result is not None and result.successful:
            self._applied, self._trouble = self._requested, ""
            self.get_logger().info(f"the executor's model now includes a payload of {self._applied[9]:.3f} kg")
        else:
            self._on_trouble(f"{self._executor} refused the payload: {result.reason if result else future.exception()}")

    def _report(self) -> None:
        found, live = self._live.estimate, self._live
        values = {
            "policy": string(self, "policy"),
            "states": str(self._states),
            "restarts": str(live.restarts),
            "guided": str(self._guided).lower(),
            "fits": str(live.fits).lower(),
            "misfit_deviations": f"{live.misfit:.2f}",
            "held_kg": f"{live.held[9]:.3f}",
            "applied_kg": f"{self._applied[9]:.3f}",
        } | self.torque_report()
        if found is not None:
            values |= {
                "mass_kg": f"{found.mass_kg:.3f}",
                "mass_deviation_kg": f"{found.mass_deviation_kg:.3f}",
                "centre_m": ", ".join(f"{one:.3f}" for one in found.centre_m),
                "centre_deviation_m": ", ".join(f"{one:.3f}" for one in found.centre_deviation_m),
            }
        text = self._trouble or (
            "estimating" if not self._guided else "hand guiding is active: the payload is not estimated"
        )
        status = DiagnosticStatus("payload", 2 if self._trouble else 0, text, "", values)
        self._diagnostics.publish(encode_diagnostics(time.time_ns(), [status]))


def main() -> None:
    """Run the payload node in this process."""
    prefer_throughput()
    run_node(PayloadNode, events=True)


if __name__ == "__main__":
    main()
