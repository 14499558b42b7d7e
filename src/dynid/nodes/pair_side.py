"""ROS interface to one arm of a coupled pair: it receives states and sends torque commands and external torques.

All topic and service names are in the namespace of the arm's driver, `leader` or `follower`.
"""

import time
from collections.abc import Callable

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool

from dynid.control.bilateral.arm_messages import ArmMessages
from dynid.control.bilateral.pair import SIDES, Reading
from dynid.control.holding_check import HoldingTorque
from dynid.control.model_laws import GravityCompensation, static_friction
from dynid.errors import DataError, DynidError, SafetyError
from dynid.hardware.bus.clock import boot_id
from dynid.hardware.loop.diagnostics import ENABLED, LOOP
from dynid.nodes.arm_interlocks import SinglePublisherSubscription
from dynid.nodes.common import LATCHED, NEWEST, STREAM
from dynid.recording.settings import HardwareSettings, reported_settings
from dynid.robot import FloatArray, Robot

Answered = Callable[[str], None]
ANSWER_S = 60.0  # limit for a driver's answer [s of the arm's time]; a driver lowers its arm before torque goes off


class PairSide:
    """ROS interface to one arm of a coupled pair.

    Args:
        node: node that creates topics and clients.
        robot: robot model of the arm.
        side: 0 for the leader, 1 for the follower.
        on_reading: called with the side, every state and the state's age at arrival [s]. The age is None if the driver
            uses another clock.
        on_trouble: called with a sentence if the driver stops following commands, or if its topics have two publishers.

    Attributes:
        name: "leader" or "follower".
        settings: settings that the driver reported; None before the first report.
        state: text of the driver's last status, such as whether torque is on; "" if unknown.
        malformed: number of messages that were ignored.
        arrived_s: monotonic time at which the newest state arrived [s].
    """

    def __init__(
        self,
        node: Node,
        robot: Robot,
        side: int,
        on_reading: Callable[[int, Reading, float | None], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self.name, self._side, self._node, self._robot = SIDES[side], side, node, robot
        self._on_reading, self._on_trouble = on_reading, on_trouble
        self.settings: HardwareSettings | None = None
        self.state, self.malformed, self._refusal, self._boot_id = "", 0, "", boot_id()
        self._messages = ArmMessages(robot.joint_names)
        self.arrived_s = -np.inf
        self._stamp_ns = 0  # timestamp of the newest state, on the arm's clock
        # pending request, and when it was made by the clocks of host and arm [s, ns]
        self._request: tuple[Future, float, int] | None = None
        self._holding: HoldingTorque | None = None  # set while the driver holds the arm before the coupling
        self._commands = node.create_publisher(JointState, f"{self.name}/joint_commands", STREAM)
        self._felt = node.create_publisher(JointState, f"{self.name}/external_torque", STREAM)
        self._enable = node.create_client(SetBool, f"{self.name}/hardware/enable")
        on_settings = (String, f"{self.name}/hardware_settings", self._on_settings, LATCHED)
        on_state = (JointState, f"{self.name}/joint_states", self._on_state, NEWEST)
        on_applied = (JointState, f"{self.name}/applied_commands", self._on_applied, NEWEST)  # observer input
        self._sources = (
            SinglePublisherSubscription(node, *on_settings, on_trouble),
            SinglePublisherSubscription(node, *on_state, on_trouble, raw=True),
            SinglePublisherSubscription(node, *on_applied, on_trouble, raw=True),
        )
        node.create_subscription(DiagnosticArray, f"{self.name}/diagnostics", self._on_report, 10)

    # -- received messages -------------------------------------------------------------------------------------------

    def _on_settings(self, message: String) -> None:
        try:
            self.settings, self._refusal = reported_settings(message.data, self._robot), ""
        except DynidError as error:
            self.settings, self._refusal = None, str(error)
            self._on_trouble(f"{self.name}: {error}")

    def _on_applied(self, raw: bytes) -> None:
        try:
            self._messages.applied(raw)
        except DataError as error:
            self._leave_out(error)

    def _on_state(self, raw: bytes) -> None:
        try:
            reading = self._messages.reading(raw)
        except DataError as error:
            self._leave_out(error)
            return
        if reading is None:
            return
        self.arrived_s, self._stamp_ns = time.monotonic(), reading.stamp_ns
        if self._holding is not None:
            state = self._messages.state
            self._holding.note(reading.stamp_ns, state["position"], state["velocity"], state["effort"])
        self._on_reading(self._side, reading, self._age_s(reading.stamp_ns))

    def _age_s(self, stamp_ns: int) -> float | None:
        """Return the age of a state [s] if its driver uses the clock of this host, else None."""
        if self.settings is None or not self.settings.boot_id or self.settings.boot_id != self._boot_id:
            return None
        return (time.monotonic_ns() + self.settings.stamp_offset_ns - stamp_ns) * 1e-9

    @property
    def clock(self) -> str:
        """Phrase for the diagnostics: whether the driver uses this host's clock, so that its states' ages are known."""
        known = self.settings is not None and self.settings.boot_id == self._boot_id != ""
        return "this host's: ages are known" if known else "another: a constant delay is not noticed"

    def _leave_out(self, error: DataError) -> None:
        self.malformed += 1
        self._node.get_logger().warning(f"{self.name}: left out, {error}", throttle_duration_sec=1.0)

    def _on_report(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == LOOP:
                before, self.state = self.state, status.message
                if before.startswith(ENABLED) and not self.state.startswith(ENABLED):
                    self._on_trouble(f"the {self.name}'s driver does not follow any more: {self.state}")

    # -- requests to the driver --------------------------------------------------------------------------------------

    def refuse(self) -> None:
        """Raise SafetyError unless this arm has exactly one active driver with valid settings."""
        for source in self._sources:
            if source.refusal:
                raise SafetyError(source.refusal)
        if self._refusal:
            raise SafetyError(f"the settings of the {self.name}'s driver are unknown: {self._refusal}")
        if self.settings is None or not self._enable.service_is_ready():
            raise SafetyError(f"the {self.name} has no driver: start one in the namespace {self.name} and activate it")

    def watch_holding(self) -> None:
        """Start to estimate the torques with which the driver holds the arm."""
        self._holding = HoldingTorque(self._robot)

    def refuse_contradiction(self, law: GravityCompensation) -> None:
        """Raise SafetyError if the torques that hold the arm contradict the model of the gravity compensation `law`.

        The usual causes are a wrong joint sign, mount or model. The torques are those since `watch_holding`.
        """
        holding, self._holding = self._holding, None
        if holding is None:
            return
        try:
            holding.refuse_contradiction(law, static_friction(law, holding.q))
        except SafetyError as error:
            raise SafetyError(f"the {self.name}: {error}; check the joint's sign, too") from None

    def set_enabled(self, enabled: bool, answered: Answered) -> None:
        """Request the driver to switch torque on or off, without waiting for its answer.

        Args:
            enabled: whether torque is to be on.
            answered: called later with "" if the driver has agreed, or with the reason why the request failed.
        """

        def done(future: Future) -> None:
            if self._request is not None and self._request[0] is future:
                self._request = None
            response, error = (None, future.exception()) if future.exception() else (future.result(), None)
            if response is None:
                answered(f"the {self.name}'s driver did not answer: {error}")
            else:
                answered("" if response.success else f"the {self.name}'s driver refused: {response.message}")

        self.state = ""  # the former state does not hold after this request
        future = self._enable.call_async(SetBool.Request(data=enabled))
        self._request = future, time.monotonic(), self._stamp_ns
        future.add_done_callback(done)

    @property
    def overdue(self) -> str:
        """Sentence about a request that the driver has not answered within `ANSWER_S`; "" if there is none.

        While states arrive, the waiting time is the difference of their timestamps, because a simulated arm and its
        clock pause while the host is busy. If no states arrive, it is measured by the clock of this host.
        """
        if self._request is None:
            return ""
        _, asked_s, asked_ns = self._request
        silent_s = time.monotonic() - max(self.arrived_s, asked_s)
        if max(silent_s, (self._stamp_ns - asked_ns) * 1e-9) <= ANSWER_S:
            return ""
        return f"the {self.name}'s driver did not answer within {ANSWER_S:g} s"

    def command(self, tau: FloatArray, external: FloatArray) -> None:
        """Publish torque commands in answer to the newest state, and the estimated external torques.

        Args:
            tau: torque commands, (n,) [N m].
            external: external torques, (n,) [N m].
        """
        self._commands.publish(self._messages.answer(tau))
        self._felt.publish(self._messages.answer(external))
