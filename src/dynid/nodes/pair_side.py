"""One arm of a pair as topics and services: its driver's states in; torques, and what is felt, out.

All names are below the arm's own, `leader` or `follower`: the namespace of its driver.
"""

import time
from collections.abc import Callable

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool

from dynid.control.bilateral.arm_messages import ArmMessages
from dynid.control.bilateral.pair import SIDES, Reading
from dynid.control.holding_check import HoldingTorque
from dynid.control.model_laws import GravityCompensation
from dynid.errors import DataError, DynidError, SafetyError
from dynid.hardware.bus.clock import boot_id
from dynid.hardware.loop.diagnostics import ENABLED, LOOP
from dynid.nodes.arm_interlocks import OneSource
from dynid.nodes.common import LATCHED, NEWEST, STREAM
from dynid.recording.settings import HardwareSettings, reported_settings
from dynid.robot import FloatArray, Robot

Answered = Callable[[str], None]


class PairSide:
    """One arm of a pair.

    Args:
        node: creates topics and clients.
        robot: the arm.
        side: 0 is the leader, 1 the follower.
        on_reading: called with every state and its age when it arrived [s], None where no clock here says it.
        on_trouble: called, in words, when the driver does not follow commands any more, or there are two of them.

    Attributes:
        name: "leader" or "follower".
        settings: what the driver reported; None before it did.
        state: what the driver last said that it does.
        malformed: messages that were left out.
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
        self._holding: HoldingTorque | None = None  # while the driver holds the arm that is about to be coupled
        self._commands = node.create_publisher(JointState, f"{self.name}/joint_commands", STREAM)
        self._felt = node.create_publisher(JointState, f"{self.name}/external_torque", STREAM)
        self._enable = node.create_client(SetBool, f"{self.name}/hardware/enable")
        on_settings = (String, f"{self.name}/hardware_settings", self._on_settings, LATCHED)
        on_state = (JointState, f"{self.name}/joint_states", self._on_state, NEWEST)
        on_applied = (JointState, f"{self.name}/applied_commands", self._on_applied, NEWEST)  # the observer's input
        self._sources = (
            OneSource(node, *on_settings, on_trouble),
            OneSource(node, *on_state, on_trouble, raw=True),
            OneSource(node, *on_applied, on_trouble, raw=True),
        )
        node.create_subscription(DiagnosticArray, f"{self.name}/diagnostics", self._on_report, 10)

    # -- what arrives ------------------------------------------------------------------------------------------------

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
        if self._holding is not None:
            state = self._messages.state
            self._holding.note(reading.stamp_ns, state["position"], state["velocity"], state["effort"])
        self._on_reading(self._side, reading, self._age_s(reading.stamp_ns))

    def _age_s(self, stamp_ns: int) -> float | None:
        """How old a state is [s], if its driver's stamps follow the clock of this host; None if they do not."""
        if self.settings is None or not self.settings.boot_id or self.settings.boot_id != self._boot_id:
            return None
        return (time.monotonic_ns() + self.settings.stamp_offset_ns - stamp_ns) * 1e-9

    @property
    def clock(self) -> str:
        """Whether ages of states are known, for the diagnostics."""
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

    # -- what is asked of the driver ---------------------------------------------------------------------------------

    def refuse(self) -> None:
        """Raise SafetyError where it is not known what drives this arm."""
        for source in self._sources:
            if source.refusal:
                raise SafetyError(source.refusal)
        if self._refusal:
            raise SafetyError(f"what drives the {self.name} is not known: {self._refusal}")
        if self.settings is None or not self._enable.service_is_ready():
            raise SafetyError(f"the {self.name} has no driver: start one in the namespace {self.name} and activate it")

    def watch_holding(self) -> None:
        """From now on, note by what the driver holds the arm."""
        self._holding = HoldingTorque(self._robot)

    def refuse_contradiction(self, law: GravityCompensation) -> None:
        """Raise SafetyError where that contradicts gravity by a model: a joint of the wrong sign, mount or model."""
        holding, self._holding = self._holding, None
        if holding is None:
            return
        try:
            holding.refuse_contradiction(law, law.stuck(holding.q))
        except SafetyError as error:
            raise SafetyError(f"the {self.name}: {error}; check the joint's sign, too") from None

    def set_enabled(self, enabled: bool, answered: Answered) -> None:
        """Ask the driver for torque on or off; `answered` gets "", or why not."""

        def done(future: Future) -> None:
            response, error = (None, future.exception()) if future.exception() else (future.result(), None)
            if response is None:
                answered(f"the {self.name}'s driver did not answer: {error}")
            else:
                answered("" if response.success else f"the {self.name}'s driver refused: {response.message}")

        self.state = ""  # what it said before says nothing of what it will do
        self._enable.call_async(SetBool.Request(data=enabled)).add_done_callback(done)

    def command(self, tau: FloatArray, external: FloatArray) -> None:
        """Publish torques that answer the newest state, and the torques from outside, (n,) each [N m]."""
        self._commands.publish(self._messages.answer(tau))
        self._felt.publish(self._messages.answer(external))
