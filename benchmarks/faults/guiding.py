"""The table "guiding": sudden loads, pushes and wrong payloads while a hand guides the simulated arm.

The arm runs in lock-step behind guard and executor, under gravity compensation. After the hand releases it, the
tool must stay within 0.1 m of the place of release and move at 0.5 m/s at most. In the cases "hand alone" nothing is
wrong: a hand guides the arm, and the table counts how often the executor held it without a reason.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.faults.drawn import Drawn
from benchmarks.guarded_arm import GuardedArm
from dynid.control.control_model import ControlModel
from dynid.control.controller import load_controller
from dynid.control.dynamics_kernel import compile_single
from dynid.control.model_laws import GravityCompensation
from dynid.errors import DataError
from dynid.hardware.safety.posture import Posture
from dynid.model.drive import of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.gear_presets import gear_friction
from dynid.model.standard import from_file
from dynid.robot import FloatArray, Robot, load_robot
from dynid.simulation.lockstep.hand_and_wall import Hand, Tool, smooth
from dynid.simulation.plant.arm import ArmPlant, plant_standard
from dynid.simulation.plant.held import HeldBody, holding

APPEARS, VANISHES, PUSHED, UNKNOWN, ABSENT, LED = (
    "load appears",
    "load vanishes",
    "push",
    "payload not known",
    "payload not there",
    "hand alone",
)
CAUSES = (APPEARS, VANISHES, PUSHED, UNKNOWN, ABSENT, LED)
LIGHTEST_KG, HEAVIEST_KG = 0.1, 1.0
FASTEST_M_S, FARTHEST_M = 0.5, 0.1
CYCLE_S = 0.002
HELD_S, SETTLED_S, STANDS_S, AFTER_S = 0.5, 2.0, 1.2, 2.5
HARDEST_N, AFTERMATH_S = 15.0, 0.1  # largest force of a push [N]; time in which the arm keeps the speed of the hand [s]
NEARLY_NOTHING_A = 1e-9
# effects of the motors, all except overload
EFFECTS = ("winding", "lag", "droop", "offset", "noise", "velocity", "heat")
# distance from the joint limits [rad]; share of the torque limits used in the posture
EDGE_RAD, LOADED = float(np.deg2rad(8.0)), 0.7
LOOKED_EVERY = 2  # cycles between two records of the tool


class ToolHand:
    """Hand at the tool that guides it along a smooth path, or pushes it with a force."""

    STIFFNESS_N_M, DAMPING_N_S_M, MOST_N = 200.0, 12.0, 12.0

    def __init__(self, robot: Robot) -> None:
        self._tool, self._time_s = Tool(robot), 0.0
        self._hand: Hand | None = None
        self._push = np.zeros(3)

    def lead(self, way: FloatArray, length_s: float, q: FloatArray) -> None:
        """Grasp the tool of an arm at q (n,) [rad] and guide it by a displacement (3,) [m] in a time [s]."""
        start = self._tool.state(q, np.zeros(len(q)))
        options = {"stiffness_n_m": self.STIFFNESS_N_M, "damping_ns_m": self.DAMPING_N_S_M}
        self._hand, self._time_s = Hand(lambda time_s: smooth(time_s / length_s) * way, start, **options), 0.0

    def push(self, force: FloatArray) -> None:
        """Push with a force (3,) [N] from now on."""
        self._push = force

    def let_go(self) -> None:
        """Release the tool."""
        self._hand, self._push = None, np.zeros(3)

    def torques(self, dt: float, q: FloatArray, dq: FloatArray) -> FloatArray:
        """Return the torques of the hand on an arm at q, dq (n,) [rad, rad/s] for the next dt [s], (n,) [N m]."""
        if self._hand is None and not self._push.any():
            return np.zeros(len(q))
        tool, wrench = self._tool.state(q, dq), np.concatenate([self._push, np.zeros(3)])
        if self._hand is not None:
            self._time_s += dt
            wrench = self._hand.wrench(self._time_s, tool)
            wrench[:3] *= min(1.0, self.MOST_N / max(float(np.linalg.norm(wrench[:3])), 1e-9))
        return np.asarray(tool.jacobian.T @ wrench)


@dataclass(frozen=True)
class Guided:
    """Result of a case: largest speed [m/s] and displacement [m] of the released tool, and why the arm was held."""

    cause: str
    seed: int
    mass_kg: float
    tool_m_s: float
    way_m: float
    held: str

    @property
    def violations(self) -> tuple[str, ...]:
        """Sentences about violated requirements."""
        found = []
        if not self.tool_m_s <= FASTEST_M_S:
            found.append(f"the tool moved at {self.tool_m_s:.2f} m/s")
        if not self.way_m <= FARTHEST_M:
            found.append(f"the tool moved by {self.way_m:.3f} m")
        return tuple(found)


@dataclass(frozen=True)
class GuidedRow:
    """Row of the table: all cases of one cause."""

    cause: str
    cases: int
    held: int
    tool_m_s: float
    way_m: float
    violations: int
    findings: tuple[str, ...]

    @property
    def title(self) -> str:
        """Common property of the row's cases."""
        return self.cause

    @property
    def figures(self) -> tuple[str, ...]:
        """Columns after the title."""
        return (str(self.cases), str(self.held), f"{self.tool_m_s:.2f}", f"{self.way_m:.3f}", str(self.violations))

    def as_dict(self) -> dict[str, Any]:
        """Return the row for JSON."""
        return asdict(self)


