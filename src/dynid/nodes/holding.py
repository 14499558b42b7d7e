"""Gravity compensation for hand guiding, which begins only after the arm's torques have agreed with its model.

This client of a running chain moves the arm to and fro about two postures and compares the measured torques with the
model (see `dynid.runtime.hold_check`). The client then switches to the control law that compensates gravity. Its
parameters are `robot`, `model_file`, `mount` and `seconds` (duration of hand guiding [s]; 0: until Ctrl-C,
at most 24 h).
"""

import contextlib
import tempfile
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.model_laws import GravityCompensation
from dynid.control.motion_check import MotionCheck, Torques, nominal_torques, robot_limits
from dynid.control.plan import plan_motion
from dynid.control.safe_box import box_of
from dynid.control.sag import Sag
from dynid.control.self_collision import SelfCollision
from dynid.errors import ConfigurationError, DataError, DynidError, NodeError, SafetyError
from dynid.nodes.collect import Report, execute, silent, wait_for_arm
from dynid.nodes.common import declare
from dynid.nodes.supervisor import Supervisor, lower_arm, run_client
from dynid.recording.messages import JointStateDecoder
from dynid.robot import FloatArray, Robot, load_robot
from dynid.runtime.controller import ControlledModel
from dynid.runtime.hold_check import HeldTorques, holding_verdict, refuse_deviation, second_posture, sway_motion
from dynid.runtime.model import Model, load_model
from dynid.trajectory.families import load_excitation
from dynid.trajectory.files import save_stops
from dynid.trajectory.trajectory import Trajectory
from dynid.verdict import Verdict

LATEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
ALL = QoSProfile(depth=20_000, reliability=ReliabilityPolicy.BEST_EFFORT)  # room for the states of a whole motion
LATE_S = 30.0  # longest wait for the last states of a motion
LONGEST_S = 24 * 3600.0  # longest hand guiding
AFTER_STOP_S = 1.0  # time after an aborted motion in which states are checked


class States:
    """Record of the arm's states with their timestamps: positions [rad], velocities [rad/s] and torques [N m]."""

    def __init__(self, robot: Robot) -> None:
        self._decoder = JointStateDecoder(robot.joint_names)
        self._rows: list[tuple[FloatArray, FloatArray, FloatArray]] = []
        self._stamps: list[int] = []

    @property
    def newest_ns(self) -> int:
        """Timestamp of the newest state [ns]; 0 before the first state."""
        return self._stamps[-1] if self._stamps else 0

    def take(self, raw: bytes) -> None:
        """Store a serialized `joint_states` message; a malformed message is ignored."""
        with contextlib.suppress(DataError):
            if (state := self._decoder.decode(raw)) is not None:
                self._stamps.append(state[0])
                self._rows.append((state[1]["position"], state[1]["velocity"], state[1]["effort"]))

    def holding_torques(self, model: Model, begin_ns: int, end_ns: int) -> HeldTorques:
        """Return the torques with which the joints held the arm in a time span, and those that a model predicts.

        Args:
            model: model of the arm as it is mounted.
            begin_ns: timestamp of the first state to use [ns].
            end_ns: end of the time span, which excludes a state with this timestamp [ns].

        Raises:
            DataError: there are too few states between the timestamps.
        """
        first, last = bisect_left(self._stamps, begin_ns), bisect_left(self._stamps, end_ns)
        if last <= first:
            raise DataError("no joint_states arrived while the arm swayed: is the driver active?")
        q, dq, tau = (np.array(rows) for rows in zip(*self._rows[first:last], strict=True))
        return HeldTorques.of(model, np.array(self._stamps[first:last]) * 1e-9, q, dq, tau)


