"""The table "run away": external efforts and wrong models, on the simulated arm behind guard and executor.

After every accepted request, no joint may deviate from its reference by more than path tolerance plus 5 deg, or press
on a limit at the end. With laws without a reference, the arm is not guided by hand here, so no joint may
move by more than 5 deg from its position at the start of such a law.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.faults.drawn import Drawn
from benchmarks.guarded_arm import GuardedArm
from dynid.control.added_torque import TorqueCurve
from dynid.control.control_model import ControlModel
from dynid.control.controller import TorqueLaw, load_controller
from dynid.control.dynamics_kernel import SingleState
from dynid.control.effort_bounds import EffortBound
from dynid.control.ff_pd import FeedforwardPdLaw
from dynid.control.holding_check import HoldingTorque
from dynid.control.model_laws import ComputedTorque, GravityCompensation
from dynid.control.motion import MAX_TRACKING_ERROR_RAD
from dynid.control.motion_check import MotionCheck, nominal_torques, robot_limits
from dynid.control.plan import MotionPlan, plan_motion
from dynid.errors import SafetyError
from dynid.model.drive import of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.standard import from_file
from dynid.robot import FloatArray, Robot, load_robot
from dynid.simulation.plant.arm import plant_standard
from dynid.simulation.plant.nuisances import quantise
from dynid.trajectory.families import load_excitation
from dynid.trajectory.motion import Motion
from dynid.trajectory.polynomial import through_points

MORE_RAD = float(np.deg2rad(5.0))  # allowed error beyond the path tolerance [rad]
HELD_S, AFTER_S = 1.0, 3.0
# a joint presses on a limit after this time [s], within this distance [rad], with this share of the current limit
PRESSED_S, AT_LIMIT_RAD, PRESSING = 0.5, float(np.deg2rad(1.0)), 0.1
EFFORTS = ("efforts from the start", "efforts that jump", "efforts that swing")
MODELS = ("model scaled", "sign of one joint", "wrong mount")
CASES = tuple((cause, FeedforwardPdLaw.name) for cause in EFFORTS) + tuple(
    (cause, law) for law in (ComputedTorque.name, GravityCompensation.name) for cause in MODELS
)
# largest distance from upright, for half of the arms under a guiding law; distance from the joint limits [rad]
UPRIGHT_RAD, EDGE_RAD = np.deg2rad([5.0, 8.0])


@dataclass(frozen=True)
class Runaway:
    """Result of a case: cause, law, whether it began, largest error [rad] and violations.

    The error of a law without a reference is the largest movement of a joint since it took over.
    """

    cause: str
    law: str
    seed: int
    refused: bool
    error_rad: float
    released: bool
    violations: tuple[str, ...]


@dataclass(frozen=True)
class RunawayRow:
    """Row of the table: all cases of one cause under one law."""

    cause: str
    law: str
    cases: int
    refused: int
    released: int
    worst_deg: float
    violations: int
    findings: tuple[str, ...]

    @property
    def title(self) -> str:
        """Common property of the row's cases."""
        return f"{self.cause}, {self.law}"

    @property
    def figures(self) -> tuple[str, ...]:
        """Columns after the title, as text for a table."""
        return tuple(str(one) for one in (self.cases, self.refused, self.released, self.worst_deg, self.violations))

    def as_dict(self) -> dict[str, object]:
        """Return the row for JSON."""
        return asdict(self)


