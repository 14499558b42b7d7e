"""Lifecycle node that records the serialized messages of an experiment's topics to a rosbag2.

An active recorder is subscribed to the topics, and `~/start` opens a new bag at parameter `output`. `~/stop` closes the
bag once it contains the whole motion, and answers whether the bag is complete; a second call of `~/stop` closes it at
once. Latched messages that were published before a bag was opened are written at its start, so that every bag is
sufficient for identification. Each topic has its own limits (`dynid.recording.topic_budget`). If a topic exceeds them,
messages are dropped and its subscription pauses for a while; the other topics are recorded as before. The subscriptions
to topics in `STAMPED`, such as the arm's states, never pause.
"""

import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.event_handler import QoSSubscriptionMatchedInfo, SubscriptionEventCallbacks
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from dynid.errors import DynidError
from dynid.hardware.loop.diagnostics import LOOP
from dynid.hardware.loop.realtime import prefer_throughput
from dynid.nodes.arm_interlocks import SecondSources, publishers
from dynid.nodes.common import LATCHED, STREAM, ManagedNode, declare, in_words, run_node, string
from dynid.nodes.deferred import Answer, DeferredTrigger
from dynid.recording.bag_metadata import Topic
from dynid.recording.bag_writer import BagWriter
from dynid.recording.completeness import Discovery, MotionCompletion, reported_motion
from dynid.recording.messages import DiagnosticStatus, encode_diagnostics, encode_string
from dynid.recording.topic_budget import ARM_LIMITS, REPORT_LIMITS, TEXT_LIMITS, TopicBudget, TopicLimits
from dynid.recording.topics import DIAGNOSTICS, EXPERIMENT, HARDWARE_SETTINGS, STAMPED
from dynid.rehearsal.recorder import rehearse_recording
from dynid.robot import load_robot
from dynid.robot.urdf_text import read_urdf_text

# relative topic name -> message class, type name, and whether the topic is latched
TOPICS: dict[str, tuple[Any, str, bool]] = {
    "joint_states": (JointState, "sensor_msgs/msg/JointState", False),
    "joint_commands": (JointState, "sensor_msgs/msg/JointState", False),
    "applied_commands": (JointState, "sensor_msgs/msg/JointState", False),
    "reference": (JointTrajectory, "trajectory_msgs/msg/JointTrajectory", False),
    "robot_description": (String, "std_msgs/msg/String", True),
    "hardware_settings": (String, "std_msgs/msg/String", True),
    "experiment": (String, "std_msgs/msg/String", True),
    # diagnostics must be subscribed last, see Discovery
    DIAGNOSTICS: (DiagnosticArray, "diagnostic_msgs/msg/DiagnosticArray", False),
}
# Topics and diagnostic reports of driver and commander that identification from a bag requires
ARM_TOPICS, ARM_REPORTS = (*STAMPED, HARDWARE_SETTINGS, EXPERIMENT), (LOOP, "executor")
COMPLETION_TIMEOUT_S = 20.0
# Keys of the diagnostics
BAG = "bag"  # folder of the bag that was opened last
UNMATCHED = "unmatched"  # required topics and reports that are missing
GIVEN_UP = "given_up"  # why a recording ended early
DOUBTFUL = "doubtful"  # why the data may not be from this arm: a topic has two publishers
LEFT_OUT = "left_out"  # number of dropped messages by topic, beyond its limits
SUBSCRIPTION_PAUSE_S = 5.0  # pause of a topic's subscription after it exceeded its limits


def _limits(name: str) -> TopicLimits:
    return REPORT_LIMITS if name == DIAGNOSTICS else TEXT_LIMITS if TOPICS[name][2] else ARM_LIMITS


