"""Requested motions, built and checked in a separate thread while control continues.

A motion is requested by name (a trajectory, or the excitation of one joint), from a file, or as JointTrajectory.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dynid.control.added_torque import TorqueCurve
from dynid.control.controller import ControllerSettings
from dynid.control.motion import MotionExecutor
from dynid.control.motion_check import MotionLimits
from dynid.control.open_loop import PREFIX, excited_joint, plan_excitation
from dynid.control.plan import MotionPlan, plan_motion
from dynid.control.servo_loads import ServoLoads
from dynid.errors import ConfigurationError, DataError, DynidError, SafetyError
from dynid.nodes.common import seconds
from dynid.nodes.preparation import Preparation
from dynid.recording.messages import JOINT_TRAJECTORY, decode
from dynid.robot import FloatArray
from dynid.trajectory.families import Excitation
from dynid.trajectory.files import MOST_POINTS, is_file_name, load_trajectory_file, spread_points
from dynid.trajectory.motion import Motion

FROM_FILE, FROM_TOPIC = "file", "topic"  # given as profile of motions that have no speed profile
MOST_BYTES = 560 * MOST_POINTS  # per message; a point has position, velocity, acceleration, effort of 16 joints
LONGEST_NAME = 200
APPROACH_RAD = 0.1  # default of the largest distance between the arm and the start of a received motion
Outcome = Callable[[MotionPlan | DynidError], None]


class MotionRequests:
    """Planner of requested motions: it plans and checks one motion at a time in a separate thread.

    Args:
        excitation: the robot's named trajectories.
        motion: executor that provides the check and the posture at which a motion begins.
        controller: controller settings. Their inertia M_hat and damping D_hat determine the torque signal that
            excites a single joint (motion joint_excitation_<number>).
        limits: limits of positions, speeds and torques while a single joint is excited.
        loads: estimate of the servos' used overload capacity; its present value is the initial value in every check.

    Attributes:
        preparation: thread that plans and checks a motion.
        approach_rad: largest permitted angle of a joint between the arm and the start of a motion received as a message
            [rad].
    """

    def __init__(
        self,
        excitation: Excitation,
        motion: MotionExecutor,
        controller: ControllerSettings,
        limits: MotionLimits,
        loads: ServoLoads,
    ) -> None:
        self._excitation, self._motion, self._loads = excitation, motion, loads
        self._controller, self._limits = controller, limits
        self.preparation: Preparation[MotionPlan] = Preparation()
        self.approach_rad = APPROACH_RAD

    def by_name(self, name: str, profile: str, q: FloatArray, done: Outcome, *, to_rest: bool = True) -> None:
        """Start to plan and check a motion that is given by its name or by a file.

        Args:
            name: name of a trajectory in excitation.yaml, path of a file, or joint_excitation_<number>.
            profile: name of the excitation profile of a named trajectory, a set of motion limits in excitation.yaml.
            q: position of the arm, (n,) [rad].
            done: function that receives the plan or the error.
            to_rest: whether the arm returns to its rest posture in the end.

        Raises:
            NodeError: another motion is being checked.
        """
        start = self._motion.start_posture(q)
        if name.startswith(PREFIX):
            self.preparation.start(lambda: self._excite(name, start), done)
            return

        def build() -> tuple[Motion, None]:
            if is_file_name(name):
                return load_trajectory_file(Path(name), self._excitation, start), None
            return self._excitation.trajectory(name, profile), None

        self._prepare(build, start, done, to_rest)

    def _excite(self, name: str, start: FloatArray) -> MotionPlan:
        robot, check = self._motion.robot, self._motion.check  # read now: they use the driver's present cycle rate
        if check.torques is None:
            raise ConfigurationError(
                f"'{name}' needs a prediction of the arm's gravity torques, which is not available here"
            )
        joint = excited_joint(robot, name)
        return plan_excitation(
            robot, self._controller, joint, start, check, self._limits, check.torques, load=self._loads.now
        )

    def from_message(self, raw: bytes, q: FloatArray, done: Outcome) -> None:
        """Start to plan and check a motion that is given as a JointTrajectory; the arm is held at the motion's end.

        The thread that plans the motion also decodes the message, since that takes a second for many points.

        Args:
            raw: serialized JointTrajectory.
            q: position of the arm, (n,) [rad].
            done: function that receives the plan or the error.

        Raises:
            NodeError: another motion is being checked.
        """
        start, here, approach_rad = self._motion.start_posture(q), np.array(q), self.approach_rad
        joints = self._excitation.robot.joint_names

        def build() -> tuple[Motion, TorqueCurve | None]:
            message = decoded_trajectory(raw)
            motion = message_motion(message, joints, start)
            refuse_far_start(motion, start, here, approach_rad)
            return motion, message_torques(message, joints)

        self._prepare(build, start, done, to_rest=False)

    def _prepare(
        self, build: Callable[[], tuple[Motion, TorqueCurve | None]], start: FloatArray, done: Outcome, to_rest: bool
    ) -> None:
        robot, check = self._excitation.robot, self._motion.check

        def plan() -> MotionPlan:
            motion, added = build()
            return plan_motion(robot, motion, start, check, to_rest=to_rest, added=added, load=self._loads.now)

        self.preparation.start(plan, done)


def refuse_far_start(motion: Motion, reference: FloatArray, q: FloatArray, limit_rad: float) -> None:
    """Raise SafetyError if a motion begins too far from the arm.

    The client has not specified the way to the start, so this way must be short. A held arm sags, so the motion may
    begin near the reference or near the measured posture.

    Args:
        motion: the motion.
        reference: reference posture of a held arm, (n,) [rad].
        q: measured posture, (n,) [rad].
        limit_rad: largest permitted distance of a joint from the motion's start [rad].
    """
    distance = min((motion.start - reference, motion.start - q), key=lambda one: float(np.abs(one).max()))
    joint = int(np.argmax(np.abs(distance)))
    if not abs(distance[joint]) <= limit_rad:
        raise SafetyError(
            f"motion '{motion.name}' refused: it begins {np.rad2deg(distance[joint]):.1f} deg away from where "
            f"{motion.joint_names[joint]} is, allowed are {np.rad2deg(limit_rad):.1f} deg: plan from where the arm is, "
            "or raise the executor's parameter approach_rad, and the way to its start is planned and checked, too"
        )


def positive_angle(value: object) -> float:
    """Return the value of parameter `approach_rad` [rad]; raise ConfigurationError unless it is positive and finite."""
    if not isinstance(value, (int, float)) or not 0.0 < value < np.inf:
        raise ConfigurationError(f"approach_rad is {value}; expected a positive angle [rad]")
    return float(value)


def trajectory_name(raw: bytes) -> str:
    """Return the frame_id of a serialized JointTrajectory, which serves as the motion's name.

    Return "" if it is absent, unreadable or too long.
    """
    size = int.from_bytes(raw[12:16], "little")
    if not 1 < size <= LONGEST_NAME:
        return ""
    text = raw[16 : 15 + size].decode(errors="replace")
    return text if text.isprintable() else ""


def decoded_trajectory(raw: bytes) -> Any:
    """Return the JointTrajectory that these bytes encode; raise DataError if it is malformed or too long."""
    if len(raw) > MOST_BYTES:
        raise DataError(f"a trajectory of {len(raw)} bytes was sent, expected at most {MOST_BYTES}: split it")
    return decode(raw, JOINT_TRAJECTORY, len(raw))  # the limit allows unread bytes: rclpy leaves some per point


def message_motion(message: Any, joints: tuple[str, ...], hold: FloatArray) -> Motion:
    """Return the motion of a JointTrajectory.

    Args:
        message: the JointTrajectory.
        joints: names of the robot's n joints.
        hold: posture of the joints that the message does not name; they stay there, (n,) [rad].

    Raises:
        ConfigurationError: there are no points, points have different numbers of joints, or their names, times or
            values are invalid, see `dynid.trajectory.files.spread_points`.
    """
    name, times = _name(message), _times(message)
    positions, velocities, accelerations = (_rows(message, key) for key in ("positions", "velocities", "accelerations"))
    assert positions is not None
    return spread_points(name, joints, hold, tuple(message.joint_names), times, positions, velocities, accelerations)


def message_torques(message: Any, joints: tuple[str, ...]) -> TorqueCurve | None:
    """Return the efforts of a JointTrajectory, which are added to the control law's torques; None without efforts.

    Joints that the message does not name get zero torque. `joints` are the names of the robot's joints.

    Raises:
        ConfigurationError: only some points have efforts, or efforts are not finite.
    """
    efforts = _rows(message, "effort")
    if efforts is None:
        return None
    if not np.isfinite(efforts).all():
        raise ConfigurationError(
            f"trajectory '{_name(message)}': efforts are not all finite; leave them out or correct them"
        )
    torques, times = np.zeros((len(efforts), len(joints))), _times(message)
    torques[:, [joints.index(one) for one in message.joint_names]] = efforts
    return TorqueCurve(times - times[0], torques)


def _name(message: Any) -> str:
    return message.header.frame_id or "joint_trajectory"


def _times(message: Any) -> FloatArray:
    if not message.points:
        raise ConfigurationError(f"trajectory '{_name(message)}' has no points")
    return np.array([seconds(one.time_from_start) for one in message.points])


def _rows(message: Any, key: str) -> FloatArray | None:
    """Return one field of all points of a JointTrajectory; None if no point has it, except for "positions".

    Args:
        message: the JointTrajectory, with K points for m joints.
        key: name of the field, such as "velocities".

    Returns:
        Values of the field, (K, m) in any unit.

    Raises:
        ConfigurationError: a point does not have one value per joint although others have values, or no point has
            positions.
    """
    lengths = {len(getattr(point, key)) for point in message.points}
    if lengths == {0} and key != "positions":
        return None
    if lengths != {len(message.joint_names)}:
        raise ConfigurationError(
            f"trajectory '{_name(message)}': {key} of its points have {sorted(lengths)} entries for "
            f"{len(message.joint_names)} joints"
        )
    return np.array([getattr(point, key) for point in message.points], dtype=float)