def check_motions(model: Model, scene: str = "") -> tuple[Trajectory, Trajectory]:
    """Return the two motions with which the model is checked: to and fro about two postures.

    The first posture is the rest posture. The second one is chosen so that both together reveal most model errors.

    Args:
        model: model of the arm as it is mounted.
        scene: path of the file with the space in which the arm may move (free space), "" for the robot's own file, or
            "none" for no limits.

    Raises:
        SafetyError: the model must not move an arm, see `ControlledModel.refuse_unfit`. Or no second posture is
            possible, because each one violates joint limits or the free space, makes links touch, or needs too much
            torque.
    """
    if not model.accepted:
        raise SafetyError(f"the model of {model.robot.name} did not pass its checks, so it must not carry an arm")
    robot, constants = model.robot, model.torque_constants
    ControlledModel(robot, model.arm(), model.base, model.friction_law, model.accepted, constants).refuse_unfit()
    limits = robot_limits(robot, load_excitation(robot).acceleration_limits)
    try:  # nominal torques, as the executor uses without a model, since the model is not checked yet
        torques: Torques | None = nominal_torques(robot, model.mount)
    except DynidError:
        torques = None
    settings = load_controller(robot)
    sag = Sag.of(settings, FeedforwardPdLaw(settings))  # the executor's law during both motions
    check = MotionCheck(robot, limits, torques, SelfCollision(robot), None, box_of(robot, scene), sag)
    first = sway_motion(robot, robot.rest_posture, "hold_check_1")

    def allows(motion: Trajectory) -> None:
        plan_motion(robot, motion, first.end, check)

    return first, sway_motion(robot, second_posture(model, robot.rest_posture, allows), "hold_check_2")


def check_holding(call: Supervisor, model: Model, motions: tuple[Trajectory, ...], report: Report = silent) -> Verdict:
    """Move the arm to and fro about two postures, then to rest, and compare its holding torques with a model.

    The returned verdict has one check per joint. The second motion begins only if the torques of the first agree with
    the model.

    Args:
        call: client of the running nodes; torque must be on, and the arm held.
        model: model of the arm as it is mounted.
        motions: motions from `check_motions`.
        report: function that receives the progress.

    Raises:
        SafetyError: the measured torques contradict the model; the error names joints and the likely reason.
        NodeError: a motion was refused, or aborted although the torques measured until then agree.
    """
    shown: list[HeldTorques] = []
    call.set_parameters("executor", {"controller": FeedforwardPdLaw.name})
    with tempfile.TemporaryDirectory(prefix="dynid-hold-") as folder:
        for motion in motions:
            path = Path(folder) / f"{motion.name}.yaml"
            save_stops(path, motion)
            call.set_parameters("executor", {"trajectory": str(path), "return_to_rest": motion is motions[-1]})
            shown.append(_swayed(call, model, motion.name, report, shown))
            refuse_deviation(model, shown)
    return holding_verdict(model, shown)


def _swayed(call: Supervisor, model: Model, name: str, report: Report, before: list[HeldTorques]) -> HeldTorques:
    """Execute one motion about a posture; return the torques with which the joints held the arm during the motion.

    If the motion is aborted, an error is always raised; its type depends on the torques measured after the stop.

    Args:
        call: client of the running nodes.
        model: model of the arm as it is mounted.
        name: name of the motion in messages. The caller has already set the executor's parameters for the motion.
        report: function that receives the progress.
        before: holding torques of the earlier motions.

    Raises:
        SafetyError: the motion was aborted, and the torques after the stop contradict the model.
        NodeError: the motion was refused, or aborted although the torques agree.
    """
    states = States(model.robot)
    subscription = call.node.create_subscription(JointState, "joint_states", states.take, ALL, raw=True)
    try:
        execute(call, name, report)
        begin_ns, end_ns = _trajectory(call)
        call.wait(lambda: states.newest_ns >= end_ns, LATE_S, "the arrival of the motion's last states")
    except NodeError as abort:
        from_ns, end_s = states.newest_ns, call.now() + AFTER_STOP_S
        call.wait(lambda: call.now() >= end_s, 10.0 * AFTER_STOP_S, "the passing of time")
        with contextlib.suppress(DataError):  # without states, report the abort only
            after = replace(states.holding_torques(model, from_ns, states.newest_ns + 1), stopped=True)
            try:
                refuse_deviation(model, [*before, after])
            except SafetyError as error:
                raise SafetyError(f"{error}. This was measured after the motion had been aborted: {abort}") from abort
        raise
    finally:
        call.node.destroy_subscription(subscription)
    return states.holding_torques(model, begin_ns, end_ns)


