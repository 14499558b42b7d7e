"""Lifecycle node that records an experiment's topics, raw, to a rosbag2.

Active, it subscribes; `~/start` opens a new bag at parameter `output`, `~/stop` closes it. Latched topics that were
published before a bag was opened are written at its begin, so that every bag can be identified from on its own.
"""

import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.event_handler import QoSSubscriptionMatchedInfo, SubscriptionEventCallbacks
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from dynid.errors import DynidError
from dynid.hardware.realtime import prefer_throughput
from dynid.model.chain import read_urdf_text
from dynid.nodes.common import LATCHED, STREAM, ManagedNode, declare, run_node, string
from dynid.recording.bag_writer import BagWriter, Topic
from dynid.recording.hearing import BAG, Hearing
from dynid.recording.messages import DiagnosticStatus, encode_diagnostics, encode_string
from dynid.recording.motion_end import GIVEN_UP, MotionEnd, ended_ns
from dynid.recording.recording import DIAGNOSTICS, EXPERIMENT, STAMPED
from dynid.robot import load_robot

# relative topic name -> message class and type name, latched or not
TOPICS: dict[str, tuple[Any, str, bool]] = {
    "joint_states": (JointState, "sensor_msgs/msg/JointState", False),
    "joint_commands": (JointState, "sensor_msgs/msg/JointState", False),
    "applied_commands": (JointState, "sensor_msgs/msg/JointState", False),
    "reference": (JointTrajectory, "trajectory_msgs/msg/JointTrajectory", False),
    "robot_description": (String, "std_msgs/msg/String", True),
    "hardware_settings": (String, "std_msgs/msg/String", True),
    "experiment": (String, "std_msgs/msg/String", True),
    # the last one, see Hearing
    DIAGNOSTICS: (DiagnosticArray, "diagnostic_msgs/msg/DiagnosticArray", False),
}


