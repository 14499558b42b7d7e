"""Simulated arm that contact must stop: random cases, and the arm one cycle at a time.

Sense, executor and stop run as the nodes have them: estimates arrive late by some cycles.
"""

from collections import deque
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.contact.feeling import MOTIONS
from benchmarks.contact.scenes import PROFILE, Scene, Touched
from dynid.contact.contact_report import ContactReport
from dynid.contact.contact_sense import ContactSense
from dynid.contact.payload import with_payload
from dynid.contact.shared_sense import SharedSense
from dynid.contact.stop import ContactStop
from dynid.control.control_model import ControlModel
from dynid.control.model_laws import ComputedTorque
from dynid.errors import SafetyError
from dynid.model.standard import LinkInertia, from_link_frame
from dynid.robot import FloatArray, Robot, load_robot
from dynid.simulation.plant.held import CUBE_M, HeldBody, holding

IN_MOTION, IN_PUSH, AT_REST = "hit while it moves", "hit while it is pushed", "hit at rest, then a goal"
SILENT, TAKEN = "estimates stop arriving", "payload picked up and known, then hit"
CAUSES = (IN_MOTION, IN_PUSH, AT_REST, SILENT, TAKEN)
HEAVIEST_KG, OFFSET_M = 0.3, 0.02
HIT_N, PUSH_N = (15.0, 30.0), (3.0, 8.0)
SAID_EVERY, MOST_LATE = 10, 4  # cycles between two estimates, and largest delay of one
BEFORE, AFTER = "before", "after"  # names of the models that the executor shares


@dataclass(frozen=True)
class Touch:
    """Random case of a contact.

    Attributes:
        cause: a name of `CAUSES`.
        seed: seed of all random values.
        payload_kg: mass in the hand, which the executor's model contains.
        hit, push: forces at the tool in the base link, (3,) [N].
        at_s: time of the contact from the beginning of the motion [s].
    """

    cause: str
    seed: int
    payload_kg: float
    hit: tuple[float, ...]
    push: tuple[float, ...]
    at_s: float


@cache
def scene_of(robot: str) -> Scene:
    """Return the data that all cases of a robot need; they are made once in a process."""
    return Scene.of(load_robot(robot))


def draw(index: int, seed: int = 0) -> Touch:
    """Return the random case with this number."""
    random = np.random.default_rng([seed, index, 4])
    cause = CAUSES[index % len(CAUSES)]
    payload = float(random.uniform(0.05, HEAVIEST_KG)) if cause == TAKEN or random.random() < 0.8 else 0.0
    hit, push = (_force(random, *sizes) for sizes in (HIT_N, PUSH_N))
    return Touch(cause, index, payload, hit, push if cause == IN_PUSH else (0.0, 0.0, 0.0), random.uniform(1.5, 4.5))


def _force(random: np.random.Generator, least_n: float, most_n: float) -> tuple[float, ...]:
    way = random.normal(size=3)
    return tuple((random.uniform(least_n, most_n) * way / np.linalg.norm(way)).tolist())


def body_of(robot: Robot, scene: Scene, mass_kg: float, offset_m: FloatArray) -> FloatArray:
    """Return the parameters (10,) of the cube of `holding` in the last modified DH frame."""
    cube = LinkInertia(mass_kg, np.array(robot.file.tool_m) + offset_m, mass_kg * CUBE_M**2 / 6.0 * np.eye(3))
    return from_link_frame(cube, scene.arm.mdh.in_link[-1])