def _trajectory(call: Supervisor) -> tuple[int, int]:
    """Return the timestamps at which the executed trajectory began and ended [ns], as the executor reports them."""
    span = call.experiment.trajectory_span_ns() if call.experiment else None
    if span is None:
        raise DataError("the executor does not report when the motion began and ended: is it another version?")
    return span


@dataclass(frozen=True, eq=False)
class GuidingResult:
    """Result of hand guiding.

    Attributes:
        seconds: duration of hand guiding [s].
        moved: largest displacement of each joint from its start, by hand or by drift, (n,) [rad].
    """

    seconds: float
    moved: FloatArray


def compensate_gravity(call: Supervisor, robot: Robot, path: Path, over: Callable[[], bool]) -> GuidingResult:
    """Run gravity compensation, so that the arm can be guided by hand, until `over()` returns true.

    The arm must have passed `check_holding`.

    Args:
        call: client of the running nodes; torque must be on.
        robot: robot of the arm.
        path: model.yaml that the executor uses for gravity compensation.
        over: returns whether hand guiding is over.

    Raises:
        NodeError: the executor refuses the model or gravity compensation, or no states arrive.
    """
    call.set_parameters("executor", {"model_file": str(path), "controller": GravityCompensation.name})
    call.trigger("executor/hold")
    decoder, first, largest = JointStateDecoder(robot.joint_names), np.full(robot.size, np.nan), np.zeros(robot.size)

    def note(raw: bytes) -> None:
        with contextlib.suppress(DataError):
            if (state := decoder.decode(raw)) is not None:
                q = state[1]["position"]
                first[:] = np.where(np.isnan(first), q, first)
                np.maximum(largest, np.abs(q - first), out=largest)

    began_s = call.now()
    states = call.node.create_subscription(JointState, "joint_states", note, LATEST, raw=True)
    try:
        call.wait(over, LONGEST_S, "the end of hand guiding")
    finally:
        call.node.destroy_subscription(states)
    if np.isnan(first).any():
        raise NodeError("no joint_states arrived while the arm was released: is the driver active?")
    return GuidingResult(call.now() - began_s, largest)


def hold_one(call: Supervisor) -> str:
    """Check the arm with its model, then compensate gravity for hand guiding; return a sentence with the duration.

    Torque is switched on before; in the end the arm is lowered, also after an error. ROS parameters of the client's
    node name the arm (`robot`, `mount`), its model (`model_file`) and the duration of hand guiding (`seconds` [s]).
    """
    name, path = declare(call.node, "robot", "crane_x7", "robot name or folder"), _model_file(call)
    mount = declare(call.node, "mount", "", "how the arm is mounted; '' takes robot.yaml's default")
    seconds = float(
        declare(call.node, "seconds", 0.0, "how long the arm is released for hand guiding [s]; 0: until Ctrl-C")
    )
    robot = load_robot(str(name))
    model = load_model(path, robot).mounted(str(mount) or robot.file.default_mount)
    motions = check_motions(model)
    wait_for_arm(call)
    call.set_enabled("hardware", True)
    try:
        call.trigger("executor/hold")
        check_holding(call, model, motions)
        call.node.get_logger().info(
            "every joint carries the torque that the model predicts: the arm is released, guide it by hand"
        )
        end_s = call.now() + (seconds or LONGEST_S)
        held = compensate_gravity(call, robot, path, lambda: call.now() >= end_s)
    finally:
        lower_arm(call)
    return f"held for {held.seconds:.0f} s"


def _model_file(call: Supervisor) -> Path:
    text = str(declare(call.node, "model_file", "", "model.yaml of an accepted model"))
    if not text:
        raise ConfigurationError("model_file is empty; expected the model.yaml of an accepted model")
    return Path(text).absolute()


def main() -> None:
    """Run the client that checks the arm and then compensates its gravity."""
    run_client("hold", hold_one)


if __name__ == "__main__":
    main()
