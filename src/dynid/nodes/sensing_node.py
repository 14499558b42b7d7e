"""Base class of nodes that compare an arm's states and torques with its model."""

from pathlib import Path

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState

from dynid.contact.observer import LONGEST_STEP_S
from dynid.contact.torque_history import TorqueHistory
from dynid.errors import ConfigurationError, DataError
from dynid.identification.settings import load_identification
from dynid.model.model_file import read_model_file
from dynid.nodes.arm_interlocks import SinglePublisherSubscription
from dynid.nodes.common import STREAM, compile_first, declare
from dynid.recording.messages import JointStateDecoder
from dynid.recording.topics import APPLIED_COMMANDS, JOINT_COMMANDS
from dynid.robot import FloatArray, load_robot


class SensingNode(Node):
    """Base class of nodes that need a robot, its accepted model, and the torques that acted between joint states.

    The torques are those that the driver reports as applied (topic `applied_commands`). If the driver does not report
    them, the last command is used instead. A command may act a cycle or more before or after the time at which it is
    assumed to act, so payloads and forces estimated from commands are less certain.

    Args:
        name: name of the node.

    Attributes:
        torques_from: topic from which the torques are taken.

    Raises:
        ConfigurationError: the parameter `model_file` is empty.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.robot = load_robot(declare(self, "robot", "crane_x7", "robot name or folder", fixed=True))
        path = declare(self, "model_file", "", "model.yaml of an accepted model", fixed=True)
        if not path:
            raise ConfigurationError(f"the node {name} needs a model: give its file as parameter model_file")
        self._content = read_model_file(Path(path))
        names = self.robot.joint_names
        self._decode_state, self._decode_torques = JointStateDecoder(names), JointStateDecoder(names)
        self._commanded, self._trouble, self.torques_from = np.zeros(self.robot.size), "", JOINT_COMMANDS
        self._in_force, self._previous_stamp_ns = TorqueHistory(self.robot.size), 0
        self._take_line(simulated=False)
        # messages of two publishers are ignored: forged torques would cause false payloads and forces
        self._torque_sources = tuple(
            SinglePublisherSubscription(self, JointState, topic, callback, STREAM, self._on_trouble, raw=True)
            for topic, callback in ((JOINT_COMMANDS, self._on_command), (APPLIED_COMMANDS, self._on_applied))
        )

    def rehearse(self) -> None:
        """Compile the functions that the node uses."""
        compile_first(self, self.robot)

    def _on_trouble(self, text: str) -> None:
        self._trouble = text
        self.get_logger().error(text)

    def _take_line(self, *, simulated: bool) -> None:
        """Set the delay from a commanded to the acting torque, which depends on whether the servo line is simulated."""
        self._in_force.delay_s = load_identification(self.robot).transmission(self.robot, simulated=simulated)

    def torque_until(self, stamp_ns: int) -> FloatArray:
        """Return the mean torque (n,) [N m] that acted between the previous state and the present one.

        Call it once for each state; `stamp_ns` is the timestamp of the present state [ns].
        """
        begin_ns, self._previous_stamp_ns = self._previous_stamp_ns, stamp_ns
        silent_s = (stamp_ns - self._in_force.newest_ns) * 1e-9
        if self.torques_from == APPLIED_COMMANDS and silent_s > LONGEST_STEP_S:
            self.torques_from = JOINT_COMMANDS
            self.get_logger().warning(f"no {APPLIED_COMMANDS} for {silent_s:.2g} s: joint_commands are used instead")
        return self._in_force.between(begin_ns, stamp_ns) if self.torques_from == APPLIED_COMMANDS else self._commanded

    def torque_report(self) -> dict[str, str]:
        """Return diagnostics entries: the topic of the torques, and the number of states without a reported torque."""
        return {"torques_from": self.torques_from, "states_without_answer": str(self._in_force.missing)}

    def _on_command(self, raw: bytes) -> None:
        given = self._decoded(JOINT_COMMANDS, raw)
        if given is not None:
            self._commanded = given[1]

    def _on_applied(self, raw: bytes) -> None:
        given = self._decoded(APPLIED_COMMANDS, raw)
        if given is not None:
            self._in_force.note(*given)
            self.torques_from = APPLIED_COMMANDS

    def _decoded(self, topic: str, raw: bytes) -> tuple[int, FloatArray] | None:
        """Return timestamp [ns] and torques (n,) [N m] of a serialized JointState; None if it is unusable.

        A message is unusable if it is malformed, has a torque that is not finite, or lacks a joint of this arm. `topic`
        is its topic, for the log.
        """
        try:
            given = self._decode_torques.decode(raw)
        except DataError as error:
            self.get_logger().warning(f"{topic}: left out, {error}", throttle_duration_sec=1.0)
            return None
        if given is None or not np.isfinite(given[1]["effort"]).all():
            return None
        return given[0], given[1]["effort"]