class GuidedArm(GuardedArm):
    """Arm under gravity compensation with a hand at its tool, and a record of the tool's true motion."""

    def __init__(self, robot: Robot, *, law: GravityCompensation, standard: Any, **options: Any) -> None:
        self.posture = Posture(robot, options.get("mount"))
        self.tool_hand = ToolHand(robot)
        self.tool_m_s = self.way_m = 0.0
        self._start: FloatArray | None = None
        self._cycles = 0
        super().__init__(robot, standard=standard, hand=self.tool_hand, limits=False, effects=EFFECTS, **options)
        self.plant.set_currents(np.full(robot.size, NEARLY_NOTHING_A))  # the stand no longer supports the arm
        self.motion.hold(self.q, self.stamp_ns)
        self.pass_on(HELD_S)
        self.law = law

    @property
    def tool(self) -> FloatArray:
        """True position of the tool, (3,) [m]."""
        self.posture.place(self.plant.q)
        return self.posture.tool

    def let_go(self) -> None:
        """Start the record of the tool's motion after its release."""
        self.tool_hand.let_go()
        self._start, self.tool_m_s, self.way_m = self.tool, 0.0, 0.0

    def take_over(self) -> None:
        """Exchange the holding law for gravity compensation."""
        self.motion.switch_to(self.law)

    def pass_on(self, seconds: float) -> None:
        """Run for a time [s]."""
        for _ in range(round(seconds / self._cycle_s)):
            self.cycle()

    def cycle(self) -> None:
        """Run one cycle as in `GuardedArm`, and record the tool's motion."""
        super().cycle()
        self._cycles += 1
        if self._start is None or self._cycles % LOOKED_EVERY:
            return
        tool = self.tool
        velocity = self.posture.jacobian() @ self.plant.dq
        self.tool_m_s = max(self.tool_m_s, float(np.linalg.norm(velocity)))
        self.way_m = max(self.way_m, float(np.linalg.norm(tool - self._start)))


def drawn_posture(robot: Robot, mass_kg: float, mount: str, random: np.random.Generator) -> FloatArray:
    """Return a random posture, (n,) [rad], in which the arm can hold a mass with part of its torques.

    Raises:
        DataError: none was found.
    """
    plant = ArmPlant(robot, standard=holding(robot, mass_kg), mount=mount)
    for _ in range(1000):
        q = random.uniform(robot.lower + EDGE_RAD, robot.upper - EDGE_RAD)
        if (np.abs(plant.load_at(q)) < LOADED * robot.torque_limits).all():
            return np.asarray(q)
    raise DataError(f"no posture was found in which {robot.name} holds {mass_kg:.2f} kg")