class RecorderNode(ManagedNode):
    """Lifecycle node that records the topics in `TOPICS` to a rosbag2."""

    def __init__(self) -> None:
        super().__init__("recorder")
        declare(self, "output", "", "folder of the next bag; it must not exist")
        declare(self, "storage", "mcap", "mcap or sqlite3")
        declare(
            self, "minimum_free_mib", 500, "free disk space required to start a bag; recording stops below half of it"
        )
        declare(
            self,
            "completion_timeout_s",
            COMPLETION_TIMEOUT_S,
            "how long stop waits for the end of a motion [s]; 0: do not wait",
        )
        robot = load_robot(declare(self, "robot", "crane_x7", "robot name or folder", fixed=True))
        # used until a robot description is published
        self._own_description = encode_string(read_urdf_text(robot.urdf_path))
        self._writer: BagWriter | None = None
        self._discovery = Discovery(ARM_TOPICS, ARM_REPORTS)
        self._completion = self._new_completion()
        self._bag, self._given_up, self._sources = "", "", SecondSources(self)
        self._stops: list[Answer] = []
        self._stop_until_s = 0.0
        self._latched: dict[str, bytes] = {}
        self._resolved = {name: self.resolve_topic_name(name) for name in TOPICS}
        self._reports_topic = self.resolve_topic_name(DIAGNOSTICS)
        self._recorded: dict[str, Any] = {}
        self._budgets = {name: TopicBudget(_limits(name)) for name in TOPICS}
        self._paused: dict[str, Any] = {}
        self.create_service(Trigger, "~/start", self._on_start)
        DeferredTrigger(self, "~/stop", self._on_stop)
        self._diagnostics = self.create_publisher(DiagnosticArray, "diagnostics", 10)
        self.create_timer(1.0, self._publish_diagnostics)

    def rehearse(self) -> None:
        """Write a bag into a temporary folder and load every message type, so that no import delays a recording."""
        rehearse_recording()
        for message, _, _ in TOPICS.values():
            message.__class__.__import_type_support__()

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Subscribe to every topic of the experiment."""
        for name in TOPICS:
            self._listen(name)
        return super().on_activate(state)

    def _listen(self, name: str) -> None:
        message_class, _, latched = TOPICS[name]
        depth = self._budgets[name].limits.depth
        profile = LATCHED if latched else QoSProfile(depth=depth, reliability=STREAM.reliability)
        events = SubscriptionEventCallbacks(matched=partial(self._on_matched, name))
        callback = partial(self._on_limited, name)
        self._recorded[name] = self.create_subscription(
            message_class, name, callback, profile, raw=True, event_callbacks=events
        )

    def _on_limited(self, name: str, raw: bytes) -> None:
        """Record a serialized message, or drop it if it exceeds the topic's limits of message size and data rate.

        After a message was dropped, the topic's subscription pauses for a while. Topics in `STAMPED`, such as the arm's
        states, are not paused.
        """
        budget = self._budgets[name]
        if budget.take(len(raw), time.monotonic()):
            self._on_message(self._resolved[name], TOPICS[name][2], raw)
        elif name not in STAMPED and name not in self._paused:
            self.get_logger().error(
                f"{name} exceeds its limits ({budget.limits}; {publishers(self, name)}): its subscription pauses for "
                f"{SUBSCRIPTION_PAUSE_S:.0f} s"
            )
            self._paused[name] = self.create_timer(0.0, partial(self._pause, name))

    def _pause(self, name: str) -> None:
        self.destroy_timer(self._paused[name])
        if name in self._recorded:
            self.destroy_subscription(self._recorded.pop(name))
            self._paused[name] = self.create_timer(SUBSCRIPTION_PAUSE_S, partial(self._resume, name))

    def _resume(self, name: str) -> None:
        self.destroy_timer(self._paused.pop(name))
        self._listen(name)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the bag and unsubscribe from all topics."""
        self._release()
        return super().on_deactivate(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the bag and unsubscribe from all topics."""
        self._release()
        return TransitionCallbackReturn.SUCCESS

    def shut_down(self) -> None:
        """Close the bag, in any state of the recorder."""
        self._close()

    def _release(self) -> None:
        self._close()
        for subscription in self._recorded.values():
            self.destroy_subscription(subscription)
        for timer in self._paused.values():
            self.destroy_timer(timer)
        self._recorded, self._paused, self._discovery = {}, {}, Discovery(ARM_TOPICS, ARM_REPORTS)

    def _close(self, problem: str = "") -> None:
        """Close the bag and answer all pending calls of `~/stop`; do nothing if no bag is open.

        `problem` is the reason why the bag is incomplete. If it is "", this function checks whether it is complete.
        """
        (writer, self._writer), (stops, self._stops) = (self._writer, None), (self._stops, [])
        if writer is None:
            return
        message = f"bag {writer.folder} closed: {sum(writer.counts.values())} messages"
        problem = problem or self._sources.text
        if missing := ", ".join(sorted(self._completion.missing)):
            message += f", without {missing}"
            if self._timeout_s:
                problem = problem or f"the recorder still awaits {missing}; give it a less busy processor"
        try:
            writer.close()
            self.get_logger().info(message)
        except DynidError as error:
            problem = problem or str(error)
            self.get_logger().error(f"{error}; the bag holds everything flushed before")
        for answer in stops:
            quality = "doubtful" if problem == self._sources.text else "incomplete"
            answer.give(not problem, f"the bag is {quality}: {problem}" if problem else message)

    def _give_up(self, reason: str) -> None:
        """Log the reason why the recording must end, and close the bag as incomplete, with the messages so far."""
        self._given_up = reason
        self.get_logger().error(reason)
        self._close(reason)

    def _stop_if_complete(self) -> None:
        """Close the bag if a stop was requested, and it contains the whole motion or the time limit has passed.

        A second stop request closes it in any case.
        """
        waiting = self._completion.missing and len(self._stops) == 1 and time.monotonic() < self._stop_until_s
        if self._stops and not waiting:
            self._close()

    def _on_matched(self, name: str, info: Any) -> None:
        assert isinstance(info, QoSSubscriptionMatchedInfo)
        if name in ARM_TOPICS:
            self._sources.note(name, info.current_count)
        if self._discovery.matched(name, info.current_count, info.total_count - info.current_count):
            self._publish_diagnostics()

    def _on_message(self, topic: str, latched: bool, raw: bytes) -> None:
        if latched:
            self._latched[topic] = raw
        elif topic == self._reports_topic and self._discovery.reported(raw, time.monotonic()):
            self._publish_diagnostics()
        if self._writer is None:
            return
        try:
            self._writer.write(topic, time.time_ns(), raw)
            if self._completion.note(topic, raw):
                self._stop_if_complete()
        except DynidError as error:
            self._give_up(f"recording ended: {error}")

    def _new_completion(self) -> MotionCompletion:
        stamped = [self.resolve_topic_name(name) for name in STAMPED]
        return MotionCompletion(self.resolve_topic_name(EXPERIMENT), stamped)

    def _on_start(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        output = string(self, "output")
        if self._writer is not None or not self._recorded or not output:
            reason = "a bag is already open" if self._writer else "parameter 'output' is empty"
            response.message = reason if self._recorded else "the recorder is not active"
            return response
        topics = [
            Topic(self.resolve_topic_name(name), type_name, "latched" if latched else "reliable")
            for name, (_, type_name, latched) in TOPICS.items()
        ]
        if refusal := self._disk_refusal(Path(output), 1.0):
            response.message = refusal
            return response
        try:
            writer = BagWriter(Path(output), topics, string(self, "storage"))  # type: ignore[arg-type]
            writer.open()
            self._writer, self._completion, self._given_up = writer, self._new_completion(), ""
            self._bag = str(writer.folder)
            self._sources.clear()
            own = {self.resolve_topic_name("robot_description"): self._own_description}
            experiment = self.resolve_topic_name(EXPERIMENT)
            for topic, raw in (own | self._latched).items():
                motion = reported_motion(raw) if topic == experiment else None
                if motion is None or motion.ended_ns is None:  # an ended motion belongs to an earlier bag
                    writer.write(topic, time.time_ns(), raw)
        except (DynidError, OSError, ValueError) as error:  # OSError, ValueError: invalid file name
            response.message = in_words(error)
            self._close()
            return response
        self._publish_diagnostics()  # replaces the diagnostics about the previous bag
        response.success, response.message = True, f"recording to {output}"
        return response

    def _on_stop(self, answer: Answer) -> None:
        if self._writer is None:
            incomplete = f"the bag is incomplete: {self._given_up}" if self._given_up else ""
            answer.give(False, incomplete or "nothing is being recorded")
            return
        self._stop_until_s = time.monotonic() + self._timeout_s
        self._stops.append(answer)
        self._stop_if_complete()

    @property
    def _timeout_s(self) -> float:
        return float(self.get_parameter("completion_timeout_s").value or 0.0)

    def _disk_refusal(self, folder: Path, share: float) -> str:
        """Return a message if the disk has too little free space for a bag, else "".

        Args:
            folder: folder of the bag.
            share: required free space, as a fraction of the parameter minimum_free_mib [-].
        """
        minimum_mib = share * float(self.get_parameter("minimum_free_mib").value or 0)
        try:
            existing = next(parent for parent in folder.absolute().parents if parent.is_dir())
            free_mib = shutil.disk_usage(existing).free / 2**20
        except (OSError, ValueError):
            return ""  # the folder cannot be examined; the writer reports the error
        if free_mib >= minimum_mib:
            return ""
        return (
            f"no room for {folder}: {free_mib:.0f} MiB are free, but at least {minimum_mib:.0f} are needed; see "
            "minimum_free_mib"
        )

    def _publish_diagnostics(self) -> None:
        if self._writer is not None and (disk_full := self._disk_refusal(self._writer.folder, 0.5)):
            self._give_up(f"recording ended, the bag is closed: {disk_full}")
        self._stop_if_complete()
        values = {BAG: self._bag, UNMATCHED: ", ".join(self._discovery.unmatched(time.monotonic()))}
        if self._writer is not None:
            values |= {topic: str(count) for topic, count in self._writer.counts.items()}
        if left_out := [f"{name} {budget.refused}" for name, budget in self._budgets.items() if budget.refused]:
            values[LEFT_OUT] = ", ".join(left_out)
        if self._given_up:
            values[GIVEN_UP] = self._given_up
        if self._sources.text:
            values[DOUBTFUL] = self._sources.text
        status = DiagnosticStatus(
            name=self.get_name(),
            level=0,
            message=f"recording to {self._writer.folder}" if self._writer else "idle",
            hardware_id="",
            values=values,
        )
        if self._writer is not None:
            try:
                self._writer.flush()  # the writer flushes only while it writes; data must be saved if no states arrive
            except DynidError as error:
                self._give_up(f"recording ended: {error}")
        self._diagnostics.publish(encode_diagnostics(time.time_ns(), [status]))


def main() -> None:
    """Run the recorder node in this process."""
    prefer_throughput()  # queues hold seconds of messages, so bus and controller have priority
    run_node(RecorderNode, events=True)


if __name__ == "__main__":
    main()
