"""Node in its own thread that receives the arm's topics while the main thread plans and computes."""

import json
import sys
import threading
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from dynid.errors import DataError, SafetyError
from dynid.hardware.loop.realtime import SWITCH_INTERVAL_S
from dynid.hardware.safety.overload import OverloadModel
from dynid.nodes.arm_interlocks import SinglePublisherSubscription, TorqueWatch
from dynid.nodes.common import LATCHED, STREAM, WAKE_S, in_words, set_middleware_defaults
from dynid.nodes.experiment import MOTION_STATUS, MotionStatus, read_status
from dynid.recording.growing import RECORDED_TYPES, GrowingRecording
from dynid.recording.messages import STRING
from dynid.recording.series import joint_series
from dynid.recording.topics import APPLIED_COMMANDS, JOINT_STATES
from dynid.robot import FloatArray, Robot

LOAD_EVERY_S = 0.05


class ArmStream:
    """Receiver of the arm's topics, which cancels a motion in which a servo comes too close to its overload limit.

    Use it as a context manager.

    Attributes:
        recording: all messages received so far.
        load: used fraction of each servo's overload capacity, (n,) [-]; at 1 the servo switches itself off.
        most_load: value of `load` above which the motion is cancelled, (n,) [-]; None cancels no motion.
        overloaded: whether a motion was cancelled for overload since `most_load` was set.
    """

    def __init__(self, robot: Robot) -> None:
        self.robot, self.recording = robot, GrowingRecording()
        self._overload = OverloadModel.of(robot)
        self.load, self.most_load, self.overloaded = np.zeros(robot.size), None, False
        self._begun = False  # whether the driver's load has been taken over
        set_middleware_defaults()
        self._context = rclpy.Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = Node("adaptive", context=self._context)
        self._statuses: dict[str, MotionStatus] = {}
        self._motions = self._node.create_publisher(JointTrajectory, "joint_trajectory", 10)
        self._progress = self._node.create_publisher(String, "identification_progress", LATCHED)
        self._cancel = self._node.create_client(Trigger, "executor/cancel")
        for name, kind in RECORDED_TYPES.items():
            message, profile = (String, LATCHED) if kind == STRING else (JointState, STREAM)
            SinglePublisherSubscription(
                self._node, message, name, partial(self._keep, name), profile, self.fail, raw=True
            )
        SinglePublisherSubscription(self._node, String, MOTION_STATUS, self._on_status, LATCHED, self.fail)
        self._node.create_timer(LOAD_EVERY_S, self._follow_load)
        self._loaded, self._loaded_until_ns = 0, 0  # number and last timestamp [ns] of the applied commands in the load
        self._failure = ""
        TorqueWatch(self._node, lambda: self.fail("torque was switched off"), loaded=self._on_load)
        self._stopped, self._interval_s = threading.Event(), sys.getswitchinterval()
        self._thread = threading.Thread(target=self._spin, name="arm stream", daemon=True)

    most_load: FloatArray | None

    def __enter__(self) -> "ArmStream":
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        sys.setswitchinterval(self._interval_s)
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)

    # -- called in the main thread ---------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether joint states arrive, and the executor's topics and its cancel service have been discovered."""
        return (
            self._motions.get_subscription_count() > 0
            and self._cancel.service_is_ready()
            and self._node.count_publishers(MOTION_STATUS) > 0
            and self.recording.count(JOINT_STATES) > 0
        )

    def publish(self, message: JointTrajectory) -> None:
        """Send a motion to the executor.

        Raises:
            SafetyError: the arm must not be moved any more, see `refuse_failure`.
        """
        self.refuse_failure()
        self._motions.publish(message)

    def report(self, progress: dict[str, Any]) -> None:
        """Publish the progress of the identification, given as plain values, on topic `identification_progress`."""
        self._progress.publish(String(data=json.dumps(progress)))

    def status(self, identifier: str) -> MotionStatus | None:
        """Return the executor's latest status of the motion with this identifier; None before the first status.

        Raises:
            SafetyError: the arm must not be moved any more.
        """
        self.refuse_failure()
        return self._statuses.get(identifier)

    def fail(self, reason: str) -> None:
        """Cancel the motion and refuse all further motions; every later call raises SafetyError with this reason."""
        self._failure = self._failure or reason
        self._cancel.call_async(Trigger.Request())

    def refuse_failure(self) -> None:
        """Raise SafetyError if the arm must not be moved any more.

        Reasons are that torque was switched off, a topic has a second publisher, a motion was stopped from outside, or
        receiving the arm's topics failed.
        """
        if self._failure:
            raise SafetyError(self._failure)

    def newest(self) -> tuple[int, FloatArray]:
        """Return timestamp [ns] and joint positions (n,) [rad] of the latest state.

        Raises:
            DataError: no state has arrived.
            SafetyError: the arm must not be moved any more.
        """
        self.refuse_failure()
        count = self.recording.count(JOINT_STATES)
        series = joint_series(self.recording.since(JOINT_STATES, max(0, count - 1)), self.robot.joint_names)
        return int(series.stamp_ns[-1]), np.array(series.field("position")[-1])

    # -- called in the receiving thread ----------------------------------------------------------------------------

    def _spin(self) -> None:
        executor = EventsExecutor(context=self._context)
        executor.add_node(self._node)
        try:
            while not self._stopped.is_set():
                try:
                    executor.spin_once(timeout_sec=WAKE_S)
                except ExternalShutdownException:
                    raise
                except Exception as error:  # without this thread the motion is not monitored
                    self.fail(f"receiving what the arm does failed: {in_words(error)}")
        except ExternalShutdownException:
            pass
        finally:
            executor.remove_node(self._node)
            executor.shutdown()

    def _keep(self, topic: str, raw: bytes) -> None:
        self.recording.append(topic, raw)

    def _on_status(self, message: String) -> None:
        status = read_status(message.data)
        self._statuses[status.id] = status

    def _on_load(self, load: FloatArray) -> None:
        """Initialise the attribute `load` with the driver's first report of used overload capacity, `load` (n,) [-].

        The first report includes the effect of all currents before this program started. Reports with another shape or
        values that are not finite are ignored, and so are later reports: from then on, the attribute is computed from
        the currents that the driver reports as applied, by the method by which the planner predicts future loads.
        """
        known = self._overload is not None and load.shape == self.load.shape and bool(np.isfinite(load).all())
        if known and not self._begun:
            self.load, self._begun = np.maximum(load, 0.0), True

    def _follow_load(self) -> None:
        if self._overload is None or self.recording.count(APPLIED_COMMANDS) == self._loaded:
            return
        content = self.recording.since(APPLIED_COMMANDS, self._loaded)
        self._loaded += len(content.messages)
        try:
            series = joint_series(content, self.robot.joint_names)
            current = series.field("effort") / self.robot.joint_constants
        except DataError:
            return  # not this arm's commands
        until_ns = int(series.stamp_ns[-1])
        # duration from timestamps: the driver's cycle may be longer than robot.yaml's, and cycles may be lost
        passed_s = 1e-9 * (until_ns - (self._loaded_until_ns or int(series.stamp_ns[0])))
        self._loaded_until_ns = until_ns
        step_s = max(passed_s, 0.0) / len(current)
        self.load = self._overload.along(self.load, current, step_s)[-1]
        most_load = self.most_load
        if most_load is not None and (self.load > most_load).any():
            self.most_load, self.overloaded = None, True
            self._cancel.call_async(Trigger.Request())
