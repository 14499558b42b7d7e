"""An arm behind hardware node and executor that carries out one planned segment after the other."""

import math
import secrets
from itertools import count
from pathlib import Path

import numpy as np
from builtin_interfaces.msg import Duration
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dynid.adaptive.arm import RefusedError
from dynid.adaptive.feed import Feed
from dynid.adaptive.way_back import way_back
from dynid.control.controller import load_controller
from dynid.control.motion import MAX_TRACKING_ERROR_RAD
from dynid.control.motion_check import Torques
from dynid.control.safe_box import NO_SCENE
from dynid.control.selection import CONTROLLERS
from dynid.errors import NodeError, SafetyError
from dynid.identification.data.sources import Source, source_of_recording
from dynid.nodes.arm_stream import ArmStream
from dynid.nodes.experiment import MotionStatus
from dynid.nodes.supervisor import Supervisor, number
from dynid.recording.series import joint_series
from dynid.recording.settings import ExperimentSettings, parse_settings
from dynid.recording.topics import EXPERIMENT, JOINT_STATES
from dynid.robot import FloatArray, Robot
from dynid.trajectory.motion import Motion
from dynid.trajectory.polynomial import PolynomialTrajectory, rest_to_rest

POINT_S = 0.02  # between the points of a motion that is sent
SERIES = "adaptive"  # and a token of the run: executor and topics may still hold those of another run
OWN_PARAMETERS = ("controller", "series", "scene", "path_tolerance_rad")  # of the executor
HELD_S = 1.0  # as of the simulated arm in lock-step
START_S, STANDING_S, STATES_S = 30.0, 15.0, 20.0  # waits
LONGEST, MARGIN_S = 10.0, 60.0  # times a motion's duration, and beside it: a simulated arm waits for a busy host
BEFORE_S = 2.0  # of states before the end of a motion that are looked at for its errors, beside its duration