class StoppableArm:
    """Arm with executor, contact detection and stop, one cycle at a time; estimates are delayed as between processes.

    Args:
        scene: data of the robot.
        touch: case to run.
        stops: whether contact must stop the arm.
    """

    def __init__(self, scene: Scene, touch: Touch, *, stops: bool = True) -> None:
        robot, random = scene.robot, np.random.default_rng([touch.seed, 41])
        self.scene, self.touch, self._random = scene, touch, random
        offset = random.uniform(-OFFSET_M, OFFSET_M, 3) if touch.cause != TAKEN else np.zeros(3)
        self._body = body_of(robot, scene, touch.payload_kg, offset)
        held = touch.payload_kg > 0.0 and touch.cause != TAKEN
        standard = holding(robot, touch.payload_kg, offset) if held else None
        self._law = ComputedTorque(scene.settings, self._model(held), scene.dynamics)
        self.run = Touched(scene, (), 7000 + touch.seed, standard=standard, law=self._law)
        self.sense, self._told_model = SharedSense(self._sense(held)), BEFORE
        self._taken = HeldBody(self.run.plant.plant, touch.payload_kg) if touch.cause == TAKEN else None
        self.stop = ContactStop(self.run.motion)
        self.stop.enabled = stops
        self.stop.expect(BEFORE)
        self.said, self._felt, self._cycles = "", False, 0
        self._on_their_way: deque[tuple[int, ContactReport]] = deque()
        self.silent = False
        self.motion = scene.excitation.trajectory(MOTIONS[touch.seed % len(MOTIONS)], PROFILE)
        self.run.start()

    def _model(self, held: bool) -> ControlModel:
        scene = self.scene
        return with_payload(scene.arm, scene.identified, self._body) if held else scene.identified

    def _sense(self, held: bool) -> ContactSense:
        scene = self.scene
        deviations, delay_s = scene.file.torque_deviations, scene.torque_delay_s
        return ContactSense(scene.robot, scene.arm, self._model(held), deviations, torque_delay_s=delay_s)

    @property
    def time_s(self) -> float:
        """Simulated time [s]."""
        return self.run.time_s

    @property
    def moves(self) -> bool:
        """Whether a motion is under way that is not being braked."""
        return self.run.motion.moving and self.run.motion.phase != "cancelled"

    def take_up(self) -> None:
        """Put the body into the hand, and update the executor's model at once."""
        assert self._taken is not None
        self._taken.take()
        scene, motion = self.scene, self.run.motion
        motion.switch_to(ComputedTorque(scene.settings, self._model(True), scene.dynamics))
        self.stop.expect(AFTER)
        self._told_model = AFTER
        self.sense.follow(self._sense(True))

    def goal(self) -> str:
        """Request the motion; return the reason of a refusal, "" if it begins."""
        stamp_ns = self.run.plant.stamp_ns
        try:
            self.stop.refuse(stamp_ns)
            self.run.motion.begin(self.motion, self.run.plant.position.copy(), stamp_ns)
        except SafetyError as error:
            return str(error)
        return ""

    def cycle(self, force: FloatArray | None = None) -> str:
        """Run one cycle with a force (3,) [N] at the tool; return why a motion was stopped, or ""."""
        while self._on_their_way and self._on_their_way[0][0] <= self._cycles:
            self.stop.receive(self._on_their_way.popleft()[1])
        why = self.stop.watch(self.run.plant.stamp_ns)
        try:
            self.run.cycle(force)
        except SafetyError as error:  # the executor stopped the motion itself: too far from the reference
            why = why or str(error)
        self._feel()
        self._cycles += 1
        return why

    def _feel(self) -> None:
        plant = self.run.plant
        most = self.scene.robot.torque_limits
        in_force = np.clip(self.run.commanded, -most, most)  # currents as the driver reports them after writing
        felt = self.sense.update(plant.stamp_ns, plant.position.copy(), in_force)
        if self.silent or self.sense.judged_ns < 0 or not (felt != self._felt or self._cycles % SAID_EVERY == 0):
            return
        self._felt = felt
        late = self._cycles + int(self._random.integers(1, MOST_LATE + 1))
        if self._on_their_way:
            late = max(late, self._on_their_way[-1][0])
        name = self.scene.robot.joint_names[0]
        report = ContactReport(
            stamp_ns=self.sense.judged_ns,
            contact=felt,
            joint=name,
            torque_nm=0.0,
            threshold_nm=0.0,
            force_n=0.0,
            model=self._told_model,
        )
        self._on_their_way.append((late, report))
