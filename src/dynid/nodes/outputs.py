"""Where an executor's torques go: to this package's hardware node, or to a ros2_control effort controller."""

from typing import Protocol

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from dynid.errors import UnknownNameError
from dynid.nodes.common import STREAM, declare, string
from dynid.recording.messages import JointStateEncoder
from dynid.robot import FloatArray

HARDWARE, EFFORT_CONTROLLER = "joint_commands", "effort_controller"
BETWEEN = ", "
COMMANDED = "commanded"  # key of the executor's diagnostics: names of the nodes that commands reach
OUTPUTS = (HARDWARE, EFFORT_CONTROLLER)
# How long states may be silent while torques are commanded [s]: an effort controller keeps the last torque; the
# hardware node has stopped the arm itself long before, or a busy host pauses a simulated one.
HARDWARE_SILENCE_S, CONTROLLER_SILENCE_S = 10.0, 0.2


class CommandOutput(Protocol):
    """Takes one torque vector per cycle.

    Attributes:
        silence_s: after so long without states the executor must end the output [s].
    """

    silence_s: float

    def send(self, stamp_ns: int, tau: FloatArray, held: FloatArray | None = None) -> None:
        """Torques (n,) [N m] that answer the state of `stamp_ns`; they hold the arm at `held` (n,) [rad] if given."""

    def end(self) -> None:
        """No torque is commanded any more."""

    def report(self) -> dict[str, str]:
        """What the executor's diagnostics say of it."""


class HardwareOutput:
    """sensor_msgs/JointState on `joint_commands`; where commands end, the hardware node acts by itself.

    Positions say where the arm is held, and are not a number while it is not: the hardware node watches a held arm.
    """

    silence_s = HARDWARE_SILENCE_S

    def __init__(self, node: Node, joint_names: tuple[str, ...]) -> None:
        self._node, self._encoder = node, JointStateEncoder(joint_names, fields=("position", "effort"))
        self._nowhere = np.full(len(joint_names), np.nan)
        self._publisher = node.create_publisher(JointState, "joint_commands", STREAM)

    def send(self, stamp_ns: int, tau: FloatArray, held: FloatArray | None = None) -> None:
        """Publish the efforts with the stamp of the state that they answer."""
        position = self._nowhere if held is None else held
        self._publisher.publish(self._encoder.encode(stamp_ns, position=position, effort=tau))

    def end(self) -> None:
        """Silence says it."""

    def report(self) -> dict[str, str]:
        """The nodes that are known to listen: a command is lost to all others, whatever they know themselves."""
        infos = self._node.get_subscriptions_info_by_topic(self._publisher.topic_name)
        return {COMMANDED: BETWEEN.join(sorted({info.node_name for info in infos}))}


class EffortControllerOutput:
    """std_msgs/Float64MultiArray to a forward effort controller, which keeps the last command for ever."""

    silence_s = CONTROLLER_SILENCE_S

    def __init__(self, node: Node, topic: str, size: int) -> None:
        self._publisher = node.create_publisher(Float64MultiArray, topic, STREAM)
        self._message = Float64MultiArray()
        self._size, self._sending = size, False

    def send(self, stamp_ns: int, tau: FloatArray, held: FloatArray | None = None) -> None:
        """Publish the efforts in the robot's joint order; the controller must have the same, and knows of no hold."""
        self._message.data = tau.tolist()
        self._publisher.publish(self._message)
        self._sending = True

    def end(self) -> None:
        """Zeros, once: a torque that nobody renews must not stay."""
        if self._sending:
            self.send(0, np.zeros(self._size))
            self._sending = False

    def report(self) -> dict[str, str]:
        """Controllers are ros2_control's business."""
        return {}


def declare_output(node: Node, joint_names: tuple[str, ...]) -> CommandOutput:
    """The output that the node's parameters name.

    Raises:
        UnknownNameError: no such output.
    """
    kind = declare(node, "output", HARDWARE, f"output of the torques: {' or '.join(OUTPUTS)}", fixed=True)
    declare(node, "effort_topic", "effort_controller/commands", "topic of the effort controller", fixed=True)
    if kind == HARDWARE:
        return HardwareOutput(node, joint_names)
    if kind == EFFORT_CONTROLLER:
        return EffortControllerOutput(node, string(node, "effort_topic"), len(joint_names))
    raise UnknownNameError("output", str(kind), OUTPUTS)