def law_of(robot: Robot, mount: str, payload_kg: float, random: np.random.Generator) -> GravityCompensation:
    """Return gravity compensation of the simulated arm with a payload, and friction with an error of up to a fifth."""
    arm = ArmModel.of(robot, mount=mount)
    standard = holding(robot, payload_kg) if payload_kg else plant_standard(robot)
    phi = of_kinds(arm.base_parameters(from_file(standard, arm.mdh)), ("FV",), others=True)
    friction = gear_friction(robot).scaled(float(random.uniform(0.8, 1.2)))
    model = ControlModel(robot.name, arm.structure_hash, phi, friction, True)
    return GravityCompensation(model, compile_single(arm), load_controller(robot).friction_share)


def run_case(robot: Robot, cause: str, seed: int) -> Guided:
    """Draw one case, run it, and return the judged result."""
    robot = robot.at_cycle(CYCLE_S)
    random = np.random.default_rng([seed, *cause.encode()])
    mount = str(random.choice(list(robot.file.mounts_gravity_m_s2)))
    mass = float(random.uniform(LIGHTEST_KG, HEAVIEST_KG)) if cause not in (PUSHED, LED) else 0.0
    known = mass if cause in (VANISHES, ABSENT) else 0.0
    q0 = drawn_posture(robot, max(mass, LIGHTEST_KG), mount, random)
    law = law_of(robot, mount, known, random)
    arm = GuidedArm(robot, law=law, standard=None, mount=mount, q0=q0, seed=seed)
    body = HeldBody(arm.plant, mass) if mass else None
    if body is not None and cause in (VANISHES, UNKNOWN):
        body.take()
        arm.pass_on(SETTLED_S)
    if cause in (UNKNOWN, ABSENT):
        arm.let_go()
        arm.take_over()
    else:
        arm.take_over()
        arm.pass_on(STANDS_S)
        _lead(arm, cause, body, random)
    arm.pass_on(AFTER_S)
    arm.plant.check()
    return Guided(cause, seed, mass, arm.tool_m_s, arm.way_m, arm.motion.guiding.held)


def _direction(random: np.random.Generator) -> FloatArray:
    direction = random.normal(size=3)
    return np.asarray(direction / np.linalg.norm(direction))


def _lead(arm: GuidedArm, cause: str, body: HeldBody | None, random: np.random.Generator) -> None:
    """Guide the arm by hand as the cause requires, until it is released."""
    if cause == PUSHED:
        arm.tool_hand.push(float(random.uniform(3.0, HARDEST_N)) * _direction(random))
        arm.pass_on(float(random.uniform(0.05, 0.3)))
        arm.tool_hand.let_go()
        arm.pass_on(AFTERMATH_S)
        arm.let_go()
        return
    if cause == LED or random.random() < 0.6:
        way = float(random.uniform(0.05, 0.2))
        length = way / float(random.uniform(0.08, 0.15))
        arm.tool_hand.lead(way * _direction(random), length, arm.plant.q)
        arm.pass_on(length * (1.2 if cause == LED else float(random.uniform(0.3, 1.1))))
    arm.let_go()
    if body is not None:
        (body.take if cause == APPEARS else body.put_down)()


def run_guided(drawn: Drawn) -> Guided:
    """Draw and run one case, each kind in turn, and return the result."""
    return run_case(load_robot(drawn.robot), CAUSES[drawn.number % len(CAUSES)], drawn.seed + drawn.number)


def guided_rows(found: Sequence[Guided]) -> list[GuidedRow]:
    """Return the table, one row per cause."""
    rows = []
    for cause in CAUSES:
        mine = [one for one in found if one.cause == cause]
        if mine:
            bad = [one for one in mine if one.violations]
            findings = tuple(f"seed {one.seed}, {one.mass_kg:.2f} kg: {'; '.join(one.violations)}" for one in bad[:5])
            worst = max(one.tool_m_s for one in mine), max(one.way_m for one in mine)
            held = sum(bool(one.held) for one in mine)
            rows.append(GuidedRow(cause, len(mine), held, round(worst[0], 3), round(worst[1], 3), len(bad), findings))
    return rows
