"""Forces of simulated hands and walls on an arm's tool, modelled as springs and dampers in Cartesian space."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pinocchio

from dynid.model.chain import SerialChain
from dynid.robot import FloatArray, Robot, read_only

TOOL_M = 0.1  # distance of the tool from the last joint along its axis [m]
Path = Callable[[float], FloatArray]


@dataclass(frozen=True, eq=False)
class ToolState:
    """State of an arm's tool in the base frame.

    Attributes:
        position: position, (3,) [m].
        rotation: rotation matrix, (3, 3).
        jacobian: Jacobian, linear rows above angular rows, (6, n).
        twist: linear velocity, then angular velocity, (6,) [m/s, rad/s].
    """

    position: FloatArray
    rotation: FloatArray
    jacobian: FloatArray
    twist: FloatArray


class Tool:
    """Forward kinematics of an arm's tool."""

    def __init__(self, robot: Robot) -> None:
        self._model, self._size = SerialChain.from_robot(robot).model, robot.size
        placement = pinocchio.SE3(np.eye(3), np.array([0.0, 0.0, TOOL_M]))
        frame = pinocchio.Frame("tool", robot.chain_size, 0, placement, pinocchio.FrameType.OP_FRAME)
        self._frame = self._model.addFrame(frame)
        self._data = self._model.createData()

    def state(self, q: FloatArray, dq: FloatArray) -> ToolState:
        """Return the tool's state at joint angles q (n,) [rad] and joint velocities dq (n,) [rad/s]."""
        n = self._model.nq
        pinocchio.computeJointJacobians(self._model, self._data, np.array(q[:n]))
        pinocchio.updateFramePlacement(self._model, self._data, self._frame)
        jacobian = np.zeros((6, self._size))
        jacobian[:, :n] = pinocchio.getFrameJacobian(
            self._model, self._data, self._frame, pinocchio.LOCAL_WORLD_ALIGNED
        )
        placement = self._data.oMf[self._frame]
        return ToolState(placement.translation.copy(), placement.rotation.copy(), jacobian, jacobian @ dq)


@dataclass(frozen=True, eq=False)
class Hand:
    """Simulated hand that pulls the tool by a spring and damper to a moving point and a fixed rotation.

    Attributes:
        path: function that returns the displacement of the hand since grasping, (3,) [m], at a time [s].
        start: state of the tool at the time of grasping; the hand maintains the rotation of this state.
        until_s: time of release [s].
        stiffness_n_m: stiffness of translation [N/m].
        damping_ns_m: damping of translation [N s/m].
        turning_nm_rad: stiffness of rotation [N m/rad].
        turning_damping_nm_s: damping of rotation [N m s/rad].
    """

    path: Path
    start: ToolState
    until_s: float = np.inf
    stiffness_n_m: float = 300.0
    damping_ns_m: float = 15.0
    turning_nm_rad: float = 8.0
    turning_damping_nm_s: float = 0.15

    def wrench(self, time_s: float, tool: ToolState) -> FloatArray:
        """Return the hand's wrench on the tool at a time [s], in the base frame: force, then torque, (6,) [N, N m]."""
        if time_s >= self.until_s:
            return np.zeros(6)
        away = self.start.position + self.path(time_s) - tool.position
        turned = pinocchio.log3(self.start.rotation @ tool.rotation.T)
        force = self.stiffness_n_m * away - self.damping_ns_m * tool.twist[:3]
        return np.concatenate([force, self.turning_nm_rad * turned - self.turning_damping_nm_s * tool.twist[3:]])


@dataclass(frozen=True)
class Wall:
    """Elastic wall at x = `at_m` [m] in the base frame; it pushes a tool with a larger x in the direction of -x."""

    at_m: float
    stiffness_n_m: float
    damping_ns_m: float = 5.0

    def wrench(self, time_s: float, tool: ToolState) -> FloatArray:
        """Return the wall's wrench on the tool, in the base frame: force, then torque, (6,) [N, N m]."""
        depth, wrench = tool.position[0] - self.at_m, np.zeros(6)
        if depth > 0.0:
            wrench[0] = -max(0.0, self.stiffness_n_m * depth + self.damping_ns_m * tool.twist[0])
        return wrench


def smooth(share: float) -> float:
    """Return a smooth step that rises from 0 to 1 with continuous acceleration while `share` rises from 0 to 1."""
    x = min(max(share, 0.0), 1.0)
    return x * x * x * (10.0 + x * (6.0 * x - 15.0))


def wandering(time_s: float) -> FloatArray:
    """Return the displacement at a time [s] of a hand that moves the tool around in free space, (3,) [m].

    The motion begins after half a second.
    """
    t = max(time_s - 0.5, 0.0)
    place = read_only(
        [0.05 * np.sin(0.8 * np.pi * t), 0.08 * np.sin(0.6 * np.pi * t), 0.1 * np.sin(0.3 * np.pi * t) ** 2]
    )
    return np.asarray(smooth(t) * place)


def pressing(time_s: float, *, depth_m: float = 0.045, from_s: float = 0.5, for_s: float = 1.8) -> FloatArray:
    """Return the displacement at a time [s] of a hand that moves forward along x and stays there, (3,) [m].

    The hand moves by `depth_m` [m], from `from_s` on, within `for_s` [s].
    """
    return read_only([depth_m * smooth((time_s - from_s) / for_s), 0.0, 0.0])
