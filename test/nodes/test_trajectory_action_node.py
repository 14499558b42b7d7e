"""Outcomes of FollowJointTrajectory goals, without the action interface of control_msgs."""

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

import rclpy
from builtin_interfaces.msg import Duration, Time
from rclpy.executors import SingleThreadedExecutor
from sensor_msgs.msg import JointState
from std_msgs.msg import Header, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dynid.errors import ConfigurationError
from dynid.nodes import trajectory_action_node
from dynid.nodes.common import LATCHED
from dynid.nodes.experiment import MotionStatus
from dynid.nodes.goal_tolerances import Tolerances
from dynid.nodes.processes import ProcessGroup
from dynid.nodes.trajectory_action_node import (
    ANSWER_TIMEOUT_S,
    SILENT_S,
    GoalWatch,
    Outcome,
    TrajectoryActionNode,
    outcome_of,
)


def status(state: str, identifier: str = "goal", **more: object) -> dict[str, object]:
    return {"id": identifier, "trajectory": "t", "state": state, "reason": "", **more}


def said(state: str, identifier: str = "goal", **more: object) -> MotionStatus:
    return MotionStatus.model_validate(status(state, identifier, **more))


def test_executor_states_map_to_goal_outcomes() -> None:
    for running in ("approach", "trajectory", "rest"):
        assert outcome_of(said(running), "goal") is None
    tracking = {"states": 9, "rms_deg": 0.5, "largest_deg": 2.0, "largest_at": "a"}
    told = "goal reached: 0.50 deg RMS off its path, at most 2.00 deg (a)"
    assert outcome_of(said("done", tracking=tracking), "goal") == Outcome("reached", told)
    assert outcome_of(said("done", tracking={"states": 0}), "goal") == Outcome("reached", "goal reached")
    assert outcome_of(said("refused", reason="too far"), "goal") == Outcome("refused", "too far")
    assert outcome_of(said("cancelled"), "goal") == Outcome("cancelled", "cancelled")
    assert outcome_of(said("cancelled", reason="lost"), "goal") == Outcome("lost", "lost")
    assert outcome_of(said("done"), "another") is None


def test_unanswered_and_replaced_goals_end() -> None:
    clock = [100.0]
    watch = GoalWatch("goal", lambda: clock[0])
    watch.on_status(json.dumps(status("done", "before")))  # latched, of the motion before
    clock[0] += ANSWER_TIMEOUT_S - 0.1
    watch.tick()
    assert watch.outcome is None
    clock[0] += 0.2
    watch.tick()
    assert watch.outcome is not None and "is it running?" in watch.outcome.reason
    watch = GoalWatch("goal", lambda: clock[0])
    watch.on_status(json.dumps(status("approach")))
    for _ in range(30):
        clock[0] += SILENT_S - 0.1
        watch.on_reference()
        watch.tick()
    assert watch.outcome is None
    watch.on_status(json.dumps(status("refused", "another", reason="a motion is running")))
    assert watch.outcome is None  # it replaces nothing, and the motion that runs must still be watched
    watch.on_status(json.dumps(status("approach", "later")))
    assert watch.outcome is not None and "another motion replaced it" in watch.outcome.reason


def test_a_goal_ends_when_its_executor_gives_no_reference_any_more() -> None:
    clock = [100.0]
    watch = GoalWatch("goal", lambda: clock[0])
    watch.on_status(json.dumps(status("trajectory")))
    clock[0] += SILENT_S - 0.1
    watch.tick()
    assert watch.outcome is None
    clock[0] += 0.2
    watch.tick()
    assert watch.outcome == Outcome("lost", "no reference from the executor for 10 s: is it running?")


@pytest.mark.parametrize(
    "text",
    ["{not json", "[]", "null", "{}", '{"id": 5}', "[" * 100_000, '{"id": "goal", "state": "x"}', "x" * 2**21],
    ids=["no JSON", "list", "null", "nothing", "number", "nested", "another state", "long"],
)
def test_a_malformed_status_stops_the_goal(text: str) -> None:
    watch = GoalWatch("goal")
    watch.on_status(text)
    assert watch.outcome is not None and watch.outcome.end == "doubtful"
    assert "motion_status" in watch.outcome.reason and "\n" not in watch.outcome.reason


def test_a_goal_keeps_its_first_outcome() -> None:
    watch = GoalWatch("goal")
    for state in ("approach", "trajectory", "done"):
        watch.on_status(json.dumps(status(state)))
    watch.on_status(json.dumps(status("approach", "later")))
    assert watch.outcome is not None and watch.outcome.end == "reached"


