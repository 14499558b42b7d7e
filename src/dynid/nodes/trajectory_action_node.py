"""Node that offers control_msgs/FollowJointTrajectory (the interface of MoveIt) in front of the executor.

Each goal is published on `joint_trajectory` with the goal's id as its name, and its outcome is read from
`motion_status`. The node calls `executor/cancel` if a goal is cancelled or replaced by a newer goal, or if the arm
violates its path tolerance. The arm stops before the newer goal begins. The node needs control_msgs, which comes with a
ROS installation but not as a wheel.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from builtin_interfaces.msg import Duration
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dynid.errors import ConfigurationError, DataError, NodeError, cut
from dynid.nodes.arm_interlocks import SinglePublisherSubscription
from dynid.nodes.common import LATCHED, NEWEST, declare, run_node, seconds
from dynid.nodes.experiment import MOTION_STATUS, MotionStatus, Tracking, read_status
from dynid.nodes.goal_tolerances import GoalMonitor, Moment
from dynid.robot import FloatArray

ANSWER_TIMEOUT_S = 5.0  # longest time until the executor begins or refuses: it checks the whole motion first
POLL_S = 0.05  # also the period of the feedback
SETTLE_S = 1.0  # default time for the arm to come within the goal tolerance
SILENT_S = 10.0  # longest time without a reference during a motion; then executor or driver has ended
LONGEST_WAIT_S = 10.0  # longest time from a goal to the start of its trajectory


@dataclass(frozen=True)
class Outcome:
    """Outcome of a FollowJointTrajectory goal.

    Attributes:
        end: one of the following.
            "reached": the motion was completed, within the goal tolerance.
            "refused": the motion did not begin.
            "unknown": it did not begin, because the goal names a joint that the arm does not have.
            "cancelled": the client or another program cancelled the motion.
            "replaced": a newer goal replaced this one.
            "lost": the motion began, but ended early for another reason, such as a violated path tolerance.
            "missed": the motion ended outside the goal tolerance.
            "late": the trajectory should have started, and ended, before the goal arrived.
            "doubtful": the motion is stopped because its progress is not known.
        reason: sentence with the reason.
    """

    end: Literal["reached", "refused", "unknown", "cancelled", "replaced", "lost", "missed", "late", "doubtful"]
    reason: str


def outcome_of(status: MotionStatus, identifier: str) -> Outcome | None:
    """Return the outcome of a goal according to a status of the executor.

    Return None while the motion runs, and for a status of a motion with another identifier.
    """
    if status.id != identifier:
        return None
    if status.state == "refused":
        return Outcome("refused", status.reason)
    if status.state == "cancelled":
        return Outcome("lost", status.reason) if status.reason else Outcome("cancelled", "cancelled")
    if status.state == "done":
        return Outcome("reached", _reached(status.tracking))
    return None


class GoalWatch:
    """Observer of the executor's messages that determines the outcome of one goal.

    Args:
        identifier: identifier of the goal's motion in `motion_status`.
        now: function that returns the time of a monotonic clock [s].

    Attributes:
        identifier: identifier of the goal's motion.
        outcome: outcome of the goal; None while it is open.
    """

    def __init__(self, identifier: str, now: Callable[[], float] = time.monotonic) -> None:
        self.identifier, self._now = identifier, now
        self._known_to_executor = False
        self.outcome: Outcome | None = None
        self.begin()

    def begin(self) -> None:
        """Start the time limit for the executor's answer; called when the goal is sent."""
        self._begin_s = self._last_sign_s = self._now()

    def on_reference(self) -> None:
        """Note that a message of the executor has arrived, which shows that the executor is running."""
        self._last_sign_s = self._now()

    def on_status(self, text: str) -> None:
        """Update the outcome with the text of a `motion_status` message."""
        try:
            status = read_status(text)
        except DataError as error:
            return self.mark_doubtful(str(error))
        self.on_reference()
        other = status.id != self.identifier and status.state != "refused"  # a refused motion replaces none
        if self._known_to_executor and other and self.outcome is None:
            self.outcome = Outcome("lost", f"another motion replaced it: {cut(status.trajectory)}")
        self._known_to_executor |= status.id == self.identifier
        self.outcome = self.outcome or outcome_of(status, self.identifier)

    def mark_doubtful(self, text: str) -> None:
        """Set the outcome "doubtful" with this reason: the reported progress may be wrong, so the motion must stop."""
        self.outcome = self.outcome or Outcome("doubtful", text)

    @property
    def answered(self) -> bool:
        """Whether the executor has reported a status of this goal."""
        return self._known_to_executor

    def tick(self) -> None:
        """Set the outcome of an open goal if the executor sends nothing; call this periodically.

        The outcome is "refused" if the executor has not reported a status of the goal within `ANSWER_TIMEOUT_S`. It is
        "lost" if there was a status, but no message of the executor has arrived for `SILENT_S`. After such a "refused",
        the caller must cancel the motion, since the executor may still receive it.
        """
        if not self._known_to_executor and self.outcome is None and self._now() - self._begin_s > ANSWER_TIMEOUT_S:
            self.outcome = Outcome(
                "refused", f"the executor did not answer within {ANSWER_TIMEOUT_S:.0f} s: is it running?"
            )
        silent_s = self._now() - self._last_sign_s
        if self._known_to_executor and self.outcome is None and silent_s > SILENT_S:
            self.outcome = Outcome("lost", f"no reference from the executor for {silent_s:.0f} s: is it running?")


