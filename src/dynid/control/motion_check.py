"""Check of a whole motion against every limit of the arm, before the first current flows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.codegen.compile import compile_inverse_dynamics
from dynid.control.added_torque import TorqueCurve
from dynid.control.effort_bounds import EffortBound
from dynid.control.motion_cells import NODES, Cells, cells_of
from dynid.control.motion_cells import Torques as Torques
from dynid.control.safe_box import SafeBox
from dynid.control.sag import Sag
from dynid.control.self_collision import SelfCollision
from dynid.control.tool_speed import SLOWER, TOOL_SHARE, ToolSpeed
from dynid.errors import SafetyError
from dynid.hardware.safety.overload import LIMITED, OverloadModel, reachable_speed
from dynid.hardware.safety.settings import load_safety
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.parameters import BaseParameters
from dynid.model.standard import load_nominal
from dynid.model.transmission import Transmission
from dynid.robot import FloatArray, Robot
from dynid.robot.values import PLANNED_SHARE
from dynid.trajectory.motion import Motion
from dynid.trajectory.pieces import Pieces
from dynid.trajectory.polynomial import PolynomialTrajectory
from dynid.trajectory.trajectory import approach

STEP_S, COARSE_S = 0.002, 0.02
ROUNDING_S = 1e-6  # rounding of the times of points
TOLERANCE = 1e-6  # relative tolerance of a limit, for rounding errors
USED = 0.05  # used fraction of overload capacity before a motion, above which an error message mentions it
HELD_S = 10.0  # time for which the end posture is assumed to be held
# Ratio of a joint's lifting current to its holding current, due to gear friction: up to 2.0 at joint 4 of CRANE-X7
# with the published friction of its gears, plus a tenth for an arm heavier than its parameters.
LIFTING = 2.2
Shown = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class MotionLimits:
    """Limits that a motion must keep.

    Attributes:
        lower: lower position limits, (n,) [rad].
        upper: upper position limits, (n,) [rad].
        velocity: speed limits, (n,) [rad/s].
        acceleration: acceleration limits, (n,) [rad/s^2].
        torque: torque limits, (n,) [N m].
        tool_m_s: the driver's speed limit of the tool and of the other links' ends [m/s]; None for no limit.
    """

    lower: FloatArray
    upper: FloatArray
    velocity: FloatArray
    acceleration: FloatArray
    torque: FloatArray
    tool_m_s: float | None = None


def robot_limits(robot: Robot, acceleration: FloatArray) -> MotionLimits:
    """Return the limits that motions of a robot must keep, with acceleration limits (n,) [rad/s^2].

    The torque limits are the fraction `PLANNED_SHARE` of the largest torques that the driver permits; the rest is
    reserved for feedback.
    """
    torque = PLANNED_SHARE * robot.drive_limits * robot.drive_constants
    tool_m_s = load_safety(robot).tool_limit_m_s
    return MotionLimits(robot.lower, robot.upper, reachable_speed(robot), acceleration, torque, tool_m_s)


def position_and_speed(robot: Robot) -> "MotionCheck":
    """Return a check of motions against the robot's position and speed limits only."""
    anything = np.full(robot.size, np.inf)
    return MotionCheck(robot, MotionLimits(robot.lower, robot.upper, reachable_speed(robot), anything, anything))


def nominal_torques(robot: Robot, mount: str | None) -> Torques:
    """Return a function `(q, dq, ddq) -> tau`, (N, n) each in SI, that predicts torques from the nominal parameters.

    The function is used until a model is identified.

    Args:
        robot: the robot.
        mount: mount of the arm; None means the default of robot.yaml.
    """
    model = ArmModel.of(robot, mount=mount)
    return model_torques(model, nominal_parameters(robot, model), FrictionLaw.of(robot.size, {}))


def nominal_parameters(robot: Robot, model: ArmModel) -> BaseParameters:
    """Return the base parameters that correspond to the robot's nominal standard parameters."""
    return model.base_parameters(load_nominal(robot, model.mdh, model.regrouping.standard))


