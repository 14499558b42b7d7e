"""Joint-level excitation: one joint in open loop with a switching torque while the other joints are held.

The control law is feed-forward plus PD control (FF+PD), without feedback of the excited joint. The torque of this joint
is the gravity torque plus M_hat ddq_ref. M_hat is the joint's inertia in controller.yaml, and the reference
acceleration ddq_ref switches between a positive and a negative value. The excitation ends before a joint leaves a given
range of positions (arXiv:2605.15949, section III-B). Torque ramps are executed first, to measure the joint's breakaway
torque.
"""

from dataclasses import dataclass

import numpy as np

from dynid.control.breakaway import Breakaway, Ramp
from dynid.control.controller import ControllerSettings, Gains
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.motion_check import MotionCheck, MotionLimits, Torques
from dynid.control.plan import MotionPlan, Part, Window, transfer
from dynid.errors import SafetyError, UnknownNameError
from dynid.robot import FloatArray, Robot, read_only
from dynid.trajectory.switching import calm_sequence, square_wave

PROFILE = "joint"  # recorded instead of a trajectory's profile
PREFIX = "joint_excitation_"  # prefix of the motion's name, followed by the joint's number
WINDOW_MARGIN_RAD = 0.1  # distance of the excited joint from its limits
HELD_DEVIATION_RAD = 0.15  # permitted deviation of the held joints
LONGEST_RETURN_S = 4.0  # longest time between two parts


class OpenLoopJoint:
    """A `TorqueLaw` that holds all joints except one, which has no feedback.

    The joint without feedback gets the sum of its gravity torque, its inertia M_hat times its reference acceleration
    ddq_ref, and the torque of a torque ramp if there is one. A torque ramp is a torque that rises slowly until the
    joint moves, to measure the joint's breakaway torque.

    Args:
        settings: settings of FF+PD.
        joint: index of the joint without feedback.
        gravity: function `(q, dq, ddq) -> tau`, (1, n) each, called with zero dq and ddq; it returns the best known
            gravity torque.
        most: limit of the torque of the joint without feedback [N m].
        ramp: torque ramp that is added at the joint without feedback; None adds nothing.
    """

    name = "open_loop_joint"
    follows_reference, uses_model = True, True

    def __init__(
        self, settings: ControllerSettings, joint: int, gravity: Torques, most: float, ramp: Ramp | None = None
    ) -> None:
        self._law, self._gravity, self._joint = FeedforwardPdLaw(settings), gravity, joint
        self._most, self._ramp = most, ramp
        self._inertia = settings.inertia_kg_m2[joint]
        self._still = np.zeros((1, settings.size))

    def torque(
        self, q: FloatArray, dq: FloatArray, q_ref: FloatArray, dq_ref: FloatArray, ddq_ref: FloatArray
    ) -> FloatArray:
        """Return the torque (n,) [N m] that excites one joint without feedback while all other joints are held.

        A held joint gets the torque of the FF+PD law, which has no gravity term, plus its gravity torque. The excited
        joint gets the sum of its gravity torque and M_hat ddq_ref, with its inertia M_hat. A slowly rising torque (the
        torque ramp) is added if the object was made with one. The sum is limited to the permitted torque.

        Args:
            q: measured positions, (n,) [rad].
            dq: estimated velocities, (n,) [rad/s].
            q_ref: reference positions, (n,) [rad].
            dq_ref: reference velocities, (n,) [rad/s].
            ddq_ref: reference accelerations, (n,) [rad/s^2].
        """
        torque = self._law.torque(q, dq, q_ref, dq_ref, ddq_ref)
        torque[self._joint] = self._inertia * ddq_ref[self._joint]
        if self._ramp is not None:
            torque[self._joint] += self._ramp.torque(q)
        torque += self._gravity(q[None], self._still, self._still)[0]
        torque[self._joint] = min(max(torque[self._joint], -self._most), self._most)
        return torque

    def gains(self) -> Gains:
        """Return the FF+PD gains of the joints that are held, keyed by their symbols."""
        return self._law.gains()


def excited_joint(robot: Robot, name: str) -> int:
    """Return the index of the joint that a joint-level excitation with this name excites.

    Args:
        robot: the robot.
        name: "joint_excitation_" (`PREFIX`), followed by the joint's number from 1.

    Raises:
        UnknownNameError: the robot has no such joint.
    """
    known = [f"{PREFIX}{joint + 1}" for joint in range(robot.size)]
    if name not in known:
        raise UnknownNameError("joint excitation", name, known)
    return known.index(name)