@pytest.mark.skipif(importlib.util.find_spec("control_msgs") is not None, reason="control_msgs is installed")
def test_without_control_msgs_the_node_says_so_in_one_sentence(group: ProcessGroup) -> None:
    process = group.start_node("trajectory_action_node", "trajectory_action")
    assert process._child.wait(300) == 1
    assert process.last_error().startswith("the action FollowJointTrajectory needs control_msgs")
    group.processes.remove(process)


# -- a whole goal, with everything real but the action's own types ----------------------------------------------------

JOINTS = ("a", "b")


class Result(SimpleNamespace):
    """Codes of control_msgs/action/FollowJointTrajectory."""

    SUCCESSFUL, INVALID_GOAL, INVALID_JOINTS, OLD_HEADER_TIMESTAMP = 0, -1, -2, -3
    PATH_TOLERANCE_VIOLATED, GOAL_TOLERANCE_VIOLATED = -4, -5


class Goal:
    """What rclpy hands to the server for one goal."""

    def __init__(self, uuid: int = 0, **more: Any) -> None:
        end = JointTrajectoryPoint(positions=[1.0, 2.0], time_from_start=Duration(sec=1))
        trajectory = JointTrajectory(header=Header(), joint_names=list(JOINTS), points=[end])
        given = {"trajectory": trajectory, "path_tolerance": [], "goal_tolerance": []}
        self.request = SimpleNamespace(**given | {"goal_time_tolerance": Duration(nanosec=1)} | more)
        self.goal_id, self.is_cancel_requested = SimpleNamespace(uuid=uuid.to_bytes(16, "big")), False
        self.ended, self.feedback = "", []

    succeed, abort, canceled = (lambda self, how=how: setattr(self, "ended", how) for how in ("ok", "aborted", "gone"))

    def publish_feedback(self, feedback: Any) -> None:
        self.feedback.append(feedback)


def name(goal: Goal) -> str:
    return bytes(goal.goal_id.uuid).hex()


def tolerance(name: str, position: float = 0.0, velocity: float = 0.0, acceleration: float = 0.0) -> SimpleNamespace:
    return SimpleNamespace(name=name, position=position, velocity=velocity, acceleration=acceleration)


class Arm:
    """Executor and driver as the action sees them: joint b stays 0.03 rad behind, and 0.01 rad at the end."""

    brakes_for = 0  # cycles

    def __init__(self, node: Any) -> None:
        self.node, self.goal_name, self.step, self.cancelled = node, "", 0, False
        self.begun: list[str] = []
        self.stood: list[bool] = []  # when a goal began
        self.braking = 0  # cycles left, after a cancel
        self.states = node.create_publisher(JointState, "joint_states", 10)
        self.references = node.create_publisher(JointTrajectory, "reference", 10)
        self.status = node.create_publisher(String, "motion_status", LATCHED)
        node.create_subscription(JointTrajectory, "joint_trajectory", self._begin, 10)
        node.create_service(Trigger, "executor/cancel", lambda *given: self._on_cancel(*given))
        node.create_timer(0.01, lambda: self._tick())

    def say(self, state: str) -> None:
        self.status.publish(String(data=json.dumps(status(state, self.goal_name))))

    def _begin(self, message: JointTrajectory) -> None:
        self.goal_name, self.step, self.cancelled = message.header.frame_id, 0, False
        self.begun.append(self.goal_name)
        self.stood.append(not self.braking)
        self.braking = self.brakes_for
        self.say("trajectory" if set(message.joint_names) <= {"a", "b", "x"} else "refused")

    def _on_cancel(self, _: Any, response: Any) -> Any:
        self.cancelled, response.success = True, True
        self.say("cancelled")
        return response

    def _tick(self) -> None:
        if not self.goal_name:
            return
        self.step += 1
        header = Header(stamp=self.node.get_clock().now().to_msg())
        behind = 0.03 if self.step < 30 else 0.01
        self.braking = max(0, self.braking - self.cancelled)
        state = JointState(header=header, name=["b", "x", "a"], position=[2.0 - behind, 9.0, 1.0], velocity=[0.0] * 3)
        point = JointTrajectoryPoint(positions=[1.0, 2.0, 9.0], velocities=[0.1 if self.braking else 0.0] * 3)
        self.states.publish(state)
        self.references.publish(JointTrajectory(header=header, joint_names=["a", "b", "x"], points=[point]))
        if self.step == 30 and not self.cancelled:
            self.say("done")


