"""What nodes share that judge an arm by its model, its states and the torques that it is sent."""

from pathlib import Path

import numpy as np
from rclpy.node import Node
from rclpy.parameter import Parameter

from dynid.errors import ConfigurationError, DataError, UnknownNameError
from dynid.model.model_file import load_model
from dynid.nodes.common import check_parameters, declare, string
from dynid.recording.messages import JointStateDecoder
from dynid.robot import load_robot


class SensingNode(Node):
    """A node with a robot, an accepted model, a policy, and the last torques that were commanded.

    Args:
        name: of the node.
        kind: what its policy is one of, in an error.
        policies: that there are; the first is the default.
        policy_help: of the parameter `policy`.

    Raises:
        ConfigurationError: no model is given.
        UnknownNameError: there is no such policy.
    """

    def __init__(self, name: str, kind: str, policies: tuple[str, ...], policy_help: str) -> None:
        super().__init__(name)
        self._kind, self._policies = kind, policies
        self.robot = load_robot(declare(self, "robot", "crane_x7", "robot name or folder", fixed=True))
        path = declare(self, "model_file", "", "model.yaml of an accepted model", fixed=True)
        if not path:
            raise ConfigurationError(f"the node {name} needs a model: give its file as parameter model_file")
        self._content = load_model(Path(path))
        declare(self, "policy", policies[0], f"{policy_help}: {' or '.join(policies)}")
        self._refuse_unknown_policy(string(self, "policy"))
        check_parameters(self, self._on_set)
        names = self.robot.joint_names
        self._decode_state, self._decode_command = JointStateDecoder(names), JointStateDecoder(names)
        self._tau, self._trouble = np.zeros(self.robot.size), ""

    def _refuse_unknown_policy(self, policy: str) -> None:
        if policy not in self._policies:
            raise UnknownNameError(f"{self._kind} policy", policy, self._policies)

    def _on_set(self, given: list[Parameter]) -> None:
        for one in given:
            if one.name == "policy":
                self._refuse_unknown_policy(str(one.value))

    def _on_trouble(self, text: str) -> None:
        self._trouble = text
        self.get_logger().error(text)

    def _on_command(self, raw: bytes) -> None:
        try:
            command = self._decode_command.decode(raw)
        except DataError as error:
            self.get_logger().warning(f"joint_commands: left out, {error}", throttle_duration_sec=1.0)
            return
        if command is not None and np.isfinite(command[1]["effort"]).all():
            self._tau = command[1]["effort"]
