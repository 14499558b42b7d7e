"""What becomes of a FollowJointTrajectory goal; the action itself needs control_msgs, which no wheel brings."""

import importlib.util
import json

import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from dynid.nodes.processes import ProcessGroup
from dynid.nodes.trajectory_action_node import UNHEARD_S, GoalWatch, Outcome, outcome_of


def status(state: str, identifier: str = "goal", **more: object) -> dict[str, object]:
    return {"id": identifier, "trajectory": "t", "state": state, "reason": "", **more}


def test_states_of_the_executor_become_outcomes() -> None:
    for running in ("approach", "trajectory", "rest"):
        assert outcome_of(status(running), "goal") is None
    assert outcome_of(status("done", tracking={"rms_deg": 0.5}), "goal") == Outcome("reached", "rms_deg 0.5")
    assert outcome_of(status("refused", reason="too far"), "goal") == Outcome("refused", "too far")
    assert outcome_of(status("cancelled"), "goal") == Outcome("cancelled", "cancelled")
    assert outcome_of(status("cancelled", reason="lost"), "goal") == Outcome("lost", "lost")
    assert outcome_of(status("done"), "another") is None


def test_a_goal_that_nobody_answers_and_one_that_is_displaced_end() -> None:
    clock = [100.0]
    watch = GoalWatch("goal", lambda: clock[0])
    watch.hear(json.dumps(status("done", "before")))  # latched, of the motion before
    clock[0] += UNHEARD_S - 0.1
    watch.tick()
    assert watch.outcome is None
    clock[0] += 0.2
    watch.tick()
    assert watch.outcome is not None and "is it running?" in watch.outcome.reason
    watch = GoalWatch("goal", lambda: clock[0])
    watch.hear(json.dumps(status("approach")))
    clock[0] += 100.0
    watch.tick()
    assert watch.outcome is None
    watch.hear(json.dumps(status("approach", "later")))
    assert watch.outcome is not None and "another motion replaced it" in watch.outcome.reason


def test_the_first_outcome_stays() -> None:
    watch = GoalWatch("goal")
    for state in ("approach", "trajectory", "done"):
        watch.hear(json.dumps(status(state)))
    watch.hear(json.dumps(status("approach", "later")))
    assert watch.outcome is not None and watch.outcome.end == "reached"


@pytest.mark.skipif(importlib.util.find_spec("control_msgs") is not None, reason="control_msgs is installed")
def test_without_control_msgs_the_node_says_so_in_one_sentence(group: ProcessGroup) -> None:
    process = group.start_node("trajectory_action_node", "trajectory_action")
    assert process._child.wait(300) == 1
    assert process.last_error().startswith("the action FollowJointTrajectory needs control_msgs")
    group.processes.remove(process)
