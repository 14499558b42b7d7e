"""What nodes share that judge an arm by its model, its states and the torques that it is sent."""

from pathlib import Path

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState

from dynid.contact.in_force import InForce
from dynid.contact.observer import LONGEST_STEP_S
from dynid.errors import ConfigurationError, DataError
from dynid.identification.settings import load_identification
from dynid.model.model_file import read_model_file
from dynid.nodes.arm_interlocks import OneSource
from dynid.nodes.common import STREAM, compile_first, declare
from dynid.recording.messages import JointStateDecoder
from dynid.recording.topics import APPLIED_COMMANDS, JOINT_COMMANDS
from dynid.robot import FloatArray, load_robot


class SensingNode(Node):
    """A node with a robot, an accepted model, and the torques that are in force between states.

    Those are what the driver says that it wrote. Of a driver that does not say so (`applied_commands`), it is what was
    commanded last, which may be a cycle or more beside what the arm had: then weights and forces are less certain.

    Args:
        name: of the node.

    Attributes:
        torques_from: the topic that torques are taken from.

    Raises:
        ConfigurationError: no model is given.
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
        self._in_force, self._before_ns = InForce(self.robot.size), 0
        self._take_line(simulated=False)
        # of two publishers nothing counts: who forges torques would have weights and forces felt that are none
        self._torque_sources = tuple(
            OneSource(self, JointState, topic, callback, STREAM, self._on_trouble, raw=True)
            for topic, callback in ((JOINT_COMMANDS, self._on_command), (APPLIED_COMMANDS, self._on_applied))
        )

    def rehearse(self) -> None:
        """Compile what the node runs."""
        compile_first(self, self.robot)

    def _on_trouble(self, text: str) -> None:
        self._trouble = text
        self.get_logger().error(text)

    def _take_line(self, *, simulated: bool) -> None:
        """How long torques take to the motors depends on whether the line is a simulated one."""
        self._in_force.delay_s = load_identification(self.robot).transmission(self.robot, simulated=simulated)

    def torque_until(self, stamp_ns: int) -> FloatArray:
        """What was in force from the state before to this one, (n,) [N m]; once for each state."""
        begin_ns, self._before_ns = self._before_ns, stamp_ns
        silent_s = (stamp_ns - self._in_force.newest_ns) * 1e-9
        if self.torques_from == APPLIED_COMMANDS and silent_s > LONGEST_STEP_S:
            self.torques_from = JOINT_COMMANDS
            self.get_logger().warning(f"no {APPLIED_COMMANDS} for {silent_s:.2g} s: joint_commands are taken for them")
        return self._in_force.between(begin_ns, stamp_ns) if self.torques_from == APPLIED_COMMANDS else self._commanded

    def torque_report(self) -> dict[str, str]:
        """For the diagnostics: where torques are from, and to how many states no answer is known."""
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
        """Stamp [ns] and torques (n,) [N m] of this arm's joints; None of what cannot be used."""
        try:
            given = self._decode_torques.decode(raw)
        except DataError as error:
            self.get_logger().warning(f"{topic}: left out, {error}", throttle_duration_sec=1.0)
            return None
        if given is None or not np.isfinite(given[1]["effort"]).all():
            return None
        return given[0], given[1]["effort"]
