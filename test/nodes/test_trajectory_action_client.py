"""A real client of FollowJointTrajectory with the simulated arm, if control_msgs is installed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")
pytest.importorskip("control_msgs", reason="control_msgs is not installed: it comes with a ROS installation")

from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance
from rclpy.action import ActionClient
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dynid.nodes.chain import Chain, ChainOptions
from dynid.robot import load_robot

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROBOT = load_robot("crane_x7")
WRIST = ROBOT.joint_names[6]
ACTION = "joint_trajectory_controller/follow_joint_trajectory"
CODES = FollowJointTrajectory.Result
SUCCEEDED, CANCELED, ABORTED = 4, 5, 6  # of action_msgs/GoalStatus


@pytest.fixture(autouse=True, scope="module")
def domain() -> None:
    """Reserve no ROS domain: the chain reserves its own."""


class Arm:
    """The chain and a client of its action."""

    def __init__(self, chain: Chain) -> None:
        self.call = chain.supervisor
        self.client = ActionClient(self.call.node, FollowJointTrajectory, ACTION)
        self.q: dict[str, float] = {}
        self.call.node.create_subscription(JointState, "joint_states", self._on_state, 1)
        self.call.wait(lambda: self.client.server_is_ready() and bool(self.q), 60.0, "the action and a state")

    def _on_state(self, message: JointState) -> None:
        self.q = dict(zip(message.name, message.position, strict=True))

    def send(self, goal: Any) -> "Sent":
        """A goal that was accepted."""
        return Sent(self, goal)

    def turned(self, by_rad: float, seconds: int, joint: str = WRIST, **more: Any) -> Any:
        """A goal that turns one joint from where it is."""
        end = JointTrajectoryPoint(positions=[self.q.get(joint, 0.0) + by_rad], time_from_start=Duration(sec=seconds))
        return FollowJointTrajectory.Goal(trajectory=JointTrajectory(joint_names=[joint], points=[end]), **more)


class Sent:
    """A goal under way."""

    def __init__(self, arm: Arm, goal: Any) -> None:
        self.arm, self.feedback = arm, []
        asked = arm.client.send_goal_async(goal, feedback_callback=lambda one: self.feedback.append(one.feedback))
        arm.call.wait(asked.done, 30.0, "the goal's answer")
        self.handle = asked.result()
        assert self.handle.accepted
        self.end = self.handle.get_result_async()

    def moves(self) -> None:
        """Wait until the arm moves."""
        self.arm.call.wait(lambda: len(self.feedback) > 5, 60.0, "feedback")

    def result(self) -> tuple[int, int, str]:
        """Status, code and reason of its end."""
        self.arm.call.wait(self.end.done, 60.0, "the goal's end")
        found = self.end.result()
        return found.status, found.result.error_code, found.result.error_string


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arm]:
    logs: Path = tmp_path_factory.mktemp("action") / "logs"
    with Chain(ROBOT, ChainOptions("crane_x7", identification=False, rate_hz=250), logs) as chain:
        chain.activate()
        chain.add_node("trajectory_action_node", "trajectory_action", {})
        made = Arm(chain)
        refused = made.send(made.turned(0.1, 1)).result()
        assert refused[:2] == (ABORTED, CODES.INVALID_GOAL) and "torque is off" in refused[2]
        chain.supervisor.set_enabled("hardware", True)
        yield made
        assert chain.hardware is not None and chain.arm is not None
        for process in (chain.hardware, chain.arm):  # nobody waits until a simulated arm is let down
            chain.kill(process)


def test_a_goal_is_reached_within_its_tolerance(arm: Arm) -> None:
    aimed, limits = arm.q[WRIST] + 0.3, [JointTolerance(name=WRIST, position=one) for one in (0.2, 0.1)]
    sent = arm.send(arm.turned(0.3, 2, path_tolerance=limits[:1], goal_tolerance=limits[1:]))
    status, code, reason = sent.result()
    assert (status, code) == (SUCCEEDED, CODES.SUCCESSFUL), reason
    assert abs(arm.q[WRIST] - aimed) < 0.1
    assert sent.feedback and sent.feedback[0].joint_names == [WRIST]


def test_a_goal_is_cancelled_and_the_arm_stands(arm: Arm) -> None:
    sent = arm.send(arm.turned(-0.6, 6))
    sent.moves()
    asked = sent.handle.cancel_goal_async()
    status, _, reason = sent.result()
    assert asked.done() and (status, reason) == (CANCELED, "cancelled")


def test_a_newer_goal_replaces_the_one_that_runs(arm: Arm) -> None:
    first = arm.send(arm.turned(0.6, 6))
    first.moves()
    second = arm.send(arm.turned(-0.2, 2))
    assert first.result() == (ABORTED, CODES.INVALID_GOAL, "a newer goal replaced it")
    assert second.result()[:2] == (SUCCEEDED, CODES.SUCCESSFUL)


def test_a_path_tolerance_that_no_arm_keeps_ends_the_motion(arm: Arm) -> None:
    sent = arm.send(arm.turned(0.5, 2, path_tolerance=[JointTolerance(name=WRIST, position=1e-6)]))
    status, code, reason = sent.result()
    assert (status, code) == (ABORTED, CODES.PATH_TOLERANCE_VIOLATED) and f"position of '{WRIST}'" in reason


@pytest.mark.parametrize(
    ("joint", "by_rad", "code", "words"),
    [("elbow", 0.1, CODES.INVALID_JOINTS, "elbow"), (WRIST, 9.0, CODES.INVALID_GOAL, WRIST)],
)
def test_impossible_goals_are_refused_with_a_sentence(
    arm: Arm, joint: str, by_rad: float, code: int, words: str
) -> None:
    status, found, reason = arm.send(arm.turned(by_rad, 2, joint)).result()
    assert (status, found) == (ABORTED, code) and words in reason
