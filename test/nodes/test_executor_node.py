"""The executor node as a process, with this test as its arm."""

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory

from dynid.errors import NodeError
from dynid.nodes.common import STREAM
from dynid.nodes.processes import Process, ProcessGroup
from dynid.nodes.supervisor import Supervisor
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")


@pytest.fixture
def node(group: ProcessGroup) -> Process:
    return group.start_node("executor_node", "executor")


class PerfectArm:
    """Publishes joint states that are where the reference is, on a clock of its own."""

    def __init__(self, client: Supervisor, q: np.ndarray) -> None:
        self.client, self.q, self.stamp_ns = client, np.array(q), 1_000_000_000
        self.commands: list[JointState] = []
        self.names = list(ROBOT.joint_names)
        node = client.node
        self._publisher = node.create_publisher(JointState, "joint_states", STREAM)
        node.create_subscription(JointState, "joint_commands", self.commands.append, STREAM)
        node.create_subscription(JointTrajectory, "reference", self._follow, STREAM)
        self.follows = True
        node.create_timer(0.005, self._publish)

    def _follow(self, reference: JointTrajectory) -> None:
        if self.follows:
            self.q = np.array(reference.points[0].positions)

    def _publish(self) -> None:
        self.stamp_ns += 5_000_000
        sec, nanosec = divmod(self.stamp_ns, 10**9)
        zero = [0.0] * len(self.names)
        header = Header(stamp=Time(sec=sec, nanosec=nanosec))
        self._publisher.publish(
            JointState(header=header, name=self.names, position=self.q.tolist(), velocity=zero, effort=zero)
        )

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        self.client.wait(condition, 30.0, what)

    def wait_until_seen(self) -> None:
        self.wait(lambda: self.client.reported("executor", "state_age_s") not in ("", "inf"), "joint_states there")


def begin(client: Supervisor, name: str = "demo_validation") -> str:
    client.set_parameters("executor", {"trajectory": name})
    return client.trigger("executor/execute")


def state(client: Supervisor) -> str | None:
    return client.experiment.state if client.experiment else None


def test_without_an_arm_nothing_is_executed(client: Supervisor, node: Process) -> None:
    with pytest.raises(NodeError, match="no joint_states yet: is the arm active"):
        begin(client)
    with pytest.raises(NodeError, match=r"unknown trajectory 'nope'; known: .*AG02"):
        begin(client, "nope")
    with pytest.raises(NodeError, match="unknown trajectory ''"):
        begin(client, "")
    client.set_parameters("executor", {"profile": "nope"})
    with pytest.raises(NodeError, match="unknown trajectory profile 'nope'"):
        begin(client)
    with pytest.raises(NodeError, match="nothing is moving"):
        client.trigger("executor/cancel")
    assert node.running and client.experiment is None


def test_states_of_other_joints_are_not_the_arms(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.names = [f"other_{name}" for name in ROBOT.joint_names]
    client.wait(lambda: "executor" in client.reports, 10.0, "a report")
    with pytest.raises(NodeError, match="no joint_states yet"):
        begin(client)


def test_a_motion_begins_where_the_arm_is_and_ends_when_it_is_cancelled(client: Supervisor, node: Process) -> None:
    start = ROBOT.rest_posture + 0.1
    arm = PerfectArm(client, start)
    arm.wait_until_seen()
    assert not arm.commands
    assert "executing demo_validation (limited)" in begin(client)
    arm.wait(lambda: len(arm.commands) > 20, "commands")
    first = arm.commands[0]
    assert list(first.name) == list(ROBOT.joint_names) and len(first.effort) == ROBOT.size
    assert np.isfinite(first.effort).all() and len(first.position) == 0
    assert np.abs(arm.q - start).max() < 0.3  # no jump
    with pytest.raises(NodeError, match="a motion is under way"):
        begin(client)
    with pytest.raises(NodeError, match="a motion is under way"):
        client.trigger("executor/release")
    arm.wait(lambda: state(client) == "approach", "the approach")
    client.trigger("executor/cancel")
    arm.wait(lambda: state(client) == "cancelled", "the end of the motion")
    client.trigger("executor/release")
    last = len(arm.commands)
    arm.wait(lambda: client.reports["executor"].message == "idle", "the release")
    seen = len(arm.commands)
    client.reports.clear()
    arm.wait(lambda: "executor" in client.reports, "another second")
    assert len(arm.commands) == seen >= last


def test_an_arm_that_does_not_follow_is_given_up(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.wait_until_seen()
    begin(client)
    arm.wait(lambda: len(arm.commands) > 20, "commands")
    arm.follows = False
    arm.q = arm.q + np.array([0, 0, 0.5, 0, 0, 0, 0, 0])
    arm.wait(lambda: state(client) == "cancelled", "the end of the motion")
    assert "crane_x7_upper_arm_revolute_part_twist_joint is" in node.last_error()
    assert "deg off its reference" in node.last_error() and node.running
    arm.follows, arm.q = True, np.array(ROBOT.rest_posture)
    client.experiment = None
    begin(client)
    arm.wait(lambda: state(client) == "approach", "another motion")
