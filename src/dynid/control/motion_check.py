"""A whole motion against every limit of the arm, before the first current flows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.codegen.compile import compile_inverse_dynamics
from dynid.control.self_collision import SelfCollision
from dynid.errors import SafetyError
from dynid.hardware.safety.overload import LIMITED, OverloadModel, reachable_speed
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.model.standard import load_nominal
from dynid.robot import FloatArray, Robot
from dynid.trajectory.motion import Motion

STEP_S, COARSE_S = 0.002, 0.02
BLOCK = 20_000  # moments that are looked at together: so much memory it takes, however long the motion is
TOLERANCE = 1e-6  # relative, of a limit: what rounding may cost
HELD_S = 10.0  # so long the end of a motion counts as held
CURRENT_SHARE = 0.9  # of the current limit; the rest is the feedback's
# A joint that lifts through its gears takes up to so many times the current that carries it: 2.0 at joint 4 of CRANE-X7
# with the published friction of such gears, and a tenth more for an arm heavier than its parameters.
LIFTING = 2.2
Torques = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class MotionLimits:
    """What a motion must keep, each (n,): positions [rad], speeds [rad/s], accelerations [rad/s^2], torques [N m]."""

    lower: FloatArray
    upper: FloatArray
    velocity: FloatArray
    acceleration: FloatArray
    torque: FloatArray


def robot_limits(robot: Robot, acceleration: FloatArray) -> MotionLimits:
    """The limits of a robot, accelerations (n,) [rad/s^2]; motors give `CURRENT_SHARE` of their current limits."""
    torque = CURRENT_SHARE * robot.drive_limits * robot.drive_constants
    return MotionLimits(robot.lower, robot.upper, reachable_speed(robot), acceleration, torque)


def position_and_speed(robot: Robot) -> "MotionCheck":
    """A check of positions and speeds alone."""
    anything = np.full(robot.size, np.inf)
    return MotionCheck(robot, MotionLimits(robot.lower, robot.upper, reachable_speed(robot), anything, anything))


def nominal_torques(robot: Robot, mount: str | None) -> Torques:
    """A function `(q, dq, ddq) -> tau`, (N, n) each, of the robot's nominal parameters: until a model is identified."""
    model = ArmModel.of(robot, mount=mount)
    return model_torques(model, nominal_parameters(robot, model), FrictionLaw.of(robot.size, {}))


def nominal_parameters(robot: Robot, model: ArmModel) -> BaseParameters:
    """Return the base parameters that the robot's nominal standard parameters make."""
    return model.base_parameters(load_nominal(robot, model.mdh, model.regrouping.standard))


