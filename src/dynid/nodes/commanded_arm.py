"""Arm for adaptive identification whose motion segments are executed by the running ROS nodes, one at a time."""

import math
import secrets
from itertools import count
from pathlib import Path

import numpy as np
from builtin_interfaces.msg import Duration
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dynid.adaptive.arm import RefusedError
from dynid.adaptive.feedforward import Feedforward
from dynid.adaptive.return_motion import return_motion
from dynid.control.controller import load_controller
from dynid.control.motion import MAX_TRACKING_ERROR_RAD
from dynid.control.motion_check import Torques
from dynid.control.safe_box import NO_SCENE
from dynid.control.selection import CONTROLLERS
from dynid.errors import NodeError, SafetyError
from dynid.identification.data.recordings import Recording, recording_of_driver
from dynid.nodes.arm_stream import ArmStream
from dynid.nodes.experiment import MotionStatus
from dynid.nodes.supervisor import Supervisor, number
from dynid.recording.series import joint_series
from dynid.recording.settings import ExperimentSettings, parse_settings
from dynid.recording.topics import EXPERIMENT, JOINT_STATES
from dynid.robot import FloatArray, Robot
from dynid.trajectory.motion import Motion
from dynid.trajectory.polynomial import PolynomialTrajectory, rest_to_rest

POINT_S = 0.02  # time between the points of a motion that is sent [s]
SERIES = "adaptive"  # start of the series name; a token of the run follows, since topics may keep earlier data
# parameters of the executor that are restored at the end
OWN_PARAMETERS = ("controller", "series", "scene", "path_tolerance_rad")
HOLD_S = 1.0  # time for which the arm is held after a motion [s], as for the simulated arm in lock-step
START_S, STANDING_S, STATES_S = 30.0, 15.0, 20.0  # time limits [s]: start of a motion, standstill, first states
# Time limit is DURATION_FACTOR * duration + MARGIN_S [s]; a simulated arm waits for a busy host
DURATION_FACTOR, MARGIN_S = 10.0, 60.0
SEARCH_MARGIN_S = 2.0  # time added to a motion's duration when its states are searched for tracking errors [s]