class WatchedArm(GuardedArm):
    """Arm with checks of its executor: tracking errors of the joints, and joints that press on a limit."""

    def __init__(self, robot: Robot, check: MotionCheck, q0: FloatArray | None = None) -> None:
        self.taken_over: FloatArray | None = None  # posture at which a law without a reference began, (n,) [rad]
        self.error_rad, self.said, self.pressed_s = 0.0, list[str](), np.zeros(robot.size)
        self.holding = HoldingTorque(robot)
        super().__init__(robot, check=check, q0=q0)

    def cycle(self) -> None:
        """Run one cycle as in `GuardedArm`, with an executor that may end the motion."""
        nuisances, reading = self.plant.nuisances, self.plant.measure()
        self.q, dq = quantise(reading.q, nuisances.position_step), quantise(reading.dq, nuisances.velocity_step)
        self.guard.set_load(quantise(reading.current_a, nuisances.current_step), self._cycle_s)
        current = self.guard.filter(self._tau, 0.0, self.q, dq).current_a
        self.plant.set_currents(quantise(current, nuisances.current_step))
        self.plant.advance(self._cycle_s)
        self.stamp_ns += round(self._cycle_s * 1e9)
        self.holding.note(self.stamp_ns, self.q, dq, reading.current_a * self.robot.joint_constants)
        self._press(current)
        try:
            step = self.motion.update(self.stamp_ns, self.q)
        except SafetyError as error:
            self.said.append(str(error))
            step = None
            if self.motion.active:
                return  # nothing is sent in this cycle; the driver keeps the previous command
        self._tau = None if step is None else step.tau.copy()
        if step is not None:
            reference = step.q_ref if self.taken_over is None else self.taken_over
            self.error_rad = max(self.error_rad, float(np.abs(self.q - reference).max()))

    def _press(self, current: FloatArray) -> None:
        robot, outward = self.robot, np.zeros(self.robot.size)
        outward[self.q > robot.upper - AT_LIMIT_RAD] = 1.0
        outward[self.q < robot.lower + AT_LIMIT_RAD] = -1.0
        pressing = (current * outward > PRESSING * robot.current_limits) & (outward != 0.0)
        self.pressed_s = np.where(pressing, self.pressed_s + self._cycle_s, 0.0)

    def begin(self, plan: MotionPlan) -> None:
        """Begin a plan at the present posture."""
        self.motion.begin(plan, self.q, self.stamp_ns)

    def hold(self) -> None:
        """Hold the arm at its present posture."""
        self.motion.hold(self.q, self.stamp_ns)

    def pass_on(self, seconds: float) -> None:
        """Run for a time [s]."""
        for _ in range(round(seconds / self._cycle_s)):
            self.cycle()


def run_case(robot: Robot, cause: str, law: str, seed: int) -> Runaway:
    """Draw one case, run it, and return the judged result."""
    random = np.random.default_rng([seed, *cause.encode()])
    limits = robot_limits(robot, load_excitation(robot).acceleration_limits)
    efforts = EffortBound(robot, load_controller(robot))
    q0 = _drawn_start(robot, random) if law == GravityCompensation.name else None
    arm = WatchedArm(robot, MotionCheck(robot, limits, nominal_torques(robot, None), None, efforts), q0)
    arm.hold()
    arm.pass_on(HELD_S)
    try:
        if cause in EFFORTS:
            arm.begin(_with_efforts(arm, cause, random))
        else:
            _exchange(arm, _wrong_law(robot, cause, law, random), random)
    except SafetyError:
        return Runaway(cause, law, seed, True, 0.0, False, ())
    arm.pass_on(float(random.uniform(2.0, 5.0)))
    arm.motion.cancel(arm.stamp_ns)
    arm.pass_on(AFTER_S)
    arm.plant.check()
    return judged(arm, cause, law, seed)


def judged(arm: WatchedArm, cause: str, law: str, seed: int) -> Runaway:
    """Return the result of a case, judged by its largest error and by joints that press on a limit."""
    guided = arm.taken_over is not None
    found, error, most = [], arm.error_rad, MORE_RAD + (0.0 if guided else MAX_TRACKING_ERROR_RAD)
    if not error <= most:
        off = "off where the law took over" if guided else "off its reference"
        found.append(f"{np.rad2deg(error):.1f} deg {off}, at most {np.rad2deg(most):.1f} deg are allowed")
    if (arm.pressed_s > PRESSED_S).any():
        joint = int(np.argmax(arm.pressed_s))
        found.append(f"{arm.robot.joint_names[joint]} is pressed on its limit for {arm.pressed_s[joint]:.1f} s")
    return Runaway(cause, law, seed, False, error, not arm.motion.active, tuple(found))


def _motion(robot: Robot, start: FloatArray, random: np.random.Generator) -> Motion:
    """Return a gentle motion near the present posture, (n,) [rad]."""
    low, high = robot.lower + 0.2, robot.upper - 0.2
    points = [start] + [np.clip(start + random.uniform(-0.4, 0.4, robot.size), low, high) for _ in range(3)]
    points = [np.where((start < low) | (start > high), start, one) for one in points]
    times = np.concatenate([[0.0], np.cumsum(random.uniform(1.0, 1.6, 3))])
    return through_points("drawn", robot.joint_names, times, np.array(points))


