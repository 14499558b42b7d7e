"""Node that offers control_msgs/FollowJointTrajectory (what MoveIt speaks) in front of the executor.

A goal becomes a message on `joint_trajectory`, named by the goal's id; its outcome is read from `motion_status`. A
cancelled goal calls `executor/cancel`, and so does one that leaves its path tolerance. It needs control_msgs, which
comes with an installed ROS and not with wheels.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from rclpy.time import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dynid.errors import ConfigurationError, NodeError
from dynid.nodes.common import LATCHED, declare, run_node
from dynid.nodes.goal_tolerances import GoalMonitor, Moment, Tolerances
from dynid.robot import FloatArray

UNHEARD_S = 5.0  # how long the executor may take to begin or refuse: it checks the whole motion first
POLL_S = 0.05  # also between two messages of feedback
SETTLE_S = 1.0  # for the arm to come within the goal tolerance, where the goal says nothing
LONGEST_WAIT_S = 10.0  # for the time at which a trajectory is to start


@dataclass(frozen=True)
class Outcome:
    """How a goal ended, and why; "lost" is a motion that began and was given up, "missed" one that ended elsewhere."""

    end: Literal["reached", "refused", "cancelled", "lost", "missed", "late"]
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

    @property
    def answered(self) -> bool:
        """Whether the executor has said anything of this goal."""
        return self._heard

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
        self._taken = False
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
        if self._taken:
            return GoalResponse.REJECT
        self._taken = True  # from now on: the next request may come before this goal begins
        return GoalResponse.ACCEPT

    def _on_status(self, message: String) -> None:
        if self._watch is not None:
            self._watch.hear(message.data)

    async def _on_goal(self, goal: Any) -> Any:
        """Run one goal to its end."""
        watch = self._watch = GoalWatch(bytes(goal.goal_id.uuid).hex())
        streams: list[Any] = []
        try:
            message = goal.request.trajectory
            end = message.points[-1].positions if message.points else ()
            tolerances = Tolerances.of(goal.request)
            monitor = GoalMonitor(tolerances, message.joint_names, end)
            for kind, topic, take in (
                (JointState, "joint_states", monitor.on_state),
                (JointTrajectory, "reference", monitor.on_reference),
            ):
                streams.append(self.create_subscription(kind, topic, take, 1, raw=True))
            outcome = await self._run(goal, watch, monitor)
            if outcome.end == "reached":
                outcome = await self._settled(outcome, monitor, goal, tolerances.goal_time_s or SETTLE_S)
        except ConfigurationError as error:
            outcome = Outcome("refused", str(error))
        finally:
            self._watch, self._taken = None, False
            for stream in streams:
                self.destroy_subscription(stream)
        return self._result(goal, outcome)

    async def _run(self, goal: Any, watch: "GoalWatch", monitor: GoalMonitor) -> Outcome:
        message = goal.request.trajectory
        early = await self._start_of(goal, message)
        if early is not None:
            return early
        message.header.frame_id = watch.identifier
        self._motions.publish(message)
        left, asked_at, asked = "", math.inf, None  # asked: the answer to the last request to stop
        while watch.outcome is None:
            watch.tick()
            self._feed_back(goal, moment := monitor.moment())
            left = left or monitor.off_path(moment)
            if (left or goal.is_cancel_requested) and (asked is None or asked.done()):
                asked = self._cancel.call_async(Trigger.Request())  # again: one may overtake the trajectory itself
                asked_at = min(asked_at, time.monotonic())
            if time.monotonic() - asked_at > UNHEARD_S:
                return Outcome("lost", f"{left or 'cancelled'}; the executor did not stop when it was asked to")
            await self._sleep()
        if not watch.answered:  # it may still read the trajectory, when nobody expects it any more
            self._cancel.call_async(Trigger.Request())
        if left and watch.outcome.end != "refused":
            return Outcome("lost", left)
        if asked is not None and watch.outcome.end == "refused":  # cancelled while it was checked: nothing moved
            return Outcome("cancelled", watch.outcome.reason)
        return watch.outcome

    async def _start_of(self, goal: Any, message: Any) -> Outcome | None:
        """Wait for the time at which a trajectory is to start; how the goal ended where it does not."""
        stamp = message.header.stamp
        wait = stamp.sec + 1e-9 * stamp.nanosec - 1e-9 * self.get_clock().now().nanoseconds
        if not (stamp.sec or stamp.nanosec):  # at once
            return None
        last = message.points[-1].time_from_start if message.points else None
        if last is not None and wait + last.sec + 1e-9 * last.nanosec < 0.0:
            return Outcome("late", f"the trajectory was to start {-wait:.1f} s ago and is over: stamp 0 starts at once")
        if wait > LONGEST_WAIT_S:
            return Outcome("refused", f"the trajectory starts in {wait:.1f} s, expected at most {LONGEST_WAIT_S:.0f} s")
        while self.get_clock().now() < Time.from_msg(stamp, self.get_clock().clock_type):
            if goal.is_cancel_requested:
                return Outcome("cancelled", "cancelled before its start")
            await self._sleep()
        return None

    async def _settled(self, outcome: Outcome, monitor: GoalMonitor, goal: Any, longest_s: float) -> Outcome:
        """A motion that is over, once the arm is within the goal tolerance."""
        until = time.monotonic() + longest_s
        while off := monitor.off_goal(moment := monitor.moment()):
            if time.monotonic() > until or goal.is_cancel_requested:
                break
            self._feed_back(goal, moment)
            await self._sleep()
        if off and goal.is_cancel_requested:
            return Outcome("cancelled", f"cancelled at its end, where {off}")
        return Outcome("missed", off) if off else outcome

    def _feed_back(self, goal: Any, moment: Moment | None) -> None:
        if moment is None:
            return
        feedback = self._action.Feedback()
        feedback.header.stamp = self.get_clock().now().to_msg()
        feedback.joint_names = list(moment.joints)
        feedback.desired, feedback.actual = (_point(side) for side in (moment.desired, moment.actual))
        feedback.error = _point({key: moment.desired[key] - moment.actual[key] for key in moment.desired})
        goal.publish_feedback(feedback)

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
            result.error_code = {
                "refused": kinds.INVALID_GOAL,
                "late": kinds.OLD_HEADER_TIMESTAMP,
                "missed": kinds.GOAL_TOLERANCE_VIOLATED,
            }.get(outcome.end, kinds.PATH_TOLERANCE_VIOLATED)
        return result

    async def _sleep(self) -> None:
        """Let the node do its other work for a moment."""
        done = Future(executor=self.executor)
        timer = self.create_timer(POLL_S, lambda: done.set_result(None))
        await done
        self.destroy_timer(timer)


def _point(side: Mapping[str, FloatArray]) -> JointTrajectoryPoint:
    return JointTrajectoryPoint(positions=side["position"].tolist(), velocities=side["velocity"].tolist())


def main() -> None:
    """Run the node."""
    run_node(TrajectoryActionNode)


if __name__ == "__main__":
    main()