@pytest.fixture
def run(domain: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Goal], Any]]:
    types = SimpleNamespace(Result=Result, Feedback=lambda: SimpleNamespace(header=Header()))
    module = ModuleType("control_msgs.action")
    module.FollowJointTrajectory = types  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "control_msgs", ModuleType("control_msgs"))
    monkeypatch.setitem(sys.modules, "control_msgs.action", module)
    monkeypatch.setattr(trajectory_action_node, "ActionServer", lambda *_, **__: None)
    rclpy.init()
    node, beside, executor = TrajectoryActionNode(), rclpy.create_node("arm"), SingleThreadedExecutor()
    arm = Arm(beside)
    executor.add_node(node), executor.add_node(beside)

    def follow(goal: Goal, *later: Goal) -> Any:
        """The result of a goal, or of each where others are sent as soon as it moves."""
        goal.arm, arm.executor = arm, executor  # type: ignore[attr-defined]
        tasks = [executor.create_task(node._on_goal, goal)]
        while later and not goal.feedback:
            executor.spin_once(timeout_sec=60.0)
        begun: list[Goal] = []

        async def begin(one: Goal) -> Any:
            begun.append(one)
            return await node._on_goal(one)

        for one in later:
            tasks.append(executor.create_task(begin, one))
            while one not in begun:  # in their order
                executor.spin_once(timeout_sec=60.0)
        for task in tasks:
            executor.spin_until_future_complete(task, timeout_sec=60.0)
        return [task.result() for task in tasks] if later else tasks[0].result()

    yield follow
    executor.shutdown(), node.destroy_node(), beside.destroy_node(), rclpy.shutdown()


def test_a_goal_is_reached_and_its_errors_are_fed_back(run: Callable[[Goal], Any]) -> None:
    goal = Goal(path_tolerance=[tolerance("b", 0.05)], goal_tolerance=[tolerance("b", 0.02), tolerance("a", -1.0)])
    assert (run(goal).error_code, goal.ended) == (Result.SUCCESSFUL, "ok")
    first = goal.feedback[0]
    assert first.joint_names == list(JOINTS) and list(first.desired.positions) == [1.0, 2.0]
    assert list(first.error.positions) == pytest.approx([0.0, 0.03])


def test_an_arm_that_leaves_the_path_tolerance_is_stopped(run: Callable[[Goal], Any]) -> None:
    goal = Goal(path_tolerance=[tolerance("b", 0.02)])
    result = run(goal)
    assert (result.error_code, goal.ended) == (Result.PATH_TOLERANCE_VIOLATED, "aborted")
    assert "position of 'b' is 0.03 rad off, more than the path tolerance of 0.02 rad" in result.error_string
    assert goal.arm.cancelled  # type: ignore[attr-defined]


def test_an_arm_that_ends_elsewhere_misses_its_goal(run: Callable[[Goal], Any]) -> None:
    result = run(goal := Goal(goal_tolerance=[tolerance("b", 0.005)]))
    assert (result.error_code, goal.ended) == (Result.GOAL_TOLERANCE_VIOLATED, "aborted")
    assert "0.01 rad off, more than the goal tolerance of 0.005 rad" in result.error_string


def test_a_cancel_is_repeated_until_the_motion_ends(run: Callable[[Goal], Any], monkeypatch: Any) -> None:
    answers, once = [], Arm._on_cancel

    def deaf_at_first(arm: Arm, request: Any, response: Any) -> Any:
        answers.append(request)
        return response if len(answers) < 3 else once(arm, request, response)

    monkeypatch.setattr(Arm, "_tick", lambda _: None)  # never done of itself
    monkeypatch.setattr(Arm, "_on_cancel", deaf_at_first)
    goal = Goal()
    goal.is_cancel_requested = True
    run(goal)
    assert goal.ended == "gone" and len(answers) == 3


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ({"path_tolerance": [tolerance("c", 0.1)]}, Result.INVALID_GOAL, "'c', which is no joint"),
        ({"goal_tolerance": [tolerance("a", -0.1)]}, Result.INVALID_GOAL, "expected a limit, 0 or -1"),
        ({"goal_tolerance": [tolerance("a", float("nan"))]}, Result.INVALID_GOAL, "expected a limit, 0 or -1"),
        ({"path_tolerance": [tolerance("a", acceleration=1.0)]}, Result.INVALID_GOAL, "is not measured"),
        ({"stamp": 3}, Result.OLD_HEADER_TIMESTAMP, "is over"),
        ({"stamp": 2_000_000_000}, Result.INVALID_GOAL, "expected at most 10 s"),
    ],
)
def test_goals_beyond_limits_are_refused_before_motion(
    run: Callable[[Goal], Any], more: dict[str, Any], code: int, words: str
) -> None:
    stamp = more.pop("stamp", 0)
    goal = Goal(**more)
    goal.request.trajectory.header.stamp.sec = stamp
    result = run(goal)
    assert (result.error_code, goal.ended) == (code, "aborted") and words in result.error_string
    assert not goal.arm.goal_name  # type: ignore[attr-defined]