class RecorderNode(ManagedNode):
    """Records the topics of TOPICS; see the module."""

    def __init__(self) -> None:
        super().__init__("recorder")
        declare(self, "output", "", "folder of the next bag; it must not exist")
        declare(self, "storage", "mcap", "mcap or sqlite3")
        declare(self, "minimum_free_mib", 500, "free disk space that a bag needs at its begin; half of it ends a bag")
        robot = load_robot(declare(self, "robot", "crane_x7", "robot name or folder", fixed=True))
        # what the arm looked like when nobody published it; a publisher's description replaces it
        self._own_description = encode_string(read_urdf_text(robot.urdf_path))
        self._writer: BagWriter | None = None
        self._hearing = Hearing()
        self._end = self._new_end()
        self._bag, self._given_up = "", ""
        self._latched: dict[str, bytes] = {}
        self._reports_topic = self.resolve_topic_name(DIAGNOSTICS)
        self._recorded: list[Any] = []
        self.create_service(Trigger, "~/start", self._on_start)
        self.create_service(Trigger, "~/stop", self._on_stop)
        self._diagnostics = self.create_publisher(DiagnosticArray, "diagnostics", 10)
        self.create_timer(1.0, self._publish_diagnostics)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Subscribe to every topic of the experiment."""
        for name, (message_class, _, latched) in TOPICS.items():
            callback = partial(self._on_message, self.resolve_topic_name(name), latched)
            profile = LATCHED if latched else STREAM
            events = SubscriptionEventCallbacks(matched=partial(self._on_matched, name))
            self._recorded.append(
                self.create_subscription(message_class, name, callback, profile, raw=True, event_callbacks=events)
            )
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the bag and unsubscribe."""
        self._release()
        return super().on_deactivate(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the bag."""
        self._release()
        return TransitionCallbackReturn.SUCCESS

    def shut_down(self) -> None:
        """Close the bag, whatever happened."""
        self._close()

    def _release(self) -> None:
        self._close()
        for subscription in self._recorded:
            self.destroy_subscription(subscription)
        self._recorded, self._hearing = [], Hearing()

    def _close(self) -> None:
        """Finish the bag, if there is one; raises BagWriteError."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            self.get_logger().info(f"bag {writer.folder} closed: {sum(writer.counts.values())} messages")

    def _give_up(self, reason: str) -> None:
        """End the recording for a reason, with as much of the bag as can be finished."""
        self._given_up = reason
        self.get_logger().error(reason)
        try:
            self._close()
        except DynidError as error:
            self.get_logger().error(f"{error}; what was flushed before is in the bag")

    def _on_matched(self, name: str, info: Any) -> None:
        assert isinstance(info, QoSSubscriptionMatchedInfo)
        if self._hearing.matched(name, info.current_count, info.total_count - info.current_count):
            self._publish_diagnostics()

    def _on_message(self, topic: str, latched: bool, raw: bytes) -> None:
        if latched:
            self._latched[topic] = raw
        elif topic == self._reports_topic and self._hearing.heard(raw, time.monotonic()):
            self._publish_diagnostics()
        if self._writer is None:
            return
        try:
            self._writer.write(topic, time.time_ns(), raw)
            if self._end.note(topic, raw):
                self._publish_diagnostics()
        except DynidError as error:
            self._give_up(f"recording ended: {error}")

    def _new_end(self) -> MotionEnd:
        return MotionEnd(self.resolve_topic_name(EXPERIMENT), [self.resolve_topic_name(name) for name in STAMPED])

    def _on_start(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        output = string(self, "output")
        if self._writer is not None or not self._recorded or not output:
            reason = "a bag is open already" if self._writer else "parameter 'output' is empty"
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
            self._writer, self._end, self._given_up = writer, self._new_end(), ""
            self._bag = str(writer.folder)
            own = {self.resolve_topic_name("robot_description"): self._own_description}
            experiment = self.resolve_topic_name(EXPERIMENT)
            for topic, raw in (own | self._latched).items():
                if topic != experiment or ended_ns(raw) is None:  # one that is over belongs to an earlier bag
                    writer.write(topic, time.time_ns(), raw)
        except (DynidError, OSError) as error:  # also what the file system says about an impossible name
            response.message = str(error)
            self._close()
            return response
        self._publish_diagnostics()  # what was said of the bag before is not true of this one
        response.success, response.message = True, f"recording to {output}"
        return response

    def _on_stop(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._writer is None:
            response.message = "nothing is being recorded"
            return response
        folder = self._writer.folder
        try:
            self._close()
        except DynidError as error:
            response.message = str(error)
            return response
        response.success, response.message = True, f"bag {folder} closed"
        return response

    def _disk_refusal(self, folder: Path, share: float) -> str:
        """Why a bag has no room on its disk, '' if it has; `share` is of the parameter."""
        least = share * float(self.get_parameter("minimum_free_mib").value or 0)
        try:
            there = next(parent for parent in folder.absolute().parents if parent.is_dir())
            free = shutil.disk_usage(there).free / 2**20
        except OSError:
            return ""  # a place that cannot be looked at; the writer says what is wrong with it
        if free >= least:
            return ""
        return f"no room for {folder}: {free:.0f} MiB are free, at least {least:.0f} are needed; see minimum_free_mib"

    def _publish_diagnostics(self) -> None:
        if self._writer is not None and (full := self._disk_refusal(self._writer.folder, 0.5)):
            self._give_up(f"recording ended, the bag is whole: {full}")
        values = self._hearing.report(time.monotonic()) | {BAG: self._bag}
        if self._writer is not None:
            values |= {topic: str(count) for topic, count in self._writer.counts.items()} | self._end.report()
        if self._given_up:
            values[GIVEN_UP] = self._given_up
        status = DiagnosticStatus(
            name=self.get_name(),
            level=0,
            message=f"recording to {self._writer.folder}" if self._writer else "idle",
            hardware_id="",
            values=values,
        )
        if self._writer is not None:
            try:
                self._writer.flush()  # the writer flushes only while it writes; a silent arm must not hold data back
            except DynidError as error:
                self._give_up(f"recording ended: {error}")
        self._diagnostics.publish(encode_diagnostics(time.time_ns(), [status]))


def main() -> None:
    """Run the recorder node."""
    prefer_throughput()  # queues hold seconds of messages, so the bus and the controller go first
    run_node(RecorderNode, events=True)


if __name__ == "__main__":
    main()
