"""The node payload as a process: from states of an arm that moves a body to mass and standard deviation."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from geometry_msgs.msg import InertiaStamped
from sensor_msgs.msg import JointState
from test.shared.felt import ROBOT, N, model_file, moved

from dynid.model.model_file import save_model
from dynid.nodes.common import STREAM
from dynid.nodes.processes import ProcessGroup
from dynid.nodes.supervisor import Supervisor
from dynid.robot import FloatArray
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.simulation.plant.held import holding

HELD_KG, MOST_STATES = 0.2, 4000


def states_of_a_motion() -> list[tuple[int, FloatArray, FloatArray]]:
    """Stamps, readings and commands of an arm that moves a body there and back."""
    rows: list[tuple[int, FloatArray, FloatArray]] = []

    def each(arm: SteppedArm, tau: FloatArray) -> None:
        rows.append((arm.stamp_ns, np.array(arm.position), np.array(tau)))

    moved(lambda arm, time_s: None, each, 5, holding(ROBOT, HELD_KG))
    return rows[:MOST_STATES]


def test_a_body_that_is_moved_is_weighed(group: ProcessGroup, client: Supervisor, tmp_path: Path) -> None:
    save_model(tmp_path / "model.yaml", model_file())
    group.start_node("payload_node", "payload", {"model_file": str(tmp_path / "model.yaml")})
    node, names, found = client.node, list(ROBOT.joint_names), []
    states = node.create_publisher(JointState, "joint_states", STREAM)
    commands = node.create_publisher(JointState, "joint_commands", STREAM)
    node.create_subscription(InertiaStamped, "payload", found.append, STREAM)
    client.wait(lambda: client.reported("payload", "policy") == "report", 60.0, "a first report")
    rows = states_of_a_motion()
    count = len(rows)

    def publish() -> None:
        """A few states; the node takes each of them, however late."""
        for stamp_ns, q, tau in rows[:5]:
            state, command = JointState(name=names), JointState(name=names)
            for message in (state, command):
                message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
            state.position, state.velocity, state.effort = q.tolist(), [0.0] * N, [0.0] * N
            command.effort = tau.tolist()
            commands.publish(command)
            states.publish(state)
        del rows[:5]

    node.create_timer(0.01, publish)
    client.wait(lambda: int(client.reported("payload", "states") or 0) > 0.9 * count, 120.0, "the end of the states")
    client.wait(lambda: bool(client.reported("payload", "mass_kg")), 10.0, "an estimate in the report")
    assert abs(float(client.reported("payload", "mass_kg")) - HELD_KG) < 0.05
    assert 0.0 < float(client.reported("payload", "mass_deviation_kg")) < 0.05
    assert found and found[-1].header.frame_id and abs(found[-1].inertia.m - HELD_KG) < 0.05