def test_goal_is_aborted_if_the_executor_ends(run: Callable[[Goal], Any], monkeypatch: Any) -> None:
    monkeypatch.setattr(trajectory_action_node, "SILENT_S", 0.5)
    monkeypatch.setattr(Arm, "_tick", lambda self: None)
    goal = Goal()
    result = run(goal)
    assert (result.error_code, goal.ended) == (Result.PATH_TOLERANCE_VIOLATED, "aborted")
    assert "no reference from the executor" in result.error_string


@pytest.mark.parametrize("topic", ["motion_status", "reference", "joint_states"])
def test_goal_that_two_publishers_report_on_is_stopped(
    run: Callable[[Goal], Any], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[Any] = []
    kinds = {"motion_status": (String, LATCHED), "reference": (JointTrajectory, 10), "joint_states": (JointState, 10)}

    def tick(arm: Arm) -> None:
        if arm.goal_name and not others:
            kind, quality = kinds[topic]
            others.append(arm.node.create_publisher(kind, topic, quality))

    monkeypatch.setattr(Arm, "_tick", tick)  # never done of itself
    goal = Goal()
    result = run(goal)
    assert (result.error_code, goal.ended) == (Result.PATH_TOLERANCE_VIOLATED, "aborted")
    assert f"2 publishers send {topic}" in result.error_string
    arm = goal.arm  # type: ignore[attr-defined]
    while not arm.cancelled:
        arm.executor.spin_once(timeout_sec=10.0)
    if topic == "motion_status":  # nor is the next one begun
        assert run(again := Goal(2)).error_code == Result.INVALID_GOAL and again.ended == "aborted"
        assert len(arm.begun) == 1


def test_tolerances_of_zero_and_minus_one_set_no_limit() -> None:
    request = Goal(path_tolerance=[tolerance("a"), tolerance("b", -1.0, 0.5)]).request
    assert Tolerances.of(request).path == {("velocity", "b"): 0.5}
    with pytest.raises(ConfigurationError, match="'c', which is no joint"):
        Tolerances.of(Goal(goal_tolerance=[tolerance("c", 1.0)]).request)


def test_silent_executor_is_asked_to_cancel(run: Callable[[Goal], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectory_action_node, "ANSWER_TIMEOUT_S", 0.3)
    monkeypatch.setattr(Arm, "say", lambda *_: None)
    goal = Goal()
    result = run(goal)
    assert (result.error_code, goal.ended) == (
        Result.INVALID_GOAL,
        "aborted",
    ) and "is it running?" in result.error_string
    arm = goal.arm  # type: ignore[attr-defined]
    while not arm.cancelled:
        arm.executor.spin_once(timeout_sec=10.0)


def test_a_newer_goal_replaces_the_one_that_runs_once_the_arm_stands(run: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setattr(Arm, "brakes_for", 20)
    first, _, third = goals = [Goal(uuid) for uuid in (1, 2, 3)]
    results = run(*goals)
    assert [(one.error_code, goal.ended) for one, goal in zip(results, goals, strict=True)] == [
        (Result.INVALID_GOAL, "aborted"),
        (Result.INVALID_GOAL, "aborted"),
        (Result.SUCCESSFUL, "ok"),
    ]
    assert all(one.error_string == "a newer goal replaced it" for one in results[:2])
    assert first.arm.begun == [name(first), name(third)] and first.arm.stood == [True, True]  # the second never began


def test_a_goal_that_is_wrong_does_not_stop_the_one_that_runs(run: Callable[..., Any]) -> None:
    good, bad = run(goal := Goal(1), Goal(2, path_tolerance=[tolerance("c", 0.1)]))
    assert (good.error_code, bad.error_code, goal.ended) == (Result.SUCCESSFUL, Result.INVALID_GOAL, "ok")


def test_unknown_joint_gives_the_code_for_invalid_joints(run: Callable[..., Any]) -> None:
    goal = Goal()
    goal.request.trajectory.joint_names = ["a", "elbow"]
    assert run(goal).error_code == Result.INVALID_JOINTS


def test_the_executor_has_its_time_to_answer_also_after_a_late_start(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trajectory_action_node, "ANSWER_TIMEOUT_S", 1.0)
    goal = Goal()
    now_ns = time.time_ns() + 2_000_000_000
    goal.request.trajectory.header.stamp = Time(sec=now_ns // 10**9, nanosec=now_ns % 10**9)
    assert run(goal).error_code == Result.SUCCESSFUL