def _with_efforts(arm: WatchedArm, cause: str, random: np.random.Generator) -> MotionPlan:
    """Return a motion with the largest accepted efforts; raise SafetyError if none are accepted."""
    robot = arm.robot
    start = arm.motion.start_posture(arm.q)
    motion = _motion(robot, start, random)
    size = random.uniform(-1.0, 1.0, robot.size) * (random.random(robot.size) < random.uniform(0.2, 1.0))
    at = float(random.uniform(0.0, motion.duration))
    if cause == EFFORTS[0]:
        times, shape = np.zeros(1), np.ones((1, 1))
    elif cause == EFFORTS[1]:
        times, shape = np.array([0.0, at, at + 1e-3]), np.array([[0.0], [0.0], [1.0]])
    else:
        times = np.arange(0.0, motion.duration, 0.01)
        shape = np.sin(2.0 * np.pi * random.uniform(0.2, 8.0) * times)[:, None]
    refusal = SafetyError("no efforts were drawn")
    for share in 0.7 ** np.arange(0, 12):
        curve = TorqueCurve(times, share * shape * size * robot.torque_limits)
        try:
            return plan_motion(robot, motion, start, arm.motion.check, to_rest=False, added=curve)
        except SafetyError as error:
            refusal = error
    raise refusal


def _drawn_start(robot: Robot, random: np.random.Generator) -> FloatArray:
    """Return a random posture, (n,) [rad]: nearly upright, or anywhere."""
    low, high = robot.lower + EDGE_RAD, robot.upper - EDGE_RAD
    near = bool(random.random() < 0.5)
    q = random.uniform(-UPRIGHT_RAD, UPRIGHT_RAD, robot.size) if near else random.uniform(low, high)
    return np.asarray(np.clip(q, low, high))


def _wrong_law(robot: Robot, cause: str, law: str, random: np.random.Generator) -> TorqueLaw:
    mount = None
    if cause == MODELS[2]:
        mount = str(random.choice([one for one in robot.file.mounts_gravity_m_s2 if one != robot.file.default_mount]))
    arm = ArmModel.of(robot, mount=mount)
    phi = of_kinds(arm.base_parameters(from_file(plant_standard(robot), arm.mdh)), ("FV",), others=True)
    scale = float(2.0 ** random.uniform(-1.0, 1.0)) if cause == MODELS[0] else 1.0
    phi = type(phi)(phi.names, phi.values * scale) if scale != 1.0 else phi
    dynamics = SingleState(arm)
    if cause == MODELS[1]:
        dynamics = _Turned(arm, int(random.integers(robot.size)))
    model = ControlModel(robot.name, arm.structure_hash, phi, FrictionLaw.of(robot.size, {}), True)
    if law == ComputedTorque.name:
        return ComputedTorque(load_controller(robot), model, dynamics)
    return GravityCompensation(model, dynamics, load_controller(robot).friction_share)


class _Turned(SingleState):
    """Dynamics that give the torque of one joint with the wrong sign."""

    def __init__(self, arm: ArmModel, joint: int) -> None:
        self._joint = -1
        super().__init__(arm)
        self._joint = joint

    def __call__(self, q: FloatArray, dq: FloatArray, ddq: FloatArray, phi: FloatArray) -> FloatArray:
        tau = super().__call__(q, dq, ddq, phi)
        if self._joint >= 0:
            tau[self._joint] *= -1.0
        return tau


def _exchange(arm: WatchedArm, law: TorqueLaw, random: np.random.Generator) -> None:
    """Exchange the law as the executor does: refused if other torques hold the arm; then let it move."""
    arm.holding.refuse_contradiction(law)
    arm.motion.switch_to(law)
    if not law.follows_reference:
        arm.taken_over = arm.q.copy()
        return
    start = arm.motion.start_posture(arm.q)
    arm.begin(plan_motion(arm.robot, _motion(arm.robot, start, random), start, arm.motion.check, to_rest=False))


def run_away(case: Drawn) -> Runaway:
    """Draw a case, each kind in turn, run it and return the result."""
    return run_case(load_robot(case.robot), *CASES[case.number % len(CASES)], case.seed + case.number)


def runaway_rows(found: Sequence[Runaway]) -> list[RunawayRow]:
    """Return the table, one row per cause and law."""
    rows = []
    for cause, law in CASES:
        mine = [one for one in found if (one.cause, one.law) == (cause, law)]
        if not mine:
            continue
        bad = [one for one in mine if one.violations]
        worst = float(np.rad2deg(max(one.error_rad for one in mine)))
        findings = tuple(f"seed {one.seed}: {'; '.join(one.violations)}" for one in bad[:3])
        refused, released = sum(one.refused for one in mine), sum(one.released for one in mine)
        rows.append(RunawayRow(cause, law, len(mine), refused, released, round(worst, 2), len(bad), findings))
    return rows