class CommandedArm:
    """Sends motions to the executor; see `dynid.adaptive.arm.Arm`.

    Args:
        robot, call, stream: the arm, and the nodes that drive it.
        scene: its free space, which the executor keeps as well; None is the robot's own.

    Attributes:
        at: where its reference stands, (n,) [rad].
        moved_s: of segments so far [s].
        along_s: how far along the last segment it came [s].
        waits: its time goes on while a segment is planned.
    """

    def __init__(self, robot: Robot, call: Supervisor, stream: ArmStream, scene: Path | None = None) -> None:
        self.robot, self._call, self._stream = robot, call, stream
        self._scene = "" if scene is None else str(scene.absolute())
        settings = load_controller(robot)
        self._inertia, self._damping = np.array(settings.inertia_kg_m2), np.array(settings.damping_nm_s_rad)
        self._number, self._identifier, self._token = count(1), "", secrets.token_hex(3)
        self.series = f"{SERIES} {self._token}"
        self._begun: tuple[PolynomialTrajectory, Feed] | None = None
        self.moved_s, self.along_s, self.waits = 0.0, 0.0, False
        call.wait(lambda: stream.connected, STATES_S, "the discovery of executor and hardware node")
        self.at = stream.newest()[1]
        controller, series, free, tolerance = call.get_parameters("executor", OWN_PARAMETERS)
        values = (controller.string_value, series.string_value, free.string_value, list(tolerance.double_array_value))
        self._before = dict(zip(OWN_PARAMETERS, values, strict=True))

    def leave(self) -> None:
        """Give the executor back the parameters that it had.

        Raises:
            NodeError: it does not take them.
        """
        self._call.set_parameters("executor", self._before)

    @property
    def load(self) -> FloatArray:
        """What is used up of what makes its servos switch themselves off, (n,)."""
        return self._stream.load

    def to_start(self, feed: Feed) -> None:
        """To the rest posture, on a way that the scene does not bound; what is recorded from then on is one series."""
        self._call.set_parameters("executor", {"controller": CONTROLLERS[0], "series": "", "scene": NO_SCENE})
        self.go(self._way_to(self.robot.rest_posture), feed)
        self._call.set_parameters("executor", {"series": self.series, "scene": self._scene})

    def begin(self, motion: PolynomialTrajectory, feed: Feed, tube: FloatArray, most_load: FloatArray) -> None:
        """Begin a segment, and return as soon as the executor has taken it; errors as of `_send`."""
        self._tolerate(tube)
        self._send(motion, feed.moving)
        self._stream.overloaded, self._stream.most_load = False, most_load
        self._begun = motion, feed

    def finish(self) -> FloatArray:
        """Wait until the arm stands; the largest tracking errors of the segment, (n,) [rad].

        Raises:
            SafetyError: somebody else stopped it, or it does not stand on its path.
        """
        assert self._begun is not None
        motion, feed = self._begun
        done = self._wait_for_end(motion.duration)
        self._stream.most_load = None
        stopped_s = motion.duration if done else self._stopped_at()
        span = self._span_ns()
        errors = np.zeros(self.robot.size) if span is None else self._errors(motion, span)
        self.along_s = 0.0 if span is None else stopped_s  # without one it was stopped on the way to its start
        self.moved_s += self.along_s
        self.at = motion.end
        if not done:
            self.hold(feed)
        return errors

    def back(self, motion: PolynomialTrajectory, along_s: float, feed: Feed) -> None:
        """Go back to the start of a segment, of which so much was carried out [s]."""
        way = way_back(motion, along_s, self.at, self.robot.joint_names)
        self.go(way, feed)
        self.moved_s += way.duration

    def go(self, motion: PolynomialTrajectory, feed: Feed, tube: FloatArray | None = None) -> None:
        """Follow a motion that identification does not need; None is no tube.

        Raises:
            SafetyError: it was stopped.
        """
        self._tolerate(tube)
        self._send(motion, feed.moving)
        if not self._wait_for_end(motion.duration):
            raise self._stopped(motion.name)
        self.at = motion.end
        self.hold(feed)

    def hold(self, feed: Feed, duration_s: float = HELD_S) -> None:
        """Stand where the arm is for a time of its own clock [s].

        Raises:
            SafetyError: somebody stopped it.
        """
        self.at = self._stream.newest()[1]
        self._tolerate(None)  # a held arm may sag
        self._send(rest_to_rest("hold", self.robot.joint_names, self.at, self.at), feed.holding)
        if not self._wait_for_end(0.0):
            raise self._stopped("hold")
        until_ns = self._stream.newest()[0] + round(duration_s * 1e9)
        self._call.wait(
            lambda: self._stream.newest()[0] >= until_ns, LONGEST * duration_s + MARGIN_S, "states of the held arm"
        )

    def source(self, name: str) -> Source:
        """All that was recorded since the start."""
        return source_of_recording(self._stream.recording.recording(name, self.robot), self.robot)

    # -- motions -----------------------------------------------------------------------------------------------------

    def _tolerate(self, tube: FloatArray | None) -> None:
        """How far joints may be off their reference from now on, (n,) [rad]; None is as far as the executor allows."""
        limits = np.full(self.robot.size, MAX_TRACKING_ERROR_RAD) if tube is None else tube
        self._call.set_parameters("executor", {"path_tolerance_rad": limits.tolist()})

    def _way_to(self, posture: FloatArray) -> PolynomialTrajectory:
        return rest_to_rest("start", self.robot.joint_names, self.at, posture)

    def _send(self, motion: PolynomialTrajectory, torques: Torques) -> None:
        """Have the executor begin a motion.

        Raises:
            RefusedError: it refuses.
            SafetyError: the arm is no longer to be moved.
            NodeError: it does not answer.
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
        """The motion with what the law's own feedforward lacks as efforts."""
        steps = math.ceil(motion.duration / POINT_S)
        # in nanoseconds, as they are sent: what differs by less would be sent twice
        even = np.linspace(0.0, motion.duration, steps + 1)
        apart = np.abs(even[:, None] - motion.knots).min(axis=1) > 0.5 * POINT_S  # points too close are refused
        stamps_ns = np.unique(np.rint(1e9 * np.append(even[apart], motion.knots)))
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
        """Whether the motion was followed to its end."""

        def state() -> str | None:
            status = self._status()
            return None if status is None else status.state

        self._call.wait(lambda: state() in ("done", "cancelled"), LONGEST * duration + MARGIN_S, "the end of a motion")
        return state() == "done"

    def _stopped(self, name: str) -> SafetyError:
        """Why a motion was stopped that nobody here has stopped; the arm is not moved any more."""
        status = self._status()
        reason = (status.reason if status is not None else "") or "it was cancelled"
        error = SafetyError(f"the motion '{name}' was stopped: {reason}")
        self._stream.fail(str(error))  # for good: what plans takes other refusals for a segment that is not safe
        return error

    def _stopped_at(self) -> float:
        """How far along its path a motion came that was stopped from here [s], once the arm stands.

        Raises:
            SafetyError: it was stopped for another reason, or left its path.
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
        """Largest errors along the motion that has just ended, (n,) [rad]; its start and end are stamps [ns]."""
        recording = self._stream.recording
        count = round(LONGEST * (motion.duration + BEFORE_S) / self.robot.file.bus.cycle_s)
        states = recording.since(JOINT_STATES, max(0, recording.count(JOINT_STATES) - count))
        series = joint_series(states, self.robot.joint_names)
        inside = (series.stamp_ns >= span[0]) & (series.stamp_ns <= span[1])
        reference = motion.sample_all((series.stamp_ns[inside] - span[0]) / 1e9)[0]
        return np.asarray(np.abs(series.field("position")[inside] - reference).max(axis=0, initial=0.0))

    def _span_ns(self) -> tuple[int, int] | None:
        """Stamps of start and end of the motion that was sent last [ns]; None where it did not come to its start.

        Raises:
            NodeError: it is not reported.
        """
        found = None
        for text in self._stream.recording.texts(EXPERIMENT):
            settings = parse_settings(EXPERIMENT, text, ExperimentSettings)
            if settings.trajectory == self._identifier:
                found = settings
        if found is None:
            raise NodeError(f"the executor has not reported the motion '{self._identifier}' on '{EXPERIMENT}'")
        return found.trajectory_span_ns()