@dataclass(frozen=True, eq=False)
class SwitchingPath:
    """Reference path that stays at one posture, with a switching signal as reference acceleration of one joint.

    The acceleration [rad/s^2] is `signal` times the excitation torque, divided by the joint's inertia. The excitation
    torque, with the factor `level` included, is `breakaway.torque(level)` [N m].

    Attributes:
        posture: the posture, (n,) [rad].
        joint: index of the excited joint.
        signal: switching signal, -1 or +1 at each sample, (N,).
        step_s: time between two samples [s].
        inertia: inertia of the joint in controller.yaml, M_hat [kg m^2].
        level: argument of `breakaway.torque`: factor on the excitation torque.
        breakaway: excitation torque of the joint: the larger one of the torque in the settings and the torque at which
            the joint starts to move. Torque ramps measure the latter before the path is executed.
    """

    posture: FloatArray
    joint: int
    signal: FloatArray
    step_s: float
    inertia: float
    level: float
    breakaway: Breakaway

    @property
    def duration(self) -> float:
        """Duration of the switching signal [s]; zero if the joint did not move in a preceding torque ramp."""
        return 0.0 if self.breakaway.stuck else len(self.signal) * self.step_s

    @property
    def peak_velocities(self) -> FloatArray:
        """Peak velocity of the reference, (n,) [rad/s]: zero, since the reference stands still."""
        return read_only(np.zeros_like(self.posture))

    def sample_into(self, t: float, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
        """Write the reference at time t [s] into q, dq and ddq, (n,) each [rad, rad/s, rad/s^2].

        The posture is constant and the velocity zero. The acceleration of the excited joint switches its sign. It is
        not the derivative of the velocity; it only makes the controller apply the torque of the excitation.
        """
        q[:], dq[:], ddq[:] = self.posture, 0.0, 0.0
        index = int(t / self.step_s + 1e-9)
        if 0 <= index < len(self.signal) and not self.breakaway.stuck:
            ddq[self.joint] = self.signal[index] * self.breakaway.torque(self.level) / self.inertia


@dataclass(frozen=True)
class ExcitationSettings:
    """Settings for the open-loop excitation of one joint.

    The basic torque is M_hat acceleration_rad_s2 + D_hat speed_rad_s, with the joint's inertia M_hat and damping D_hat
    of controller.yaml. Torque ramps before the excitation determine the torque at which the joint starts to move. If
    that torque is larger than the basic torque, it replaces the basic torque.

    Attributes:
        speed_rad_s: speed in the basic torque [rad/s].
        acceleration_rad_s2: acceleration in the basic torque [rad/s^2].
        levels: factors on the excitation torque. Each switching signal (see the function `signals`) is executed once
            with each factor. At low levels friction may stop the joint. At high levels the torque is clipped to its
            limit, or the excitation ends early at a limit of position or speed.
        window_rad: permitted travel of the joint to either side of the posture, within its limits.
        fastest_rad_s: joint speed at which the excitation is ended early.
        brake_rad_s2: deceleration of the joint when the excitation ends.
    """

    speed_rad_s: float = 1.0
    acceleration_rad_s2: float = 6.0
    levels: tuple[float, ...] = (0.7, 1.3, 2.4, 4.5)
    window_rad: float = 1.2
    fastest_rad_s: float = 4.0
    brake_rad_s2: float = 12.0


def signals(step_s: float, time_constant_s: float) -> list[FloatArray]:
    """Return the signals of a joint excitation: a square wave for low frequencies, two binary sequences for high ones.

    Args:
        step_s: time between two samples [s].
        time_constant_s: time constant of the joint's velocity, inertia / damping [s].

    Returns:
        Three signals of -1 and +1, (N,) [-] each.
    """
    quick, slow = (calm_sequence(order, bit, step_s, time_constant_s) for order, bit in ((7, 0.015), (6, 0.04)))
    return [square_wave(0.6, 4, step_s), quick, slow]


def plan_excitation(
    robot: Robot,
    controller: ControllerSettings,
    joint: int,
    start: FloatArray,
    check: MotionCheck,
    limits: MotionLimits,
    gravity: Torques,
    settings: ExcitationSettings | None = None,
    load: FloatArray | None = None,
) -> MotionPlan:
    """Return the plan of the open-loop excitation of one joint, with the other joints held at the rest posture.

    Args:
        robot: the robot.
        controller: settings with the joint's inertia M_hat and damping D_hat, which determine the torque and the time
            constant of the signals.
        joint: index of the joint.
        start: present posture of the arm, (n,) [rad].
        check: check for approach and return.
        limits: limits of positions, speeds and torques for the excitation.
        gravity: function that gives the gravity torque, see `OpenLoopJoint`.
        settings: excitation settings; None means the defaults.
        load: fraction of each servo's overload capacity that is used up already, (n,) [-]; None means zero.

    Raises:
        SafetyError: the torque would exceed the joint's limit, the joint's limits leave too little room, or approach or
            return exceed a limit.
    """
    chosen = settings or ExcitationSettings()
    posture, name = _posture(robot, joint, limits, chosen), robot.joint_names[joint]
    inertia, damping = controller.inertia_kg_m2[joint], controller.damping_nm_s_rad[joint]
    size = inertia * chosen.acceleration_rad_s2 + damping * chosen.speed_rad_s
    still = np.zeros((1, robot.size))
    carried = abs(float(gravity(posture[None], still, still)[0, joint]))
    needed = min(chosen.levels) * size + carried
    if not needed <= limits.torque[joint]:
        raise SafetyError(
            f"exciting {name} needs {needed:.3f} N m, allowed are {limits.torque[joint]:.3f} N m: lower its speed or "
            "acceleration"
        )
    there = transfer(check, start, posture, robot.joint_names)
    window = _window(robot, joint, posture, limits, chosen)
    step_s = robot.file.bus.cycle_s
    most = float(limits.torque[joint])
    breakaway = Breakaway(size, most - carried)
    parts = [Part("approach", there)]
    for sign in (1.0, -1.0):
        ramp = Ramp(posture, joint, sign, breakaway)
        parts.append(Part("trajectory", ramp, OpenLoopJoint(controller, joint, gravity, most, ramp), window))
    law = OpenLoopJoint(controller, joint, gravity, most)
    shapes = signals(step_s, inertia / max(damping, 1e-6))
    for level in chosen.levels:
        for shape in shapes:
            path = SwitchingPath(posture, joint, read_only(shape), step_s, inertia, level, breakaway)
            parts.append(Part("trajectory", path, law, window))
    duration = sum(part.path.duration + LONGEST_RETURN_S for part in parts[1:])
    back = transfer(check, posture, robot.rest_posture, robot.joint_names, name="rest")
    check.check([there, back], load)
    parts.append(Part("rest", back))
    return MotionPlan(f"{PREFIX}{joint + 1}", duration, read_only(start), tuple(parts))


def _posture(robot: Robot, joint: int, limits: MotionLimits, settings: ExcitationSettings) -> FloatArray:
    """Return the rest posture (n,) [rad], with the excited joint moved away from a position limit that is too near."""
    low, high = float(limits.lower[joint]), float(limits.upper[joint])
    room = min(settings.window_rad + WINDOW_MARGIN_RAD, 0.5 * (high - low))
    posture = np.array(robot.rest_posture)
    posture[joint] = np.clip(posture[joint], low + room, high - room)
    return read_only(posture)


def _window(
    robot: Robot, joint: int, posture: FloatArray, limits: MotionLimits, settings: ExcitationSettings
) -> Window:
    """Return the limits of positions and speeds for a joint excitation, which ends before a joint leaves them.

    The excited joint may travel by `settings.window_rad` to either side, the held joints by a small margin.

    Args:
        robot: the robot.
        joint: index of the excited joint.
        posture: posture about which the joint is excited, (n,) [rad].
        limits: limits of positions and speeds.
        settings: excitation settings.

    Raises:
        SafetyError: the excited joint has too little room between its limits.
    """
    lower, upper = posture - HELD_DEVIATION_RAD, posture + HELD_DEVIATION_RAD
    lower[joint] = max(posture[joint] - settings.window_rad, limits.lower[joint] + WINDOW_MARGIN_RAD)
    upper[joint] = min(posture[joint] + settings.window_rad, limits.upper[joint] - WINDOW_MARGIN_RAD)
    if upper[joint] - lower[joint] < WINDOW_MARGIN_RAD:
        raise SafetyError(
            f"{robot.joint_names[joint]} has {np.rad2deg(upper[joint] - lower[joint]):.1f} deg between its limits, too "
            "little for an excitation"
        )
    speed = np.minimum(limits.velocity, settings.fastest_rad_s)
    return Window(read_only(lower), read_only(upper), read_only(speed), settings.brake_rad_s2)