class TrajectoryActionNode(Node):
    """Node that offers the action FollowJointTrajectory in front of the executor.

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
        self._watch: GoalWatch | None = None  # watch of the running goal
        self._newest: GoalWatch | None = None
        parallel = ReentrantCallbackGroup()
        self._motions = self.create_publisher(JointTrajectory, "joint_trajectory", 10)
        self._statuses = SinglePublisherSubscription(
            self, String, MOTION_STATUS, self._on_status, LATCHED, self._on_doubt
        )
        self._cancel = self.create_client(Trigger, "executor/cancel", callback_group=parallel)
        self._server = ActionServer(
            self,
            FollowJointTrajectory,
            name,
            self._on_goal,
            callback_group=parallel,
            goal_callback=lambda _: GoalResponse.ACCEPT,  # an invalid goal is reported in its result
            cancel_callback=lambda _: CancelResponse.ACCEPT,
        )

    def shut_down(self) -> None:
        """Do nothing: the node owns no resources, and the executor holds the arm."""

    def _on_status(self, message: String) -> None:
        if self._watch is not None:
            self._watch.on_status(message.data)

    def _on_doubt(self, text: str) -> None:
        """Log that a topic has two publishers, and mark the outcome of the running goal as doubtful."""
        self.get_logger().error(text)
        if self._watch is not None:
            self._watch.mark_doubtful(text)

    async def _on_goal(self, goal: Any) -> Any:
        """Run one goal and return its result.

        A valid goal replaces a goal that is running; an invalid one is refused and has no effect on it.
        """
        watch = GoalWatch(bytes(goal.goal_id.uuid).hex())
        if self._statuses.refusal:
            return self._result(goal, Outcome("refused", self._statuses.refusal))
        try:
            monitor = GoalMonitor(goal.request)
            if refusal := self._start_refusal(goal.request.trajectory):
                return self._result(goal, refusal)
        except ConfigurationError as error:
            return self._result(goal, Outcome("refused", str(error)))
        self._newest = watch
        while self._watch is not None:
            if ended := self._withdrawn(goal, watch):
                return self._result(goal, ended)
            await self._sleep()
        self._watch = watch
        with self._streams(watch, monitor):
            outcome = await self._follow(goal, watch, monitor)
        return self._result(goal, outcome)

    @contextmanager
    def _streams(self, watch: "GoalWatch", monitor: GoalMonitor) -> Iterator[None]:
        """Subscribe to the arm's states and the executor's references while the `with` block runs the goal."""
        topics: dict[str, tuple[Any, Callable[[Any], None]]] = {
            "joint_states": (JointState, monitor.on_state),
            "reference": (JointTrajectory, partial(_note, watch, monitor)),
        }
        streams = [
            SinglePublisherSubscription(self, kind, name, callback, NEWEST, self._on_doubt, raw=True)
            for name, (kind, callback) in topics.items()
        ]
        try:
            yield
        finally:
            self._watch = None
            for stream in streams:
                stream.close()

    def _start_refusal(self, trajectory: Any) -> Outcome | None:
        """Return the outcome of a goal whose trajectory cannot start at its requested time; None if it can."""
        wait = self._seconds_until(trajectory)
        last = trajectory.points[-1].time_from_start if trajectory.points else Duration()
        if wait + seconds(last) < 0.0:
            return Outcome("late", f"the trajectory was to start {-wait:.1f} s ago and is over: stamp 0 starts at once")
        if wait > LONGEST_WAIT_S:
            return Outcome("refused", f"the trajectory starts in {wait:.1f} s, expected at most {LONGEST_WAIT_S:.0f} s")
        return None

    def _seconds_until(self, trajectory: Any) -> float:
        """Return the time until the requested start of a trajectory [s].

        It is negative if that time has passed, and 0 for a trajectory that is to start at once (stamp 0).
        """
        stamp = trajectory.header.stamp
        if not (stamp.sec or stamp.nanosec):
            return 0.0
        return seconds(stamp) - 1e-9 * float(self.get_clock().now().nanoseconds)

    def _withdrawn(self, goal: Any, watch: "GoalWatch") -> Outcome | None:
        """Return the outcome of a goal that a newer goal replaced or its client cancelled; None for any other goal."""
        if self._newest is not watch:
            return Outcome("replaced", "a newer goal replaced it")
        return Outcome("cancelled", "cancelled") if goal.is_cancel_requested else None

    async def _follow(self, goal: Any, watch: "GoalWatch", monitor: GoalMonitor) -> Outcome:
        """Wait until a goal's start time, run its motion until the arm stands, and return the outcome.

        Args:
            goal: handle of the FollowJointTrajectory goal.
            watch: observer that determines the outcome.
            monitor: monitor of the goal's tolerances.
        """
        while self._seconds_until(goal.request.trajectory) > 0.0:
            if ended := self._withdrawn(goal, watch):
                return replace(ended, reason=f"{ended.reason} before its start")
            if watch.outcome is not None:  # in doubt: a motion that is not sent need not be cancelled
                return watch.outcome
            await self._sleep()
        outcome = await self._run(goal, watch, monitor)
        if outcome.end == "refused" and monitor.unknown_joints():
            return Outcome("unknown", outcome.reason)
        if outcome.end == "reached":
            return await self._settled(outcome, monitor, goal, watch)
        deadline_s = time.monotonic() + ANSWER_TIMEOUT_S
        while monitor.braking() and time.monotonic() < deadline_s:  # the executor refuses new motions while braking
            await self._sleep()
        return outcome

    async def _run(self, goal: Any, watch: "GoalWatch", monitor: GoalMonitor) -> Outcome:
        watch.begin()
        message = goal.request.trajectory
        message.header.frame_id = watch.identifier
        self._motions.publish(message)
        tolerance_violation, first_request_s, stop_request = "", math.inf, None  # stop_request: its pending answer
        while watch.outcome is None:
            watch.tick()
            self._feed_back(goal, moment := monitor.moment())
            tolerance_violation = tolerance_violation or monitor.off_path(moment)
            replaced = self._withdrawn(goal, watch)
            reason = tolerance_violation or (replaced.reason if replaced else "")
            if reason and (stop_request is None or stop_request.done()):
                stop_request = self._cancel.call_async(Trigger.Request())  # repeated: it may overtake the trajectory
                first_request_s = min(first_request_s, time.monotonic())
            if time.monotonic() - first_request_s > ANSWER_TIMEOUT_S:
                return Outcome("lost", f"{reason}; the executor did not stop when it was asked to")
            await self._sleep()
        # the executor may still receive the trajectory later, or still move although its progress is unknown
        if not watch.answered or watch.outcome.end == "doubtful":
            self._cancel.call_async(Trigger.Request())
        if tolerance_violation and watch.outcome.end != "refused":
            return Outcome("lost", tolerance_violation)
        # refused: stopped while it was checked
        if stop_request is not None and watch.outcome.end in ("refused", "cancelled"):
            return self._withdrawn(goal, watch) or watch.outcome
        return watch.outcome

    async def _settled(self, outcome: Outcome, monitor: GoalMonitor, goal: Any, watch: "GoalWatch") -> Outcome:
        """Wait until the arm is within the goal tolerance after its motion, and return the outcome of the goal.

        The result is `outcome` if the arm comes within the tolerance in time, else "missed". If a newer goal or a
        cancellation comes first, it is "replaced" or "cancelled".
        """
        deadline_s = time.monotonic() + (monitor.tolerances.goal_time_s or SETTLE_S)
        while violation := monitor.off_goal(moment := monitor.moment()):
            if ended := self._withdrawn(goal, watch):
                return replace(ended, reason=f"{ended.reason} at its end, where {violation}")
            if time.monotonic() > deadline_s:
                break
            self._feed_back(goal, moment)
            await self._sleep()
        return Outcome("missed", violation) if violation else outcome

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
                "replaced": kinds.INVALID_GOAL,  # as in ros2_controllers
                "unknown": kinds.INVALID_JOINTS,
                "late": kinds.OLD_HEADER_TIMESTAMP,
                "missed": kinds.GOAL_TOLERANCE_VIOLATED,
            }.get(outcome.end, kinds.PATH_TOLERANCE_VIOLATED)
        return result

    async def _sleep(self) -> None:
        """Wait for `POLL_S`, during which the node does its other work."""
        done = Future(executor=self.executor)
        timer = self.create_timer(POLL_S, lambda: done.set_result(None))
        await done
        self.destroy_timer(timer)


def _note(watch: GoalWatch, monitor: GoalMonitor, raw: bytes) -> None:
    watch.on_reference()
    monitor.on_reference(raw)


def _reached(tracking: Tracking) -> str:
    """Return the message for a goal that was reached, with the tracking error if there is one.

    A motion of one point has no tracking error.
    """
    if not tracking.states or tracking.rms_deg is None or tracking.largest_deg is None:
        return "goal reached"
    return (
        f"goal reached: {tracking.rms_deg:.2f} deg RMS off its path, at most {tracking.largest_deg:.2f} deg "
        f"({cut(tracking.largest_at)})"
    )


def _point(side: Mapping[str, FloatArray]) -> JointTrajectoryPoint:
    return JointTrajectoryPoint(positions=side["position"].tolist(), velocities=side["velocity"].tolist())


def main() -> None:
    """Run the trajectory-action node in this process."""
    run_node(TrajectoryActionNode)


if __name__ == "__main__":
    main()
