"""Drafts of a robot's first motions, controller gains and safety settings; every drafted motion passed `MotionCheck`.

Postures are random within the limits, but the same for each run on one robot. At some postures each joint in turn makes
a large motion while the others move a little, which separates their parameters. The motions between postures move all
joints far. If a limit or a contact forbids such a motion, another posture is drawn.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid.control.motion_check import MotionCheck, model_torques, nominal_parameters, robot_limits
from dynid.control.self_collision import SelfCollision
from dynid.errors import ConfigurationError, SafetyError
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.gear_presets import VISCOUS, gear_friction
from dynid.model.standard import StandardFile
from dynid.resources import load_validated, refuse_existing, write_whole, yaml_text
from dynid.robot import FloatArray, Robot
from dynid.robot.draft import MOTION_SHARE
from dynid.robot.draft_gears import USABLE
from dynid.robot.values import PLANNED_SHARE
from dynid.trajectory.excitation_schema import ExcitationFile
from dynid.trajectory.families import Excitation
from dynid.trajectory.trajectory import through

CALM = (2.0, 0.4)  # largest speeds [rad/s, m/s]
RUN_UP_S = 0.2  # time in which a joint reaches its speed, if the torque allows it
INERTIAL_SHARE, HOLDING_SHARE = 0.3, 0.6  # fractions of the torque limit for acceleration and for holding a posture
MARGIN_DEG, MARGIN_M = 4.0, 0.012
# Travel to either side as shares of the joint ranges: of one joint, and of the others, which move as well because a
# joint at rest sticks, so that its torque is unknown within its dry friction.
MAIN_SHARE, OTHERS_SHARE = 0.2, 0.05
MOST_TRIED, LOOKED_AT = 400, 256
MOST_DRAFTS = 5  # largest number of complete drafts
STIFFNESS = 400.0  # proportional gain [1/s^2]
# Time constant of the pseudo-differentiation: control cycles, and range [s]. Over a single cycle one encoder step is so
# high a speed that the loop chatters, which changes the friction of the gears; a longer one destabilises the loop.
DIFFERENTIATION_CYCLES, DIFFERENTIATION_S = 3.0, (0.002, 0.01)
STUCK_RAD = np.deg2rad(2.0)  # position error at which the gains overcome stiction
MOST_INERTIA = 4.0  # largest inertia in the gains, as a multiple of the mean: above it the delay destabilises the loop
# Time constant of a braked joint, in control cycles: the hold damps inertia / (cycles * cycle time). With twice as
# many cycles, a heavy arm sags noticeably before the hold has estimated its load; with too few, the delay of the loop
# makes the joint oscillate.
BRAKING_CYCLES = 12.0
LEAST_BRAKING_CYCLES = 5.0  # smallest time constant, at the posture where the joint's inertia is smallest
NEVER_RAD_S = 1e9  # transition speed of friction that does not fade
STILL_RAD_S = 1e-3  # a slower reference counts as rest, which has no direction
WEAK_SHARE = 0.2  # share of postures at which a joint must lack torque before a message names it
FILES = ("excitation.yaml", "controller.yaml")
HOLD_FILE = "safety.yaml"
SLOW, MIDDLE, FAST = 0.35, 0.7, 1.0
HEAD = """\
# Drafted by 'dynid robot motions' from the limits of robot.yaml and from {standard}.
# SAFETY: checked against position, speed and torque limits{contact}. No person
# has looked at the base, the table or the room: look at the motions in simulation before a real arm moves.
"""
GAINS = """\
# Drafted by 'dynid robot motions': M_hat and D_hat from {standard}, rotors and friction
# as proposed there. Gentle gains; the arm sags under gravity. 'dynid joint-id' measures M_hat and D_hat on the arm.
"""
HOLD = """\
# Settings of the safety guard that differ from its defaults; src/dynid/hardware/safety/settings.py documents them all.
# Drafted by 'dynid robot motions' from {standard} and robot.yaml: rough values with which the
# driver's hold separates the load from acceleration and friction, and damping that brakes each joint's inertia.
# Measure the table, if there is one: table_height_m.
"""


@dataclass(frozen=True, eq=False)
class MotionDraft:
    """Drafted contents of a robot's excitation.yaml, controller.yaml and safety.yaml.

    Attributes:
        excitation: content of excitation.yaml.
        controller: content of controller.yaml.
        safety: content of safety.yaml.
        contact: whether the motions were checked for contact between links.
    """

    excitation: dict[str, Any]
    controller: dict[str, Any]
    safety: dict[str, Any]
    contact: bool


class _Drafter:
    """Generator of random motions for one robot, all of which keep the robot's limits."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        turning = ~np.array(robot.prismatic)
        margin = np.minimum(np.where(turning, np.deg2rad(MARGIN_DEG), MARGIN_M), 0.1 * (robot.upper - robot.lower))
        reach = np.where(turning, np.pi, np.inf)  # more than half a turn to either side would only wind up cables
        lower, upper = np.maximum(robot.lower + margin, -reach), np.minimum(robot.upper - margin, reach)
        around = lower >= upper  # limits that lie beyond half a turn
        self.lower, self.upper = np.where(around, robot.lower, lower), np.where(around, robot.upper, upper)
        self.collision: SelfCollision | None
        try:
            self.collision = SelfCollision(robot)
        except ConfigurationError:  # missing meshes; the written file states that contact was not checked
            self.collision = None
        self.friction = drafted_friction(robot)
        geared = self.friction.depends_on_load
        model = ArmModel.of(robot)
        # at full stiction, for slower motions have more friction; viscous friction is among the nominal parameters
        additional = self.friction.with_values({"fv": 0.0, "ws": NEVER_RAD_S, "a": 1.0})
        additional = additional if geared else FrictionLaw.of(robot.size, {})
        moving = model_torques(model, nominal_parameters(robot, model), additional)

        def torques(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
            return moving(q, np.where(np.abs(dq) < STILL_RAD_S, 0.0, dq), ddq)

        self.torques = torques if geared else moving
        self.usable = USABLE if geared else 1.0
        self.rng = np.random.default_rng(0)
        self._poses = np.vstack([robot.rest_posture, self.rng.uniform(self.lower, self.upper, (LOOKED_AT, robot.size))])
        self.inertia = self._inertia()
        calm = np.where(turning, *CALM)
        self.velocity = np.minimum(MOTION_SHARE * robot.velocity_limits, calm)
        spare = INERTIAL_SHARE * self._arriving() / self.inertia.max(axis=0)
        self.acceleration = np.minimum(self.velocity / RUN_UP_S, spare)
        limits = robot_limits(robot, 2.0 * self.acceleration)
        self.check = MotionCheck(robot, limits, self.torques, self.collision)
        limits = replace(limits, torque=self.usable * limits.torque)
        self._way_check = MotionCheck(robot, limits, self.torques, self.collision)

    def _arriving(self) -> FloatArray:
        """Return the torque that each joint can deliver to the links when its motor gives the torque limit, (n,) [N m].

        Load-dependent gear friction consumes a part of the motor torque. If friction does not depend on load, the
        result is the torque limit itself.
        """
        limits = self.robot.torque_limits
        if not self.friction.depends_on_load:
            return limits
        return np.asarray(limits**2 / self.friction.starting_torque(limits, 1.0))

    def _inertia(self) -> FloatArray:
        """Return the diagonal of the inertia matrix, including rotors, at K random postures, (K, n).

        Its unit is kg m^2, or kg for a prismatic joint.
        """
        rest, columns = np.zeros_like(self._poses), []
        held = self.torques(self._poses, rest, rest)
        for joint, unit in enumerate(np.eye(self.robot.size)):
            columns.append((self.torques(self._poses, rest, rest + unit) - held)[:, joint])
        return np.maximum(np.array(columns).T, 1e-9)

    def stiction(self) -> FloatArray:
        """Return the largest stiction of each joint over random postures, (n,) [N m].

        Stiction is the difference between the torque that starts a motion and the torque that holds the posture.
        Postures at which the torque to start exceeds `usable` times the torque limit are left out; if none remains, the
        result is 0.
        """
        held, needed = self._starting()
        starts = np.abs(needed) <= self.usable * self.robot.torque_limits
        return np.asarray(np.where(starts, np.abs(needed - held), 0.0).max(axis=(0, 1)))

    def _starting(self) -> tuple[FloatArray, FloatArray]:
        """Return the torques that hold K random postures, and those that start motion from them.

        Returns:
            Holding torques, (K, n) [N m], and starting torques in positive and negative direction, (2, K, n) [N m].
        """
        rest = np.zeros_like(self._poses)
        held = self.torques(self._poses, rest, rest)
        return held, np.array([self.friction.starting_torque(held, sign) for sign in (1.0, -1.0)])

    def _held(self, q: FloatArray) -> bool:
        """Return whether the drives hold a posture q (n,) [rad] with at most `HOLDING_SHARE` of their torque limits."""
        row, rest = q[None], np.zeros((1, len(q)))
        return bool((np.abs(self.torques(row, rest, rest)[0]) <= HOLDING_SHARE * self.robot.torque_limits).all())

    def _allowed(self, a: FloatArray, b: FloatArray) -> bool:
        try:
            way = np.array([a, b])
            self._way_check.check([through("way", self.robot.joint_names, way, self.velocity, self.acceleration)])
        except SafetyError:
            return False
        return True

    def _postures(self, start: FloatArray) -> Iterator[FloatArray]:
        """Yield random postures (n,) [rad] reachable from the previous one, and from which `start` is reachable."""
        at = start
        for _ in range(MOST_TRIED):
            q = self.rng.uniform(self.lower, self.upper)
            if self._held(q) and self._allowed(at, q) and self._allowed(q, start):
                yield q
                at = q

    def waypoints(self, postures: int, in_turn: bool) -> FloatArray:
        """Return waypoints (k, n) [rad, m] of a motion from the rest posture through random postures and back.

        Args:
            postures: number of random postures.
            in_turn: also move each joint in turn at every posture.

        Raises:
            SafetyError: the rest posture, or nearly every motion between postures, exceeds a limit.
        """
        start = self.robot.rest_posture
        if not (self._held(start) and self._allowed(start, start)):
            raise SafetyError(
                f"robot '{self.robot.name}' cannot be held at its rest posture with {HOLDING_SHARE:.0%} of its torque "
                f"limits, or it lies beyond a limit: correct rest_posture or torque limits in robot.yaml{self._weak()}"
            )
        rows, found = [start], 0
        for q in self._postures(start):
            rows.append(q)
            if in_turn:
                rows += self._in_turn(q)
            found += 1
            if found == postures:
                return np.array([*rows, start])
        raise SafetyError(
            f"only {found} of {postures} postures can be reached within the limits of robot '{self.robot.name}': "
            f"look at its torque limits, masses and collision shapes{self._weak()}"
        )

    def _weak(self) -> str:
        """Return a phrase that names the joints whose drives are too weak to start at many postures; '' if none.

        A drive is too weak at a posture if the torque that starts a motion against gravity and friction exceeds the
        share of the torque limit that drafted motions use.
        """
        needed = np.abs(self._starting()[1]).max(axis=0)
        most = self.usable * PLANNED_SHARE * self.robot.torque_limits
        share = (needed > most).mean(axis=0)
        named = [
            f"{self.robot.joint_names[j]} has {most[j]:.3g} of up to {needed[:, j].max():.3g} N m"
            for j in np.flatnonzero(share > WEAK_SHARE)
        ]
        return f"; too little torque for gravity and friction: {', '.join(named)}" if named else ""

    def _in_turn(self, q: FloatArray) -> list[FloatArray]:
        """Return waypoints that move each joint in turn to both sides of a posture q (n,) [rad] and back.

        The other joints move a little at the same time. Motions that exceed a limit are left out.
        """
        rows = []
        for joint in reversed(range(self.robot.size)):
            for side in (1.0, -1.0):
                share = np.full(self.robot.size, OTHERS_SHARE) * self.rng.choice([-1.0, 1.0], self.robot.size)
                share[joint] = side * MAIN_SHARE
                moved = np.clip(q + share * (self.upper - self.lower), self.lower, self.upper)
                if self._allowed(q, moved) and self._allowed(moved, q):  # lifting takes more than lowering
                    rows += [moved, q]
        return rows


def drafted_friction(robot: Robot) -> FrictionLaw:
    """Return the friction law with which the motions of a robot are drafted.

    This is the gear friction of the simulated arm. If the simulated arm has viscous friction only, the law has the
    Coulomb friction that robot.yaml states under `simulation.nuisances`, or zero friction without this entry.
    """
    simulation = robot.file.simulation
    if simulation.friction != VISCOUS:
        return gear_friction(robot, simulation.friction)
    coulomb = 0.0 if simulation.nuisances is None else np.array(simulation.nuisances.coulomb_friction_nm)
    return FrictionLaw.of(robot.size, {"fb": coulomb})


def _first_allowed(robot: Robot, check: MotionCheck, draw: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the first of several random drafts whose complete motions pass the check of all limits.

    Each motion between two postures was checked alone when its postures were drawn. The complete motion passes the
    postures without a stop and has rounded values, so it may deviate from the checked motions.

    Args:
        robot: the robot.
        check: check of motions.
        draw: returns the content of a new random excitation.yaml.

    Raises:
        SafetyError: none of `MOST_DRAFTS` drafts passes (the message is that of the last refusal), or the limits leave
            no room for motion.
    """
    for left in reversed(range(MOST_DRAFTS)):
        content = draw()
        excitation = Excitation(ExcitationFile.model_validate(content), robot)
        try:
            check.check([excitation.trajectory(name) for name in excitation.names])
            break
        except SafetyError:
            if not left:
                raise
    return content


def draft_motions(robot: Robot) -> MotionDraft:
    """Return drafts of a robot's motions for identification and validation, its controller gains and safety settings.

    Raises:
        ConfigurationError: torque limits, rest posture or nominal parameters are missing.
        SafetyError: the limits leave no room for motion.
    """
    drafter = _Drafter(robot)
    sliding = any(robot.prismatic)

    def motion(postures: int, factor: float, in_turn: bool = False) -> dict[str, Any]:
        points = drafter.waypoints(postures, in_turn)
        rows = np.round(points, 4) if sliding else np.round(np.rad2deg(points), 2)
        return {"speed_factor": factor, "waypoints" if sliding else "waypoints_deg": rows.tolist()}

    def content() -> dict[str, Any]:
        return {
            "schema_version": 1,
            "velocity_rad_s": _figures(drafter.velocity),
            "acceleration_rad_s2": _figures(drafter.acceleration),
            "profiles": {"limited": {"about": "within the limits of robot.yaml", "margin_deg": 1.0, "margin_m": 0.002}},
            "trajectories": {
                "in_turn": motion(3, MIDDLE, in_turn=True),
                "slow": motion(4, SLOW),
                "fast": motion(10, FAST),
                "demo_identification": {"concatenate": ["in_turn", "slow", "fast"]},
                "demo_validation": motion(8, MIDDLE),
            },
        }

    drafted = _first_allowed(robot, drafter.check, content)
    contact, viscous = drafter.collision is not None and drafter.collision.pairs > 0, _viscous_friction(robot)
    return MotionDraft(drafted, _gains(robot, drafter, viscous), _hold(robot, drafter, viscous), contact)


def _viscous_friction(robot: Robot) -> list[float]:
    """Return the viscous friction of each axis from the robot's nominal parameters, n values [N m s/rad; N s/m]."""
    file = load_validated(robot.folder / robot.file.simulation.standard_parameters, StandardFile)
    return _figures(np.array([axis.viscous_friction_nm_s_per_rad for axis in file.axes]))


def _hold(robot: Robot, drafter: _Drafter, viscous: list[float]) -> dict[str, Any]:
    """Return the content of safety.yaml: rough inertia and friction of each joint, and the damping for holding.

    When the driver brakes and holds a moving arm, it estimates the load with inertia and friction, see
    `dynid.hardware.safety.hold.DriveEstimate`. The driver applies the damping, so that a braked joint slows down
    with the time constant inertia / damping. The damping is as large as possible with a time constant of at least
    `BRAKING_CYCLES` control cycles at the mean inertia, and of at least `LEAST_BRAKING_CYCLES` control cycles at the
    smallest inertia.
    """
    inertia, cycle_s = drafter.inertia.mean(axis=0), robot.file.bus.cycle_s
    least = drafter.inertia.min(axis=0)
    damping = np.minimum(inertia / BRAKING_CYCLES, least / LEAST_BRAKING_CYCLES) / cycle_s
    nuisances = robot.file.simulation.nuisances
    coulomb = {} if nuisances is None else {"coulomb_friction_nm": list(nuisances.coulomb_friction_nm)}
    return {
        "schema_version": 1,
        "hold_damping_nm_s_rad": _figures(damping),
        "inertia_kg_m2": _figures(inertia),
        "viscous_friction_nm_s_rad": viscous,
        **coulomb,
    }


def _gains(robot: Robot, drafter: _Drafter, viscous: list[float]) -> dict[str, Any]:
    carrying = drafter.stiction() / (STIFFNESS * STUCK_RAD)
    mean = drafter.inertia.mean(axis=0)
    inertia = np.maximum(1.2 * mean, np.minimum(carrying, MOST_INERTIA * mean))
    return {
        "schema_version": 1,
        "proportional_gain_1_s2": [STIFFNESS] * robot.size,
        "velocity_gain_1_s": [40.0] * robot.size,
        "inertia_kg_m2": _figures(inertia),
        "damping_nm_s_rad": viscous,
        "pseudo_differentiation_s": float(np.clip(DIFFERENTIATION_CYCLES * robot.file.bus.cycle_s, *DIFFERENTIATION_S)),
    }


def _figures(values: FloatArray) -> list[float]:
    """Return values rounded to three significant figures."""
    return [float(f"{value:.3g}") for value in values]


def write_motions(robot: Robot, folder: Path) -> MotionDraft:
    """Write drafts of excitation.yaml and controller.yaml into a folder, and of safety.yaml unless it exists.

    The errors of `draft_motions` are raised, too.

    Raises:
        OutputExistsError: excitation.yaml or controller.yaml exists; nothing is written.
    """
    for name in FILES:
        refuse_existing(folder / name)
    draft = draft_motions(robot)
    standard = robot.file.simulation.standard_parameters
    contact = ", and for contact of its links" if draft.contact else "; contact of links was NOT looked for"
    write_whole(folder / FILES[0], HEAD.format(standard=standard, contact=contact) + yaml_text(draft.excitation))
    write_whole(folder / FILES[1], GAINS.format(standard=standard) + yaml_text(draft.controller))
    if not (folder / HOLD_FILE).exists():
        write_whole(folder / HOLD_FILE, HOLD.format(standard=standard) + yaml_text(draft.safety))
    return draft
