"""Plan of a motion for the executor: approach, motion, and return to the rest posture, checked as a whole."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from dynid.control.added_torque import TorqueCurve
from dynid.control.controller import TorqueLaw
from dynid.control.motion_check import MotionCheck
from dynid.control.path_time_scaling import BRAKE_RAD_S2
from dynid.control.tool_speed import ATTEMPTS
from dynid.errors import DataError, SafetyError
from dynid.robot import FloatArray, Robot, read_only
from dynid.trajectory.motion import Motion
from dynid.trajectory.sampling import at_rest, sample_brake
from dynid.trajectory.trajectory import Trajectory, approach

Phase = Literal["approach", "trajectory", "rest", "done", "cancelled"]
Activity = Phase | Literal["hold"]  # "hold": held without a motion, so not a phase of a motion

APPROACH_RAD_S = (0.4, 0.6, 0.9, 1.2)  # speeds of approach and return, the usual speed first
RAMP_S = 0.5  # speed divided by largest acceleration
LIGHT_LOAD = 0.2  # used fraction of overload capacity above which a faster approach or return is tried
STOPPING_MARGIN = 1.25  # safety factor on the braking distance


class Path(Protocol):
    """Interface of a reference motion of all joints over time."""

    @property
    def duration(self) -> float:
        """Duration of the reference motion [s]."""
        ...

    @property
    def peak_velocities(self) -> FloatArray:
        """Largest absolute velocity of each joint, (n,) [rad/s]."""
        ...

    def sample_into(self, t: float, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
        """Write the reference at time t [s] into three (n,) buffers [rad, rad/s, rad/s^2]."""
        ...


class HoldPath:
    """Path that stays at one posture (n,) [rad] for an unlimited time.

    The array of the posture is not copied. While the arm is guided by hand, the executor writes the measured posture
    into it.
    """

    duration = 0.0

    def __init__(self, posture: FloatArray) -> None:
        self.posture = posture
        self.peak_velocities = read_only(np.zeros_like(posture))

    def sample_into(self, t: float, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
        """Write the held posture into q (n,) [rad], and zeros into dq and ddq (n,); the time t is ignored."""
        at_rest(self.posture, q, dq, ddq)


class Brake:
    """Braking path from a moving state to rest: all joints slow down linearly and stop together.

    Args:
        q: initial posture, (n,) [rad].
        dq: initial velocities, (n,) [rad/s].
        deceleration_rad_s2: deceleration of the fastest joint.
    """

    def __init__(self, q: FloatArray, dq: FloatArray, deceleration_rad_s2: float = BRAKE_RAD_S2) -> None:
        self._q, self._dq = np.array(q), np.array(dq)
        self.peak_velocities = read_only(np.abs(dq))
        self.duration = float(self.peak_velocities.max()) / deceleration_rad_s2
        self.end = read_only(self._q + self._dq * self.duration / 2)
        sample_brake(
            0.0, 1.0, self._q, self._dq, *np.zeros((3, len(self._q)))
        )  # compile now, not when the arm must brake

    def sample_into(self, t: float, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
        """Write the braking reference at time t [s] into q, dq and ddq, (n,) each [rad, rad/s, rad/s^2].

        Before its start, at t < 0, the reference is that of the start.
        """
        t = max(t, 0.0)
        if t >= self.duration:
            at_rest(self.end, q, dq, ddq)
        else:
            sample_brake(t, self.duration, self._q, self._dq, q, dq, ddq)


def warm_up(size: int) -> None:
    """Compile the functions that stop a motion of `size` axes, so that no control cycle waits for the compiler."""
    q, dq, ddq = np.zeros((3, size))
    standing, brake = HoldPath(np.zeros(size)), Brake(np.zeros(size), np.ones(size))
    standing.sample_into(0.0, q, dq, ddq)
    for t in (0.0, brake.duration):
        brake.sample_into(t, q, dq, ddq)


@dataclass(frozen=True, eq=False)
class Window:
    """Limits of a motion without feedback, which is stopped before a joint leaves them.

    Attributes:
        lower: lower position limits, (n,) [rad].
        upper: upper position limits, (n,) [rad].
        speed: speed limits, (n,) [rad/s].
        brake_rad_s2: deceleration with which the motion is stopped.
    """

    lower: FloatArray
    upper: FloatArray
    speed: FloatArray
    brake_rad_s2: float = BRAKE_RAD_S2

    def leaving(self, q: FloatArray, dq: FloatArray) -> tuple[int, str] | None:
        """Return a joint that is too fast or can no longer stop within its position limits, and a text with the reason.

        The result is None if there is no such joint.

        Args:
            q: present positions, (n,) [rad].
            dq: present velocities, (n,) [rad/s].
        """
        ahead = q + dq * np.abs(dq) * (0.5 * STOPPING_MARGIN / self.brake_rad_s2)
        inside = (ahead >= self.lower) & (ahead <= self.upper)
        slow = np.abs(dq) <= self.speed
        if inside.all() and slow.all():
            return None
        joint = int(np.argmin(inside & slow))
        if not slow[joint]:
            return joint, f"moves at {dq[joint]:.2f} rad/s, at most {self.speed[joint]:.2f} rad/s are allowed"
        low, high = np.rad2deg(self.lower[joint]), np.rad2deg(self.upper[joint])
        return joint, f"can no longer stop within {low:.1f} to {high:.1f} deg"


@dataclass(frozen=True, eq=False)
class Part:
    """One part of a motion plan, such as approach, trajectory or return.

    Attributes:
        phase: the activity that the executor reports during this part.
        path: the reference motion.
        law: control law of a part without feedback, used instead of the chosen law; None keeps the chosen law.
        window: limits in which a part with its own law must stay; None for other parts.
        added: feed-forward torques that are added to the torques of the law; None adds nothing.
    """

    phase: Activity
    path: Path
    law: TorqueLaw | None = None
    window: Window | None = None
    added: TorqueCurve | None = None


@dataclass(frozen=True, eq=False)
class MotionPlan:
    """Plan of a motion that has passed all checks.

    Attributes:
        name: name of the motion.
        duration: duration of the trajectory without approach and return [s].
        start: posture at which the plan begins, (n,) [rad].
        parts: parts of the plan in their order.
    """

    name: str
    duration: float
    start: FloatArray
    parts: tuple[Part, ...]


def transfer(
    check: MotionCheck, q_from: FloatArray, q_to: FloatArray, names: tuple[str, ...], name: str = "approach"
) -> Trajectory:
    """Return a slow motion between two postures; it is faster if a slow motion would load the servos too much.

    Gravity and friction load the servos throughout the motion, so a faster motion, which is shorter, may use less of
    their overload capacity. The speeds `APPROACH_RAD_S` are tried from the lowest, until the used fraction of the
    capacity is at most `LIGHT_LOAD` or no longer decreases. Without a torque prediction, the lowest speed is used. The
    motion keeps `tool_limit_m_s` of safety.yaml.

    Args:
        check: check that predicts the load of the servos and the speed of the tool.
        q_from: first posture, (n,) [rad].
        q_to: last posture, (n,) [rad].
        names: joint names, (n,).
        name: name of the motion.
    """

    def way(pace: float) -> Trajectory:
        for _ in range(1 + ATTEMPTS):
            found = approach(q_from, q_to, names, pace, pace / RAMP_S, name)
            if (factor := check.pace_within_tool_limit(found)) == 1.0:
                break
            pace *= factor
        return found

    chosen = way(APPROACH_RAD_S[0])
    least = check.lifting_load(chosen)
    for pace in APPROACH_RAD_S[1:]:
        if least is None or least <= LIGHT_LOAD:
            break
        faster = way(pace)
        load = check.lifting_load(faster)
        if load is None or load >= least:
            break
        chosen, least = faster, load
    return chosen


def plan_motion(
    robot: Robot,
    motion: Motion,
    start: FloatArray,
    check: MotionCheck,
    *,
    to_rest: bool = True,
    added: TorqueCurve | None = None,
    load: FloatArray | None = None,
) -> MotionPlan:
    """Return the plan of a motion with approach and return to the rest posture, checked as a whole.

    Planning does not affect a running motion.

    Args:
        robot: the robot.
        motion: motion for all axes of the robot.
        start: present posture of the arm, (n,) [rad].
        check: the check to pass.
        to_rest: return to the rest posture; otherwise the arm is held at the end of the motion.
        added: feed-forward torques that are added to the torques of the control law along the motion.
        load: fraction of each servo's overload capacity that is used up already, (n,) [-]; None means zero.

    Raises:
        DataError: the motion is for other joints.
        SafetyError: a limit is exceeded; the message names joint, time and value.
    """
    names = robot.joint_names
    if motion.joint_names != names:
        raise DataError(
            f"motion '{motion.name}' moves {', '.join(motion.joint_names)}; robot '{robot.name}' has {', '.join(names)}"
        )
    if not np.isfinite(start).all():
        raise SafetyError(f"the arm's posture is {start} rad; expected finite angles")
    check.check_start(motion)
    there = transfer(check, start, motion.start, names)
    if added is not None:
        added.refuse_excess(robot, motion.name)
        check.refuse_efforts(motion, added)
    parts = [
        Part("approach", there, added=None if added is None else added.beginning),
        Part("trajectory", motion, added=added),
    ]
    motions: list[Motion] = [there, motion]
    if to_rest:
        back = transfer(check, motion.end, robot.rest_posture, names, name="rest")
        motions.append(back)
        parts.append(Part("rest", back))
    check.check(motions, load, carried=added is not None)
    return MotionPlan(motion.name, motion.duration, read_only(start), tuple(parts))
