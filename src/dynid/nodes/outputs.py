"""Outputs for an executor's torques: this package's hardware node, or a ros2_control effort controller."""

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
NAME_SEPARATOR = ", "
COMMANDED = "commanded"  # key of the executor's diagnostics: names of the nodes that receive commands
OUTPUTS = (HARDWARE, EFFORT_CONTROLLER)
# Longest time without states while torques are commanded [s]. It is short for an effort controller, which keeps the
# last torque. The hardware node stops the arm itself much earlier, and a busy host may pause a simulated arm.
HARDWARE_SILENCE_S, CONTROLLER_SILENCE_S = 10.0, 0.2


class CommandOutput(Protocol):
    """Interface of an output that receives one torque vector per cycle.

    Attributes:
        silence_s: time without states after which the executor must end the output [s].
    """

    silence_s: float

    def send(self, stamp_ns: int, tau: FloatArray, held: FloatArray | None = None) -> None:
        """Send the torques of one cycle.

        Args:
            stamp_ns: timestamp of the state from which the torques were computed [ns].
            tau: torques, (n,) [N m].
            held: posture at which the torques hold the arm, (n,) [rad]; None if they do not hold it.
        """

    def end(self) -> None:
        """End the torque commands."""

    def report(self) -> dict[str, str]:
        """Return the entries for the executor's diagnostics."""


class HardwareOutput:
    """Output as sensor_msgs/JointState on `joint_commands`; the hardware node stops the arm when commands end.

    The positions in the message are those at which the torques hold the arm; they are NaN if the arm is not held.
    If a joint of a held arm moves far nevertheless, the hardware node stops the arm, see
    `dynid.hardware.safety.claim_watch`.
    """

    silence_s = HARDWARE_SILENCE_S

    def __init__(self, node: Node, joint_names: tuple[str, ...]) -> None:
        self._node, self._encoder = node, JointStateEncoder(joint_names, fields=("position", "effort"))
        self._nowhere = np.full(len(joint_names), np.nan)
        self._publisher = node.create_publisher(JointState, "joint_commands", STREAM)

    def send(self, stamp_ns: int, tau: FloatArray, held: FloatArray | None = None) -> None:
        """Publish the torques of one cycle.

        Args:
            stamp_ns: timestamp of the state from which the torques were computed [ns].
            tau: torques, (n,) [N m].
            held: posture at which the torques hold the arm, (n,) [rad]; None if they do not hold it.
        """
        position = self._nowhere if held is None else held
        self._publisher.publish(self._encoder.encode(stamp_ns, position=position, effort=tau))

    def end(self) -> None:
        """Do nothing: the hardware node detects that no more commands arrive."""

    def report(self) -> dict[str, str]:
        """Return the names of the nodes that receive the commands, as an entry for the executor's diagnostics."""
        infos = self._node.get_subscriptions_info_by_topic(self._publisher.topic_name)
        return {COMMANDED: NAME_SEPARATOR.join(sorted({info.node_name for info in infos}))}


class EffortControllerOutput:
    """Output as std_msgs/Float64MultiArray to a forward effort controller, which keeps the last command forever."""

    silence_s = CONTROLLER_SILENCE_S

    def __init__(self, node: Node, topic: str, size: int) -> None:
        self._publisher = node.create_publisher(Float64MultiArray, topic, STREAM)
        self._message = Float64MultiArray()
        self._size, self._sending = size, False

    def send(self, stamp_ns: int, tau: FloatArray, held: FloatArray | None = None) -> None:
        """Publish torques tau (n,) [N m] in the robot's joint order; the other arguments are ignored."""
        self._message.data = tau.tolist()
        self._publisher.publish(self._message)
        self._sending = True

    def end(self) -> None:
        """Send zero torque once, because the controller would keep the last command."""
        if self._sending:
            self.send(0, np.zeros(self._size))
            self._sending = False

    def report(self) -> dict[str, str]:
        """Return no entries, since ros2_control itself reports about its controllers."""
        return {}


def declare_output(node: Node, joint_names: tuple[str, ...]) -> CommandOutput:
    """Return the command output that the node's parameters name, and declare these parameters.

    Raises:
        UnknownNameError: the parameter `output` names no known output.
    """
    kind = declare(node, "output", HARDWARE, f"output of the torques: {' or '.join(OUTPUTS)}", fixed=True)
    declare(node, "effort_topic", "effort_controller/commands", "topic of the effort controller", fixed=True)
    if kind == HARDWARE:
        return HardwareOutput(node, joint_names)
    if kind == EFFORT_CONTROLLER:
        return EffortControllerOutput(node, string(node, "effort_topic"), len(joint_names))
    raise UnknownNameError("output", str(kind), OUTPUTS)
