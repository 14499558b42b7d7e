"""Node that offers control_msgs/FollowJointTrajectory (what MoveIt speaks) in front of the executor.

A goal becomes a message on `joint_trajectory`, named by the goal's id; its outcome is read from `motion_status`. A
cancelled goal calls `executor/cancel`, and so does one that leaves its path tolerance, or that a newer goal replaces:
the arm stops before it begins the new one. It needs control_msgs, which comes with a ROS installation, not with wheels.
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
from dynid.nodes.arm_interlocks import OneSource
from dynid.nodes.common import LATCHED, NEWEST, declare, run_node, seconds
from dynid.nodes.experiment import MOTION_STATUS, MotionStatus, Tracking, read_status
from dynid.nodes.goal_tolerances import GoalMonitor, Moment
from dynid.robot import FloatArray

UNHEARD_S = 5.0  # how long the executor may take to begin or refuse: it checks the whole motion first
POLL_S = 0.05  # also between two messages of feedback
SETTLE_S = 1.0  # for the arm to come within the goal tolerance, where the goal says nothing
SILENT_S = 10.0  # without a reference of a motion that runs: its executor has ended, or the arm's states have
LONGEST_WAIT_S = 10.0  # for the time at which a trajectory is to start


@dataclass(frozen=True)
class Outcome:
    """How a goal ended, and why.

    "lost" is a motion that began and was given up, "missed" one that ended elsewhere, "doubtful" one that is stopped
    because its progress is not known.
    """

    end: Literal["reached", "refused", "unknown", "cancelled", "replaced", "lost", "missed", "late", "doubtful"]
    reason: str


def outcome_of(status: MotionStatus, identifier: str) -> Outcome | None:
    """What a `motion_status` says of a goal; None while it runs, and for the motions of others."""
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
    """Waits for the end of one goal; `now` is a steady clock [s]."""

    def __init__(self, identifier: str, now: Callable[[], float] = time.monotonic) -> None:
        self.identifier, self._now = identifier, now
        self._heard = False
        self.outcome: Outcome | None = None
        self.begin()

    def begin(self) -> None:
        """The executor is asked now: from here on it has its time to answer."""
        self._began = self._noted = self._now()

    def note(self) -> None:
        """A reference of the executor: it runs."""
        self._noted = self._now()

    def hear(self, text: str) -> None:
        """A message of `motion_status`."""
        try:
            status = read_status(text)
        except DataError as error:
            return self.doubt(str(error))
        self.note()
        if self._heard and status.id != self.identifier and self.outcome is None:
            self.outcome = Outcome("lost", f"another motion replaced it: {cut(status.trajectory)}")
        self._heard |= status.id == self.identifier
        self.outcome = self.outcome or outcome_of(status, self.identifier)

    def doubt(self, text: str) -> None:
        """What is said of the motion may not be true, for a reason: it is to be stopped."""
        self.outcome = self.outcome or Outcome("doubtful", text)

    @property
    def answered(self) -> bool:
        """Whether the executor has said anything of this goal."""
        return self._heard

    def tick(self) -> None:
        """Time passes: an executor that says nothing, or gives no reference any more, does not run."""
        if not self._heard and self.outcome is None and self._now() - self._began > UNHEARD_S:
            self.outcome = Outcome("refused", f"the executor did not answer within {UNHEARD_S:.0f} s: is it running?")
        silent_s = self._now() - self._noted
        if self._heard and self.outcome is None and silent_s > SILENT_S:
            self.outcome = Outcome("lost", f"no reference from the executor for {silent_s:.0f} s: is it running?")


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
        self._watch: GoalWatch | None = None  # of the goal that runs
        self._newest: GoalWatch | None = None
        beside = ReentrantCallbackGroup()
        self._motions = self.create_publisher(JointTrajectory, "joint_trajectory", 10)
        self._statuses = OneSource(self, String, MOTION_STATUS, self._on_status, LATCHED, self._on_doubt)
        self._cancel = self.create_client(Trigger, "executor/cancel", callback_group=beside)
        self._server = ActionServer(
            self,
            FollowJointTrajectory,
            name,
            self._on_goal,
            callback_group=beside,
            goal_callback=lambda _: GoalResponse.ACCEPT,  # what is wrong with one is said by its result
            cancel_callback=lambda _: CancelResponse.ACCEPT,
        )

    def shut_down(self) -> None:
        """Nothing to release: the executor holds the arm."""

    def _on_status(self, message: String) -> None:
        if self._watch is not None:
            self._watch.hear(message.data)

    def _on_doubt(self, text: str) -> None:
        """Two publishers send what a goal is judged by."""
        self.get_logger().error(text)
        if self._watch is not None:
            self._watch.doubt(text)

    async def _on_goal(self, goal: Any) -> Any:
        """Run one goal to its end; what is wrong with it is found before it stops the one that runs."""
        watch = GoalWatch(bytes(goal.goal_id.uuid).hex())
        if self._statuses.refusal:
            return self._result(goal, Outcome("refused", self._statuses.refusal))
        try:
            monitor = GoalMonitor(goal.request)
            if unfit := self._unfit(goal.request.trajectory):
                return self._result(goal, unfit)
        except ConfigurationError as error:
            return self._result(goal, Outcome("refused", str(error)))
        self._newest = watch
        while self._watch is not None:
            if ended := self._given_up(goal, watch):
                return self._result(goal, ended)
            await self._sleep()
        self._watch = watch
        with self._streams(watch, monitor):
            outcome = await self._follow(goal, watch, monitor)
        return self._result(goal, outcome)

    @contextmanager
    def _streams(self, watch: "GoalWatch", monitor: GoalMonitor) -> Iterator[None]:
        """Listen to where the arm is and ought to be while a goal runs."""
        topics: dict[str, tuple[Any, Callable[[Any], None]]] = {
            "joint_states": (JointState, monitor.on_state),
            "reference": (JointTrajectory, partial(_note, watch, monitor)),
        }
        streams = [
            OneSource(self, kind, name, callback, NEWEST, self._on_doubt, raw=True)
            for name, (kind, callback) in topics.items()
        ]
        try:
            yield
        finally:
            self._watch = None
            for stream in streams:
                stream.close()

    def _unfit(self, trajectory: Any) -> Outcome | None:
        """Why a trajectory cannot start when it is to; None where it can."""
        wait = self._seconds_until(trajectory)
        last = trajectory.points[-1].time_from_start if trajectory.points else Duration()
        if wait + seconds(last) < 0.0:
            return Outcome("late", f"the trajectory was to start {-wait:.1f} s ago and is over: stamp 0 starts at once")
        if wait > LONGEST_WAIT_S:
            return Outcome("refused", f"the trajectory starts in {wait:.1f} s, expected at most {LONGEST_WAIT_S:.0f} s")
        return None

    def _seconds_until(self, trajectory: Any) -> float:
        """How long it is to its start; 0 where it starts at once."""
        stamp = trajectory.header.stamp
        if not (stamp.sec or stamp.nanosec):
            return 0.0
        return seconds(stamp) - 1e-9 * float(self.get_clock().now().nanoseconds)

    def _given_up(self, goal: Any, watch: "GoalWatch") -> Outcome | None:
        """How a goal ends that nobody wants any more; None where it is wanted."""
        if self._newest is not watch:
            return Outcome("replaced", "a newer goal replaced it")
        return Outcome("cancelled", "cancelled") if goal.is_cancel_requested else None

    async def _follow(self, goal: Any, watch: "GoalWatch", monitor: GoalMonitor) -> Outcome:
        """Start the motion when it is time, and see how it ends."""
        while self._seconds_until(goal.request.trajectory) > 0.0:
            if ended := self._given_up(goal, watch):
                return replace(ended, reason=f"{ended.reason} before its start")
            await self._sleep()
        outcome = await self._run(goal, watch, monitor)
        if outcome.end == "refused" and monitor.unknown_joints():
            return Outcome("unknown", outcome.reason)
        if outcome.end == "reached":
            return await self._settled(outcome, monitor, goal, watch)
        until = time.monotonic() + UNHEARD_S
        while monitor.braking() and time.monotonic() < until:  # what comes next is refused as long
            await self._sleep()
        return outcome

    async def _run(self, goal: Any, watch: "GoalWatch", monitor: GoalMonitor) -> Outcome:
        watch.begin()
        message = goal.request.trajectory
        message.header.frame_id = watch.identifier
        self._motions.publish(message)
        left, asked_at, asked = "", math.inf, None  # asked: the answer to the last request to stop
        while watch.outcome is None:
            watch.tick()
            self._feed_back(goal, moment := monitor.moment())
            left = left or monitor.off_path(moment)
            unwanted = self._given_up(goal, watch)
            why = left or (unwanted.reason if unwanted else "")
            if why and (asked is None or asked.done()):
                asked = self._cancel.call_async(Trigger.Request())  # again: one may overtake the trajectory itself
                asked_at = min(asked_at, time.monotonic())
            if time.monotonic() - asked_at > UNHEARD_S:
                return Outcome("lost", f"{why}; the executor did not stop when it was asked to")
            await self._sleep()
        # it may still read the trajectory, when nobody expects it any more, or move when nobody can tell
        if not watch.answered or watch.outcome.end == "doubtful":
            self._cancel.call_async(Trigger.Request())
        if left and watch.outcome.end != "refused":
            return Outcome("lost", left)
        if asked is not None and watch.outcome.end in ("refused", "cancelled"):  # refused: stopped while it was checked
            return self._given_up(goal, watch) or watch.outcome
        return watch.outcome

    async def _settled(self, outcome: Outcome, monitor: GoalMonitor, goal: Any, watch: "GoalWatch") -> Outcome:
        """A motion that is over, once the arm is within the goal tolerance."""
        until = time.monotonic() + (monitor.tolerances.goal_time_s or SETTLE_S)
        while off := monitor.off_goal(moment := monitor.moment()):
            if ended := self._given_up(goal, watch):
                return replace(ended, reason=f"{ended.reason} at its end, where {off}")
            if time.monotonic() > until:
                break
            self._feed_back(goal, moment)
            await self._sleep()
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
                "replaced": kinds.INVALID_GOAL,  # as of ros2_controllers
                "unknown": kinds.INVALID_JOINTS,
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


def _note(watch: GoalWatch, monitor: GoalMonitor, raw: bytes) -> None:
    watch.note()
    monitor.on_reference(raw)


def _reached(tracking: Tracking) -> str:
    """The text of a goal that was reached; a motion of one point has no tracking."""
    if not tracking.states or tracking.rms_deg is None or tracking.largest_deg is None:
        return "goal reached"
    return (
        f"goal reached: {tracking.rms_deg:.2f} deg RMS off its path, at most {tracking.largest_deg:.2f} deg "
        f"({cut(tracking.largest_at)})"
    )


def _point(side: Mapping[str, FloatArray]) -> JointTrajectoryPoint:
    return JointTrajectoryPoint(positions=side["position"].tolist(), velocities=side["velocity"].tolist())


def main() -> None:
    """Run the node."""
    run_node(TrajectoryActionNode)


if __name__ == "__main__":
    main()
