"""Motions that somebody asks for, built and checked beside the control.

By name (a trajectory, or the excitation of one joint), from a file, or as JointTrajectory.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dynid.control.controller import ControllerSettings
from dynid.control.motion import MotionExecutor
from dynid.control.motion_check import MotionLimits
from dynid.control.open_loop import PREFIX, excited_joint, plan_excitation
from dynid.control.plan import MotionPlan, plan_motion
from dynid.errors import ConfigurationError, DataError, DynidError
from dynid.nodes.preparation import Preparation
from dynid.recording.messages import JOINT_TRAJECTORY, decode
from dynid.robot import FloatArray
from dynid.trajectory.families import Excitation
from dynid.trajectory.files import MOST_POINTS, is_file_name, load_trajectory_file, spread_points
from dynid.trajectory.motion import Motion

FROM_FILE, FROM_TOPIC = "file", "topic"  # what stands in the place of a profile for motions that have none
MOST_BYTES = 400 * MOST_POINTS  # of a serialized message: position, speed and acceleration of sixteen joints
LONGEST_NAME = 200
Outcome = Callable[[MotionPlan | DynidError], None]


class MotionRequests:
    """Turns requests into checked plans, one at a time.

    Args:
        excitation: the robot's named trajectories.
        motion: gives the check and the posture at which a motion begins.
        controller: M_hat and D_hat size the excitation of a joint.
        limits: what such an excitation must keep.
    """

    def __init__(
        self, excitation: Excitation, motion: MotionExecutor, controller: ControllerSettings, limits: MotionLimits
    ) -> None:
        self._excitation, self._motion = excitation, motion
        self._controller, self._limits = controller, limits
        self.preparation: Preparation[MotionPlan] = Preparation()

    def by_name(self, name: str, profile: str, q: FloatArray, done: Outcome, *, to_rest: bool = True) -> None:
        """A trajectory of excitation.yaml or of a file, or joint_excitation_<number>; `done` gets plan or error.

        Raises:
            NodeError: another motion is being checked.
        """
        start = self._motion.start_posture(q)
        if name.startswith(PREFIX):
            self.preparation.start(lambda: self._excite(name, start), done)
            return

        def build() -> Motion:
            if is_file_name(name):
                return load_trajectory_file(Path(name), self._excitation, start)
            return self._excitation.trajectory(name, profile)

        self._prepare(build, start, done, to_rest)

    def _excite(self, name: str, start: FloatArray) -> MotionPlan:
        robot, check = self._motion.robot, self._motion.check  # with the cycle that the driver keeps
        if check.torques is None:
            raise ConfigurationError(
                f"'{name}' needs a prediction of the arm's gravity torques, which is not available here"
            )
        joint = excited_joint(robot, name)
        return plan_excitation(robot, self._controller, joint, start, check, self._limits, check.torques)

    def from_message(self, raw: bytes, q: FloatArray, done: Outcome) -> None:
        """A serialized JointTrajectory, at whose end the arm is held; `done` and errors as of `by_name`.

        It is decoded beside the control as well: that takes a second where it has many points.
        """
        start = self._motion.start_posture(q)
        joints = self._excitation.robot.joint_names
        self._prepare(lambda: message_motion(decoded_trajectory(raw), joints, start), start, done, to_rest=False)

    def _prepare(self, build: Callable[[], Motion], start: FloatArray, done: Outcome, to_rest: bool) -> None:
        robot, check = self._excitation.robot, self._motion.check
        self.preparation.start(lambda: plan_motion(robot, build(), start, check, to_rest=to_rest), done)


def trajectory_name(raw: bytes) -> str:
    """The name of a serialized JointTrajectory: its frame; '' where it has none that can be read, or a longer one."""
    size = int.from_bytes(raw[12:16], "little")
    if not 1 < size <= LONGEST_NAME:
        return ""
    text = raw[16 : 15 + size].decode(errors="replace")
    return text if text.isprintable() else ""


def decoded_trajectory(raw: bytes) -> Any:
    """A serialized JointTrajectory; DataError where it is none, or longer than one that would be accepted."""
    if len(raw) > MOST_BYTES:
        raise DataError(f"a trajectory of {len(raw)} bytes was sent, expected at most {MOST_BYTES}: split it")
    return decode(raw, JOINT_TRAJECTORY, len(raw))  # rclpy leaves some bytes for each point


def message_motion(message: Any, joints: tuple[str, ...], hold: FloatArray) -> Motion:
    """The motion of a JointTrajectory; joints (n,) that it does not name stay at `hold` (n,) [rad].

    Raises:
        ConfigurationError: no points, points of different widths, efforts, or what `spread_points` refuses.
    """
    points, name = message.points, message.header.frame_id or "joint_trajectory"
    if not points:
        raise ConfigurationError(f"trajectory '{name}' has no points")
    if any(len(point.effort) for point in points):
        raise ConfigurationError(
            f"trajectory '{name}' has efforts; remove them, because the controller determines the torques"
        )
    times = np.array([point.time_from_start.sec + point.time_from_start.nanosec * 1e-9 for point in points])

    def rows(key: str) -> FloatArray | None:
        lengths = {len(getattr(point, key)) for point in points}
        if lengths == {0} and key != "positions":
            return None
        if lengths != {len(message.joint_names)}:
            raise ConfigurationError(
                f"trajectory '{name}': {key} of its points have {sorted(lengths)} entries for "
                f"{len(message.joint_names)} joints"
            )
        return np.array([getattr(point, key) for point in points], dtype=float)

    positions = rows("positions")
    assert positions is not None
    return spread_points(
        name, joints, hold, tuple(message.joint_names), times, positions, rows("velocities"), rows("accelerations")
    )