def model_torques(model: ArmModel, phi: BaseParameters, friction: FrictionLaw) -> Torques:
    """A function `(q, dq, ddq) -> tau`, (N, n) each, of identified parameters and the friction beside them.

    At full friction, as soon as a joint moves: what a motion may take at most.
    """
    dynamics, law = compile_inverse_dynamics(model), replace(friction, transition_rad_s=0.0)
    links = of_kinds(phi, KINDS, others=True)

    def torques(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        wanted = dynamics(q, dq, ddq, phi)
        load = -dynamics(q, dq, np.zeros_like(dq), links) if law.depends_on_load else 0.0
        return law.motor_torque(dq, wanted, load)

    return torques


class MotionCheck:
    """Refuses motions that leave a limit.

    Args:
        robot: names the joints.
        limits: what must be kept.
        torques: the torques that a motion takes, as predicted; None does not look at currents.
        collision: finds contact of links; None does not look for it.
    """

    def __init__(
        self, robot: Robot, limits: MotionLimits, torques: Torques | None = None, collision: SelfCollision | None = None
    ) -> None:
        self._names, self._limits, self.torques, self._collision = robot.joint_names, limits, torques, collision
        self._robot = robot
        self._overload = None if torques is None else OverloadModel.of(robot)

    def check(self, parts: Sequence[Motion], load: FloatArray | None = None) -> None:
        """Refuse a sequence of motions where one of them leaves a limit.

        Args:
            parts: one after the other.
            load: share used up beforehand of what makes servos switch themselves off, (n,) [-]; None: none.

        Raises:
            SafetyError: names motion, joint or links, time since the start of that motion, value and limit.
        """
        load = np.zeros(len(self._names)) if load is None else load
        for number, part in enumerate(parts, 1):
            times = np.linspace(0.0, part.duration, int(np.ceil(part.duration / STEP_S)) + 1)
            for begin in range(0, len(times), BLOCK):
                last = number == len(parts) and begin + BLOCK >= len(times)
                load = self._check_block(part, times[begin : begin + BLOCK], load, last=last)

    def check_start(self, motion: Motion) -> None:
        """Refuse a motion that begins beyond a position limit: of a way there, not even the torques are known.

        Raises:
            SafetyError: as of `check`.
        """
        bounds = self._limits.lower, self._limits.upper
        self._within(motion, np.zeros(1), motion.start[None, :], bounds, "is at {:.2f} deg", np.rad2deg)

    def lifting_load(self, way: Motion) -> float | None:
        """The most of any servo's overload [-] that a slow way uses up, `LIFTING` counted; None where it is unknown."""
        if self._overload is None or self.torques is None:
            return None
        q, dq, _ = way.sample_all(np.arange(0.0, way.duration + COARSE_S, COARSE_S))
        held = self.torques(q, np.zeros_like(q), np.zeros_like(q)) / self._robot.joint_constants
        current = np.where(held * dq > 0.0, LIFTING, 1.0) * held
        return float(self._overload.along(np.zeros(len(self._names)), current, COARSE_S).max())

    def _check_block(self, part: Motion, times: FloatArray, load: FloatArray, *, last: bool) -> FloatArray:
        """Moments of one motion, after which `load` (n,) is left of the overload, as it was before."""
        q, dq, ddq = part.sample_all(times)
        limits = self._limits
        self._within(part, times, q, (limits.lower, limits.upper), "is at {:.2f} deg", np.rad2deg)
        self._within(part, times, dq, (-limits.velocity, limits.velocity), "moves at {:.3f} rad/s")
        bound = (-limits.acceleration, limits.acceleration)
        self._within(part, times, ddq, bound, "accelerates with {:.3f} rad/s^2")
        if self.torques is not None:
            bound = (-limits.torque, limits.torque)
            tau = self.torques(q, dq, ddq)
            self._within(part, times, tau, bound, "needs {:.3f} N m")
            load = self._no_overload(part, times, tau, load, last=last)
        self._no_contact(part, times, q)
        return load

    def _within(
        self,
        part: Motion,
        times: FloatArray,
        values: FloatArray,
        bounds: tuple[FloatArray, FloatArray],
        what: str,
        shown: Callable[[FloatArray], FloatArray] = np.asarray,
    ) -> None:
        """Refuse values (N, n) outside bounds (n,)."""
        slack = TOLERANCE * (np.abs(bounds[0]) + np.abs(bounds[1]))
        # negated, so that what is not a number is outside, too
        outside = ~((values >= bounds[0] - slack) & (values <= bounds[1] + slack))
        if outside.any():
            row, joint = (int(k) for k in np.argwhere(outside)[0])
            value, low, high = (float(shown(x)) for x in (values[row, joint], bounds[0][joint], bounds[1][joint]))
            raise SafetyError(
                f"motion '{part.name}' refused: {self._names[joint]} {what.format(value)} at {times[row]:.3f} s; "
                f"allowed is {low:.3f} to {high:.3f}"
            )

    def _no_overload(
        self, part: Motion, times: FloatArray, tau: FloatArray, load: FloatArray, *, last: bool
    ) -> FloatArray:
        """Refuse torques tau (N, n) [N m] that would trip a servo, from `load` (n,) on; what they leave of it, (n,).

        The last posture counts as held for a while.
        """
        if self._overload is None:
            return load
        current, step_s = tau / self._robot.joint_constants, float(times[1] - times[0]) if len(times) > 1 else STEP_S
        if last:
            times = np.append(times, times[-1] + step_s * np.arange(1, round(HELD_S / step_s) + 1))
            current = np.vstack([current, np.repeat(current[-1:], len(times) - len(current), axis=0)])
        loads = self._overload.along(load, current, step_s)
        beyond = ~(loads < LIMITED)
        if beyond.any():
            row, joint = (int(k) for k in np.argwhere(beyond)[0])
            raise SafetyError(
                f"motion '{part.name}' refused: {self._names[joint]} carries {abs(current[row, joint]):.3f} A at "
                f"{times[row]:.3f} s and would have used up {loads[row, joint]:.0%} of what makes its servo switch "
                f"itself off; allowed is less than {LIMITED:.0%}: let the joint carry less, or for a shorter time"
            )
        return np.asarray(loads[-1])

    def _no_contact(self, part: Motion, times: FloatArray, q: FloatArray) -> None:
        contact = None if self._collision is None else self._collision.first_contact(q)
        if contact is not None:
            posture = ", ".join(f"{angle:.0f}" for angle in np.rad2deg(q[contact.row]))
            raise SafetyError(
                f"motion '{part.name}' refused: {' and '.join(contact.links)} touch at {times[contact.row]:.3f} s, at "
                f"({posture}) deg"
            )