class CommandedArm:
    """Arm for adaptive identification that sends its motions to the executor; see `dynid.adaptive.arm.Arm`.

    Args:
        robot: robot of the arm.
        call: client of the nodes that drive the arm.
        stream: receiver of the arm's topics.
        scene: file with the space in which the arm may move; the executor checks it, too. None uses the robot's file.

    Attributes:
        at: reference posture after the last motion, (n,) [rad].
        moved_s: total time of the segments and return motions so far [s].
        along_s: executed time of the last segment [s]; less than its duration if it was stopped on the way.
        pauses_for_planning: whether the arm's clock stops while a segment is planned, as in a simulation; always False
            for this arm.
    """

    def __init__(self, robot: Robot, call: Supervisor, stream: ArmStream, scene: Path | None = None) -> None:
        self.robot, self._call, self._stream = robot, call, stream
        self._scene = "" if scene is None else str(scene.absolute())
        settings = load_controller(robot)
        self._inertia, self._damping = np.array(settings.inertia_kg_m2), np.array(settings.damping_nm_s_rad)
        self._number, self._identifier, self._token = count(1), "", secrets.token_hex(3)
        self.series = f"{SERIES} {self._token}"
        self._begun: tuple[PolynomialTrajectory, Feedforward] | None = None
        self.moved_s, self.along_s, self.pauses_for_planning = 0.0, 0.0, False
        call.wait(lambda: stream.connected, STATES_S, "the discovery of executor and hardware node")
        self.at = stream.newest()[1]
        controller, series, scene_name, tolerance = call.get_parameters("executor", OWN_PARAMETERS)
        values = (
            controller.string_value,
            series.string_value,
            scene_name.string_value,
            list(tolerance.double_array_value),
        )
        self._earlier_parameters = dict(zip(OWN_PARAMETERS, values, strict=True))

    def leave(self) -> None:
        """Restore the parameters that the executor had before this object was created.

        Raises:
            NodeError: the executor refuses them.
        """
        self._call.set_parameters("executor", self._earlier_parameters)

    @property
    def load(self) -> FloatArray:
        """Used fraction of each servo's overload capacity, (n,) [-]; at 1 the servo switches itself off."""
        return self._stream.load

    def to_start(self, feedforward: Feedforward) -> None:
        """Move to the rest posture, then start the series of motions that is evaluated as one recording.

        The motion to rest is not checked against the free space, and does not belong to the series. All motions after
        it do, until `leave` is called. `feedforward` gives the torques of the motion to rest.

        Raises:
            SafetyError: the motion was stopped, or the arm must not be moved any more.
        """
        self._call.set_parameters("executor", {"controller": CONTROLLERS[0], "series": "", "scene": NO_SCENE})
        self.follow(self._way_to(self.robot.rest_posture), feedforward)
        self._call.set_parameters("executor", {"series": self.series, "scene": self._scene})

    def begin(
        self, motion: PolynomialTrajectory, feedforward: Feedforward, tube: FloatArray, most_load: FloatArray
    ) -> None:
        """Start a segment, and return as soon as the executor has accepted it.

        Args:
            motion: motion of the segment.
            feedforward: torques of the segment.
            tube: maximum tracking error of each joint, (n,) [rad]; a larger error stops the segment.
            most_load: maximum used fraction of each servo's overload capacity, (n,) [-]; a larger fraction stops the
                segment.

        Raises:
            RefusedError: the executor refuses the segment.
            SafetyError: the arm must not be moved any more.
            NodeError: the executor does not answer.
        """
        self._tolerate(tube)
        self._send(motion, feedforward.moving)
        self._stream.overloaded, self._stream.most_load = False, most_load
        self._begun = motion, feedforward

    def finish(self) -> FloatArray:
        """Wait until the segment has ended and the arm stands; return its largest tracking errors, (n,) [rad].

        Raises:
            SafetyError: the segment was stopped for another reason than its tracking error or a servo's overload.
        """
        assert self._begun is not None
        motion, feedforward = self._begun
        done = self._wait_for_end(motion.duration)
        self._stream.most_load = None
        stopped_s = motion.duration if done else self._stopped_at()
        span = self._span_ns()
        errors = np.zeros(self.robot.size) if span is None else self._errors(motion, span)
        self.along_s = 0.0 if span is None else stopped_s  # no span: stopped before its start
        self.moved_s += self.along_s
        self.at = motion.end
        if not done:
            self.hold(feedforward)
        return errors

    def retrace(self, motion: PolynomialTrajectory, along_s: float, feedforward: Feedforward) -> None:
        """Move back along a segment to its start, from the point at which it was stopped.

        Args:
            motion: motion of the segment.
            along_s: executed time of the segment [s].
            feedforward: torques of the return motion.
        """
        return_path = return_motion(motion, along_s, self.at, self.robot.joint_names)
        self.follow(return_path, feedforward)
        self.moved_s += return_path.duration

    def follow(self, motion: PolynomialTrajectory, feedforward: Feedforward, tube: FloatArray | None = None) -> None:
        """Follow a motion that is not a segment of the identification, such as a return motion, then hold.

        Args:
            motion: the motion.
            feedforward: torques of the motion, and of holding the arm at its end.
            tube: maximum tracking error of each joint, (n,) [rad]; None uses the executor's maximum.

        Raises:
            SafetyError: the motion was stopped.
        """
        self._tolerate(tube)
        self._send(motion, feedforward.moving)
        if not self._wait_for_end(motion.duration):
            raise self._stopped(motion.name)
        self.at = motion.end
        self.hold(feedforward)

    def hold(self, feedforward: Feedforward, duration_s: float = HOLD_S) -> None:
        """Hold the arm at its present posture for a duration [s], measured by the timestamps of its states.

        `feedforward` gives the holding torques.

        Raises:
            SafetyError: holding was stopped.
        """
        self.at = self._stream.newest()[1]
        self._tolerate(None)  # a held arm may sag
        self._send(rest_to_rest("hold", self.robot.joint_names, self.at, self.at), feedforward.holding)
        if not self._wait_for_end(0.0):
            raise self._stopped("hold")
        until_ns = self._stream.newest()[0] + round(duration_s * 1e9)
        self._call.wait(
            lambda: self._stream.newest()[0] >= until_ns,
            DURATION_FACTOR * duration_s + MARGIN_S,
            "states of the held arm",
        )

    def source(self, name: str) -> Recording:
        """Return all messages received since the start as a recording with this name, the input of identification."""
        return recording_of_driver(self._stream.recording.recording(name, self.robot), self.robot)

    # -- motions -----------------------------------------------------------------------------------------------------

    def _tolerate(self, tube: FloatArray | None) -> None:
        """Set the executor's maximum tracking errors (n,) [rad]; None sets them to `MAX_TRACKING_ERROR_RAD`."""
        limits = np.full(self.robot.size, MAX_TRACKING_ERROR_RAD) if tube is None else tube
        self._call.set_parameters("executor", {"path_tolerance_rad": limits.tolist()})

    def _way_to(self, posture: FloatArray) -> PolynomialTrajectory:
        return rest_to_rest("start", self.robot.joint_names, self.at, posture)

    def _send(self, motion: PolynomialTrajectory, torques: Torques) -> None:
        """Send a motion and the torques that it needs, and wait until the executor has accepted the motion.

        Args:
            motion: the motion.
            torques: function that returns the torques, (M, n) [N m], for positions, velocities and accelerations,
                (M, n) each.

        Raises:
            RefusedError: the executor refuses the motion.
            SafetyError: the arm must not be moved any more.
            NodeError: the executor does not answer.
        """
        self._identifier = f"{motion.name} ({self._token}-{next(self._number)})"
        self._stream.publish(self._message(motion, torques))

        def answered() -> bool:
            return self._status() is not None

        self._call.wait(answered, START_S, f"the executor's answer to the motion '{motion.name}'")
        status = self._status()
        if status is not None and status.state == "refused":
            raise RefusedError(f"the executor refuses the motion '{motion.name}': {status.reason}")

    def _status(self) -> MotionStatus | None:
        return self._stream.status(self._identifier)

    def _message(self, motion: PolynomialTrajectory, torques: Torques) -> JointTrajectory:
        """Return a motion as JointTrajectory, with the feed-forward torques that the control law does not add itself.

        The control law adds the torques M_hat ddq + D_hat dq, with inertia M_hat and damping D_hat from the controller
        settings. The efforts of the message are the total feed-forward torques, which `torques` returns, minus the
        torques of the control law, clipped to the joints' torque limits.
        """
        steps = math.ceil(motion.duration / POINT_S)
        # whole nanoseconds, as in the message, so that no two points have equal times
        grid = np.linspace(0.0, motion.duration, steps + 1)
        off_knots = np.abs(grid[:, None] - motion.knots).min(axis=1) > 0.5 * POINT_S  # close points are refused
        stamps_ns = np.unique(np.rint(1e9 * np.append(grid[off_knots], motion.knots)))
        times = stamps_ns * 1e-9
        q, dq, ddq = motion.sample_all(times)
        for ends in (dq, ddq):
            ends[[0, -1]] = 0.0
        effort = torques(q, dq, ddq) - self._inertia * ddq - self._damping * dq
        limits = self.robot.torque_limits
        effort = np.clip(effort, -limits, limits)
        message = JointTrajectory(joint_names=list(self.robot.joint_names))
        message.header.frame_id = self._identifier
        for nanoseconds, *rows in zip(stamps_ns.astype(int).tolist(), q, dq, ddq, effort, strict=True):
            point = JointTrajectoryPoint(
                time_from_start=Duration(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
            )
            point.positions, point.velocities, point.accelerations, point.effort = (one.tolist() for one in rows)
            message.points.append(point)
        return message

    def _wait_for_end(self, duration: float) -> bool:
        """Wait for the end of a motion of this duration [s]; return True if it was completed, False if cancelled."""

        def state() -> str | None:
            status = self._status()
            return None if status is None else status.state

        self._call.wait(
            lambda: state() in ("done", "cancelled"), DURATION_FACTOR * duration + MARGIN_S, "the end of a motion"
        )
        return state() == "done"

    def _stopped(self, name: str) -> SafetyError:
        """Return the error for a motion that the executor stopped, and refuse all further motions of this arm.

        `name` is the name of the motion in the message.
        """
        status = self._status()
        reason = (status.reason if status is not None else "") or "it was cancelled"
        error = SafetyError(f"the motion '{name}' was stopped: {reason}")
        self._stream.fail(str(error))  # refuses all motions: the planner would only skip a refused segment
        return error

    def _stopped_at(self) -> float:
        """Wait until the arm stands after a motion was stopped; return the executed time of the motion [s].

        Raises:
            SafetyError: the motion was stopped for another reason than its tracking error or a servo's overload.
        """

        def refuse_others() -> None:
            status = self._status()
            if not (status is not None and status.left_tolerance) and not self._stream.overloaded:
                raise self._stopped(self._identifier)

        def standing() -> bool:
            refuse_others()
            phase, moving = (self._call.reported("executor", key) for key in ("phase", "moving"))
            return phase == "cancelled" and moving == "false"

        self._call.reports.pop("executor", None)
        self._call.wait(standing, STANDING_S, "the standstill of the arm")
        elapsed = number(self._call.reported("executor", "elapsed_s"))
        refuse_others()
        return elapsed

    # -- what was recorded -------------------------------------------------------------------------------------------

    def _errors(self, motion: Motion, span: tuple[int, int]) -> FloatArray:
        """Return the largest tracking errors (n,) [rad] of a recorded motion.

        `span` has the timestamps of the motion's start and end [ns].
        """
        recording = self._stream.recording
        count = round(DURATION_FACTOR * (motion.duration + SEARCH_MARGIN_S) / self.robot.file.bus.cycle_s)
        states = recording.since(JOINT_STATES, max(0, recording.count(JOINT_STATES) - count))
        series = joint_series(states, self.robot.joint_names)
        inside = (series.stamp_ns >= span[0]) & (series.stamp_ns <= span[1])
        reference = motion.sample_all((series.stamp_ns[inside] - span[0]) / 1e9)[0]
        return np.asarray(np.abs(series.field("position")[inside] - reference).max(axis=0, initial=0.0))

    def _span_ns(self) -> tuple[int, int] | None:
        """Return start and end timestamps [ns] of the last motion sent; None if it was stopped before its start.

        Raises:
            NodeError: the executor has not reported the motion.
        """
        found = None
        for text in self._stream.recording.texts(EXPERIMENT):
            settings = parse_settings(EXPERIMENT, text, ExperimentSettings)
            if settings.trajectory == self._identifier:
                found = settings
        if found is None:
            raise NodeError(f"the executor has not reported the motion '{self._identifier}' on '{EXPERIMENT}'")
        return found.trajectory_span_ns()
