"""Node that offers control_msgs/FollowJointTrajectory (what MoveIt speaks) in front of the executor.

A goal becomes a message on `joint_trajectory`, named by the goal's id; its outcome is read from `motion_status`. A
cancelled goal calls `executor/cancel`. It needs control_msgs, which comes with an installed ROS and not with wheels.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from dynid.errors import NodeError
from dynid.nodes.common import LATCHED, declare, run_node

UNHEARD_S = 5.0  # how long the executor may take to begin or refuse: it checks the whole motion first
POLL_S = 0.05


@dataclass(frozen=True)
class Outcome:
    """How a goal ended, and why; "lost" is a motion that began and was given up."""

    end: Literal["reached", "refused", "cancelled", "lost"]
    reason: str


def outcome_of(status: dict[str, Any], identifier: str) -> Outcome | None:
    """What a `motion_status` says of a goal; None while it runs, and for the motions of others."""
    if status.get("id") != identifier:
        return None
    state, reason = status.get("state"), str(status.get("reason") or "")
    if state == "refused":
        return Outcome("refused", reason)
    if state == "cancelled":
        return Outcome("lost", reason) if reason else Outcome("cancelled", "cancelled")
    if state == "done":
        tracking = status.get("tracking") or {}
        return Outcome("reached", ", ".join(f"{key} {value}" for key, value in tracking.items()))
    return None


class GoalWatch:
    """Waits for the end of one goal; `now` is a steady clock [s]."""

    def __init__(self, identifier: str, now: Callable[[], float] = time.monotonic) -> None:
        self.identifier, self._now = identifier, now
        self._began, self._heard = now(), False
        self.outcome: Outcome | None = None

    def hear(self, text: str) -> None:
        """A message of `motion_status`."""
        status = json.loads(text)
        if self._heard and status.get("id") != self.identifier and self.outcome is None:
            self.outcome = Outcome("lost", f"another motion replaced it: {status.get('trajectory')}")
        self._heard |= status.get("id") == self.identifier
        self.outcome = self.outcome or outcome_of(status, self.identifier)

    def tick(self) -> None:
        """Time passes: an executor that says nothing does not run."""
        if not self._heard and self.outcome is None and self._now() - self._began > UNHEARD_S:
            self.outcome = Outcome("refused", f"the executor did not answer within {UNHEARD_S:.0f} s: is it running?")


class TrajectoryActionNode(Node):
    """Offers the action; see the module.

    Raises:
        NodeError: control_msgs is not installed.
    """

    def __init__(self) -> None:
        super().__init__("trajectory_action")
        try:
            from control_msgs.action import FollowJointTrajectory
        except ImportError as error:
            raise NodeError(
                f"the action FollowJointTrajectory needs control_msgs, which is not installed ({error}): install it "
                "with ROS, or publish a JointTrajectory on joint_trajectory"
            ) from error
        self._action = FollowJointTrajectory
        name = declare(
            self, "action_name", "joint_trajectory_controller/follow_joint_trajectory", "name of the action", fixed=True
        )
        self._watch: GoalWatch | None = None
        beside = ReentrantCallbackGroup()
        self._motions = self.create_publisher(JointTrajectory, "joint_trajectory", 10)
        self.create_subscription(String, "motion_status", self._on_status, LATCHED, callback_group=beside)
        self._cancel = self.create_client(Trigger, "executor/cancel", callback_group=beside)
        self._server = ActionServer(
            self,
            FollowJointTrajectory,
            name,
            self._on_goal,
            callback_group=beside,
            goal_callback=self._on_request,
            cancel_callback=lambda _: CancelResponse.ACCEPT,
        )

    def shut_down(self) -> None:
        """Nothing to release: the executor holds the arm."""

    def _on_request(self, _: Any) -> GoalResponse:
        return GoalResponse.ACCEPT if self._watch is None else GoalResponse.REJECT

    def _on_status(self, message: String) -> None:
        if self._watch is not None:
            self._watch.hear(message.data)

    async def _on_goal(self, goal: Any) -> Any:
        """Run one goal to its end."""
        identifier = bytes(goal.goal_id.uuid).hex()
        watch = self._watch = GoalWatch(identifier)
        message = goal.request.trajectory
        message.header.frame_id = identifier
        self._motions.publish(message)
        asked = False
        try:
            while watch.outcome is None:
                watch.tick()
                if goal.is_cancel_requested and not asked:
                    self._cancel.call_async(Trigger.Request())
                    asked = True
                await self._sleep()
        finally:
            self._watch = None
        return self._result(goal, watch.outcome)

    def _result(self, goal: Any, outcome: Outcome) -> Any:
        kinds = self._action.Result
        result = kinds()
        result.error_string = outcome.reason
        result.error_code = kinds.SUCCESSFUL
        if outcome.end == "reached":
            goal.succeed()
        elif outcome.end == "cancelled" and goal.is_cancel_requested:
            goal.canceled()
        else:
            goal.abort()
            result.error_code = kinds.INVALID_GOAL if outcome.end == "refused" else kinds.PATH_TOLERANCE_VIOLATED
        return result

    async def _sleep(self) -> None:
        """Let the node do its other work for a moment."""
        done = Future(executor=self.executor)
        timer = self.create_timer(POLL_S, lambda: done.set_result(None))
        await done
        self.destroy_timer(timer)


def main() -> None:
    """Run the node."""
    run_node(TrajectoryActionNode)


if __name__ == "__main__":
    main()
