"""The node external_torque as a process: it detects and reports a force."""

import logging
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from test.shared.felt import ARM, ROBOT, N, control_model, model_file

from dynid.contact.contact_report import ContactReport, SharedModel, digest
from dynid.contact.payload import with_payload
from dynid.contact.recorded import sense_of
from dynid.contact.shared_sense import SharedSense
from dynid.model.model_file import save_model
from dynid.model.standard import LinkInertia, from_link_frame
from dynid.nodes.common import LATCHED, STREAM
from dynid.nodes.external_torque_node import ExternalTorqueNode
from dynid.nodes.processes import ProcessGroup
from dynid.nodes.supervisor import Supervisor

CYCLE_NS, PUSH_NM = 1_000_000, 5.0


def test_a_push_is_published_by_the_executors_model_and_payload(
    group: ProcessGroup, client: Supervisor, tmp_path: Path
) -> None:
    save_model(tmp_path / "model.yaml", model_file())
    group.start_node("external_torque_node", "external_torque", {"model_file": str(tmp_path / "model.yaml")})
    node, torques, forces, said = client.node, [], [], list[ContactReport]()
    node.create_subscription(
        String, "contact", lambda message: said.append(ContactReport.model_validate_json(message.data)), STREAM
    )
    shared = node.create_publisher(String, "control_model", LATCHED)
    node.create_subscription(JointState, "external_torque", torques.append, STREAM)
    node.create_subscription(WrenchStamped, "tool_force", forces.append, STREAM)
    states = node.create_publisher(JointState, "joint_states", STREAM)
    commands = node.create_publisher(JointState, "joint_commands", STREAM)
    client.wait(lambda: client.reported("external_torque", "states") == "0", 60.0, "a first report")
    still, names, stamp_ns = ROBOT.rest_posture, list(ROBOT.joint_names), 0
    holding = ARM.inverse_dynamics(still, 0.0 * still, 0.0 * still, control_model().phi)[0]

    def publish(push_nm: float) -> None:
        """Ten states of an arm that stands while its motors carry its weight, less a push at the shoulder."""
        nonlocal stamp_ns
        for _ in range(10):
            stamp_ns += CYCLE_NS
            state, command = JointState(name=names), JointState(name=names)
            for message in (state, command):
                message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
            state.position, state.velocity, state.effort = still.tolist(), [0.0] * N, [0.0] * N
            command.effort = (holding - push_nm * np.eye(N)[1]).tolist()
            commands.publish(command)
            states.publish(state)

    def fed(condition, push_nm: float, what: str) -> None:  # type: ignore[no-untyped-def]
        timer = node.create_timer(0.01, lambda: publish(push_nm))
        client.wait(condition, 60.0, what)
        node.destroy_timer(timer)

    fed(lambda: len(torques) > 300, 0.0, "torques of a free arm")
    assert not any(one.contact or one.model for one in said) and said[-1].stamp_ns > 0
    assert np.abs([list(one.effort) for one in torques[-50:]]).max() < 0.05
    fed(lambda: said[-1].contact and len(forces) > 50, PUSH_NM, "a contact")
    assert said[-1].joint == names[1] and 0 < said[-1].stamp_ns <= stamp_ns
    fed(lambda: abs(torques[-1].effort[1] - PUSH_NM) < 0.2, PUSH_NM, "the push")
    assert list(torques[-1].name) == names and forces[-1].header.frame_id == ROBOT.file.base_link
    assert client.reported("external_torque", "last_felt_by") in ("", names[1])
    cube = LinkInertia(0.6, np.array(ROBOT.file.tool_m), 2e-4 * np.eye(3))
    body = np.asarray(from_link_frame(cube, ARM.mdh.in_link[-1]))
    loaded = with_payload(ARM, control_model(), body)
    holding[:] = ARM.inverse_dynamics(still, 0.0 * still, 0.0 * still, loaded.phi)[0]
    fed(lambda: said[-1].contact and said[-1].torque_nm < 0.0, 0.0, "the payload as a contact")
    text = SharedModel.of(ARM, control_model(), body).model_dump_json()
    shared.publish(String(data=text))
    fed(lambda: said[-1].model == digest(text) and not said[-1].contact, 0.0, "the payload as what it is")
    shared.publish(String(data=text.replace(ARM.structure_hash, "another")))
    fed(lambda: said[-1].model == "", 0.0, "the end of the shared model")
    client.wait(lambda: "structure another" in client.reports["external_torque"].message, 60.0, "its reason")


class Reporting:
    """What the node's report and reaction look at, with a sense whose contact the test decides."""

    def __init__(self) -> None:
        self.robot, self._sense = ROBOT, SharedSense(sense_of(ROBOT, model_file()))
        self._contacts, self._states, self._joint, self._trouble, self._last_contact_s = 0, 1, "", "", -np.inf
        self._model, self._model_trouble, self._shared = "", "", None
        self._diagnostics, self.messages = self, []
        self._sense.sense.bars.threshold = np.ones(N)

    def torque_report(self) -> dict[str, str]:
        """Return no torques, as before the first estimate."""
        return {}

    def publish(self, raw: bytes) -> None:
        """Record the published diagnostics."""
        self.messages.append(deserialize_message(raw, DiagnosticArray).status[0])

    def get_logger(self) -> logging.Logger:
        """Return Python's root logger."""
        return logging.getLogger()


@pytest.mark.parametrize("by", ["nothing", "onset", "residual"])
def test_contact_is_reported_by_either_test(by: str) -> None:
    node = Reporting()
    node._sense.sense.onset.contact = by == "onset"
    node._sense.sense.touched[1] = by == "residual"
    node._sense.sense.observer.torque[1] = 2.0 * (by == "residual")
    if node._sense.sense.contact:
        ExternalTorqueNode._note_contact(node)  # type: ignore[arg-type]
    ExternalTorqueNode._report(node)  # type: ignore[arg-type]
    status = node.messages[0]
    values = {pair.key: pair.value for pair in status.values}
    assert (status.message, values["contact"]) == (("free", "False") if by == "nothing" else ("contact", "True"))
    assert by == "onset" or values["last_felt_by"] == {"nothing": "", "residual": ROBOT.joint_names[1]}[by]


def test_the_node_ends_without_a_model(group: ProcessGroup, client: Supervisor) -> None:
    process = group.start_node("external_torque_node", "external_torque")
    client.wait(lambda: not process.running, 60.0, "its end")


def test_a_policy_parameter_is_refused(group: ProcessGroup, client: Supervisor, tmp_path: Path) -> None:
    save_model(tmp_path / "model.yaml", model_file())
    given = {"model_file": str(tmp_path / "model.yaml"), "policy": "stop"}
    process = group.start_node("external_torque_node", "external_torque", given)
    client.wait(lambda: not process.running, 60.0, "its end")
    assert "no parameter 'policy': set the executor's parameter contact" in process.last_error()