def model_torques(model: ArmModel, phi: BaseParameters, friction: FrictionLaw) -> Torques:
    """Return a function `(q, dq, ddq) -> tau`, (N, n) each in SI, that predicts torques from parameters and friction.

    Friction is at its full value as soon as a joint moves, which gives the largest torque that a motion may need.

    Args:
        model: model of the arm.
        phi: base parameters.
        friction: friction law in addition to the friction terms among the base parameters.
    """
    dynamics, law = compile_inverse_dynamics(model), replace(friction, transition_rad_s=0.0)
    links = of_kinds(phi, KINDS, others=True)

    def torques(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
        wanted = dynamics(q, dq, ddq, phi)
        load = -dynamics(q, dq, np.zeros_like(dq), links) if law.depends_on_load else 0.0
        return law.motor_torque(dq, wanted, load)

    return torques


class MotionCheck:
    """Check of whole motions, which raises an error if a motion exceeds a limit.

    Args:
        robot: robot with the joint names.
        limits: limits to keep.
        torques: function `(q, dq, ddq) -> tau` that predicts the torques of a motion; None skips the check of torques
            and currents.
        collision: self-collision check; None skips it.
        efforts: check of feed-forward torques that come with a motion; None skips it.
        box: free space around the arm in which all links must stay; None skips this check.
        sag: expected deviation of the arm from the reference; the arm must stay in the free space even if it deviates
            in this way. None means zero.
    """

    def __init__(
        self,
        robot: Robot,
        limits: MotionLimits,
        torques: Torques | None = None,
        collision: SelfCollision | None = None,
        efforts: EffortBound | None = None,
        box: SafeBox | None = None,
        sag: Sag | None = None,
    ) -> None:
        self._names, self._limits, self.torques, self._collision = robot.joint_names, limits, torques, collision
        self._robot, self._efforts, self._box, self._sag = robot, efforts, box, sag
        self._overload = None if torques is None else OverloadModel.of(robot)
        self._transmission = Transmission(robot)
        self._tool = None if limits.tool_m_s is None else ToolSpeed(robot, limits.tool_m_s)

    def check(self, parts: Sequence[Motion], load: FloatArray | None = None, *, carried: bool = False) -> None:
        """Raise SafetyError if one of a sequence of motions exceeds a limit.

        Positions, speeds and accelerations are checked exactly. Torques are interpolated by cubics over a few
        milliseconds each, and the cubics are checked. The distance of two links is computed at sampled postures, and
        must exceed the largest amount by which it can decrease within the time span around its sample. If it does not,
        this span is sampled more closely.

        Args:
            parts: motions in their order.
            load: fraction of each servo's overload capacity that is used up before the first motion, (n,) [-]; None
                means zero.
            carried: whether the motions come with feed-forward torques that carry gravity, so that the arm does not
                sag.

        Raises:
            SafetyError: a limit is exceeded; the message names motion, joint or links, time since the start of that
                motion, value and limit.
        """
        load = used = np.zeros(len(self._names)) if load is None else load
        for number, part in enumerate(parts, 1):
            self._no_short_piece(part)
            pieces = part.pieces()
            self._kinematics(part, pieces)
            self._tool_speed(part)
            if self.torques is not None:
                for cells in cells_of(pieces):
                    last = cells.last and number == len(parts)
                    load = self._check_torques(part, cells, load, used, last=last)
            self._no_contact(part, pieces)
            self._stays_inside(part, first=number == 1, last=number == len(parts), carried=carried)

    def refuse_efforts(self, motion: Motion, added: TorqueCurve) -> None:
        """Raise SafetyError if feed-forward torques along a motion deviate too much from the predicted torques.

        Args:
            motion: the motion.
            added: feed-forward torques along the motion.
        """
        if self._efforts is not None:
            self._efforts.refuse(motion, added, self.torques)

    def check_start(self, motion: Motion) -> None:
        """Raise SafetyError if the start posture of a motion is beyond a position limit.

        Call it before the approach to the start posture is planned.

        Raises:
            SafetyError: the start is beyond a limit, see `check`.
        """
        bounds = self._limits.lower, self._limits.upper
        self._within(motion, np.zeros(1), motion.start[None, :], bounds, "is at {:.2f} deg", np.rad2deg)

    def lifting_load(self, way: Motion) -> float | None:
        """Return the largest used fraction of a servo's overload capacity along a slow motion, over all servos [-].

        The fraction is zero at the start of the motion. The motor currents are computed from gravity. The current of a
        joint that lifts is multiplied by `LIFTING` to include gear friction. The result is None if the currents or the
        servos' capacities are unknown.
        """
        if self._overload is None or self.torques is None:
            return None
        q, dq, _ = way.sample_all(np.arange(0.0, way.duration + COARSE_S, COARSE_S))
        held = self.torques(q, np.zeros_like(q), np.zeros_like(q))
        current = self._transmission.currents_for(np.where(held * dq > 0.0, LIFTING, 1.0) * held)
        return float(self._overload.along(np.zeros(len(self._names)), current, COARSE_S).max())

    def pace_within_tool_limit(self, way: Motion) -> float:
        """Return the factor [-] by which to multiply the speed limit of a motion's joints to slow down its tool.

        The factor is 1 if the tool is not too fast. Otherwise plan the motion again with the reduced limit, and call
        this method again, until the factor is 1. Several reductions may be needed for a short motion, whose joints do
        not reach their speed limit.
        """
        peak = 0.0 if self._tool is None else float(self._tool.along(way)[1].max())
        return 1.0 if self._tool is None or peak <= self._tool.allowed_m_s else SLOWER * self._tool.allowed_m_s / peak

    def _tool_speed(self, part: Motion) -> None:
        """Raise SafetyError if the tool or another link's end moves faster than the driver's limit allows."""
        if self._tool is None:
            return
        times, speeds = self._tool.along(part)
        beyond = np.flatnonzero(~(speeds <= self._tool.allowed_m_s))
        if len(beyond):
            k = int(beyond[0])
            raise SafetyError(
                f"motion '{part.name}' refused: the tool or a link moves at {speeds[k]:.3f} m/s at {times[k]:.3f} s; "
                f"allowed is {self._tool.allowed_m_s:.3f} m/s, {TOOL_SHARE:.0%} of tool_limit_m_s in safety.yaml: plan "
                "it slower"
            )

    def _no_short_piece(self, part: Motion) -> None:
        """Raise SafetyError if two successive points of a trajectory are less than a control cycle apart in time."""
        gaps, cycle_s = np.diff(part.knots), self._robot.file.bus.cycle_s
        if isinstance(part, PolynomialTrajectory) and len(gaps) and not gaps.min() >= cycle_s - ROUNDING_S:
            k = int(np.argmin(gaps))
            raise SafetyError(
                f"motion '{part.name}' refused: its points {k + 1} and {k + 2} at {part.knots[k]:.4f} s are "
                f"{1e3 * gaps[k]:.4g} ms apart, expected at least the control cycle of {1e3 * cycle_s:.4g} ms: leave "
                "one of them out"
            )

    def _kinematics(self, part: Motion, pieces: Pieces) -> None:
        """Raise SafetyError if position, speed or acceleration exceeds a limit, at samples or between them."""
        limits = self._limits
        rows: tuple[tuple[FloatArray, FloatArray, str, Shown], ...] = (
            (limits.lower, limits.upper, "is at {:.2f} deg", np.rad2deg),
            (-limits.velocity, limits.velocity, "moves at {:.3f} rad/s", np.asarray),
            (-limits.acceleration, limits.acceleration, "accelerates with {:.3f} rad/s^2", np.asarray),
        )
        for order, (lower, upper, what, shown) in enumerate(rows):
            slack = TOLERANCE * (np.abs(lower) + np.abs(upper))
            found = pieces.first_beyond(order, lower - slack, upper + slack)
            if found is None:
                continue
            for cells in cells_of(pieces):  # report the earliest sample beyond the limit, if there is one
                values = (cells.q, cells.dq, cells.ddq)[order]
                self._within(part, cells.times.ravel(), values.reshape(-1, len(lower)), (lower, upper), what, shown)
            piece, since, joint, value = found
            self._refuse(part, joint, float(pieces.begins[piece]) + since, value, (lower, upper), what, shown)

    def _check_torques(
        self, part: Motion, cells: Cells, load: FloatArray, used: FloatArray, *, last: bool
    ) -> FloatArray:
        """Raise SafetyError if the motors cannot give the torques in time spans of a motion, or would be overloaded.

        Args:
            part: the motion.
            cells: time spans of the motion with their samples.
            load: used fraction of each servo's overload capacity before these spans, (n,) [-].
            used: used fraction before the first of all checked motions, (n,) [-]; an error message states it.
            last: whether the last motion ends with these spans. The load of holding its end posture for `HELD_S` is
                then included.

        Returns:
            Used fraction of each servo's overload capacity after these spans, (n,) [-].
        """
        assert self.torques is not None
        limit = self._limits.torque
        found = cells.torques(self.torques)
        for tau in found:
            rows = tau.reshape(-1, len(limit))
            self._within(part, cells.times.ravel(), rows, (-limit, limit), "needs {:.3f} N m")
            beyond = cells.first_beyond(tau, limit * (1.0 + 2.0 * TOLERANCE))
            if beyond is not None:
                time_s, joint, value = beyond
                self._refuse(part, joint, time_s, value, (-limit, limit), "needs {:.3f} N m", np.asarray)
        times, tau = cells.times[:, :-1].ravel(), found[0][:, :-1].reshape(-1, len(limit))
        steps = np.repeat(np.diff(cells.times, axis=1)[:, 0], NODES - 1)
        if last:  # assume that the end posture is held for a while
            still = np.zeros((1, len(limit)))
            held = self.torques(part.end[None], still, still)
            count = round(HELD_S / STEP_S)
            times = np.append(times, cells.times[-1, -1] + STEP_S * np.arange(count))
            tau, steps = np.vstack([tau, np.tile(held, (count, 1))]), np.append(steps, np.full(count, STEP_S))
        return self._no_overload(part, times, tau, steps, load, used)

    def _within(
        self,
        part: Motion,
        times: FloatArray,
        values: FloatArray,
        bounds: tuple[FloatArray, FloatArray],
        what: str,
        shown: Shown = np.asarray,
    ) -> None:
        """Raise SafetyError if values are outside their bounds by more than rounding errors.

        Args:
            part: the motion.
            times: times since the start of the motion, (N,) [s].
            values: values at these times, (N, n).
            bounds: lower and upper bounds, (n,) each in the same unit.
            what: part of the message after the joint's name, with a format field for the value.
            shown: converts a value to the unit of the message.
        """
        slack = TOLERANCE * (np.abs(bounds[0]) + np.abs(bounds[1]))
        # negated, so that NaN counts as outside
        outside = ~((values >= bounds[0] - slack) & (values <= bounds[1] + slack))
        if outside.any():
            row, joint = (int(k) for k in np.argwhere(outside)[0])
            self._refuse(part, joint, float(times[row]), float(values[row, joint]), bounds, what, shown)

    def _refuse(
        self,
        part: Motion,
        joint: int,
        time_s: float,
        value: float,
        bounds: tuple[FloatArray, FloatArray],
        what: str,
        shown: Shown,
    ) -> None:
        value, low, high = (float(shown(np.asarray(x))) for x in (value, bounds[0][joint], bounds[1][joint]))
        raise SafetyError(
            f"motion '{part.name}' refused: {self._names[joint]} {what.format(value)} at {time_s:.3f} s; "
            f"allowed is {low:.3f} to {high:.3f}"
        )

    def _no_overload(
        self, part: Motion, times: FloatArray, tau: FloatArray, steps: FloatArray, load: FloatArray, used: FloatArray
    ) -> FloatArray:
        """Raise SafetyError if torques along a motion would switch a servo off because of overload.

        Args:
            part: the motion.
            times: times since the start of the motion, (N,) [s].
            tau: torques at these times, (N, n) [N m].
            steps: durations of these torques, (N,) [s].
            load: used fraction of each servo's overload capacity at the start, (n,) [-].
            used: used fraction before the first of all checked motions, (n,) [-]; an error message states it.

        Returns:
            Used fraction of each servo's overload capacity at the end, (n,) [-].
        """
        if self._overload is None:
            return load
        current = self._transmission.currents_for(tau)
        loads = self._overload.along(load, current, steps[:, None])
        beyond = ~(loads < LIMITED)
        if beyond.any():
            row, joint = (int(k) for k in np.argwhere(beyond)[0])
            rest = f", or let the servo rest first: {used[joint]:.0%} were used up before" if used[joint] > USED else ""
            raise SafetyError(
                f"motion '{part.name}' refused: {self._names[joint]} carries {abs(current[row, joint]):.3f} A at "
                f"{times[row]:.3f} s and would load its servo to {loads[row, joint]:.0%} of the overload that "
                f"switches it off; allowed is less than {LIMITED:.0%}: let the joint carry less, or for a shorter time"
                f"{rest}"
            )
        return np.asarray(loads[-1])

    def _no_contact(self, part: Motion, pieces: Pieces) -> None:
        contact = None if self._collision is None else self._collision.first_contact_along(pieces)
        if contact is not None:
            posture = ", ".join(f"{angle:.0f}" for angle in np.rad2deg(contact.q))
            raise SafetyError(
                f"motion '{part.name}' refused: {' and '.join(contact.links)} touch at {contact.time_s:.3f} s, at "
                f"({posture}) deg"
            )

    def _stays_inside(self, part: Motion, *, first: bool, last: bool, carried: bool) -> None:
        """Raise SafetyError if a motion leaves the free space, including the expected sag of the arm under gravity.

        Args:
            part: the motion.
            first: whether this is the first motion, which may begin outside the free space, such as on the table, if it
                enters the free space directly.
            last: whether this is the last motion, after which the arm is held and may sway.
            carried: whether feed-forward torques of the motion carry gravity, so that the arm does not sag.
        """
        if self._box is None:
            return
        tube = np.zeros(len(self._names))
        if self._sag is not None and not carried:
            tube = self._sag.along(part, self.torques)
        enters = first and len(part.knots) > 1 and self._box.shortfall(part.start[None], tube)[0] > 0.0
        try:
            (self._box.prove_entry if enters else self._box.prove)(part, tube)
            if last and self._sag is not None and self._sag.sway_rad > 0.0:
                held = approach(part.end, part.end, self._names, name=f"{part.name}, then held")
                self._box.prove(held, tube + self._sag.sway_rad)
        except SafetyError as error:
            lead = "move the arm by hand into the free space first, " if enters else ""
            raise SafetyError(
                f"{error}; {lead}describe the free space around this arm in a file for the executor's parameter scene "
                f"(--scene of `dynid collect`), or give 'none' if nothing is near"
            ) from error
