"""Whether an arm under gravity compensation stays where it is put, and moves when a hand pushes it.

The simulated arm makes its identification motion, a model is identified from the recording, and the arm is released
under gravity compensation with this model at random postures. A push of twice a joint's stiction must move that joint.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynid.control.arm_controller import ArmController
from dynid.control.control_model import ControlModel, ModelGate, from_model_file
from dynid.control.model_laws import GravityCompensation
from dynid.control.motion import MotionExecutor
from dynid.control.self_collision import SelfCollision
from dynid.demo.bench import Bench, identified, make_bench
from dynid.errors import DataError
from dynid.robot import FloatArray, Robot
from dynid.simulation.lockstep.stepped_arm import SteppedArm
from dynid.simulation.plant.arm import ArmPlant

MARGIN_RAD = 0.4  # distance of the postures from the joint limits, so that a pushed joint stays within them
HOLDING_SHARE = 0.8  # share of the torque limits that may be needed to start a motion from a posture
MOST_DRAWN = 2000
PUSH_OF_STICTION, MOVED_RAD = 2.0, np.deg2rad(1.0)
ALONE_S = 2.0  # time after a release before a hand pushes
MOST_DRIFT_DEG, LONGEST_PUSH_S = 1.0, 3.0


@dataclass(frozen=True)
class Rest:
    """Released arm at one posture.

    Attributes:
        posture_deg: the posture, n values [deg].
        drift_deg: largest distance of a joint from its released position [deg].
        drifting: name of that joint.
        push_s: time that the slowest pushed joint took to move by 1 deg [s]; infinity if it did not within
            `LONGEST_PUSH_S`.
        slowest: name of that joint.
        push_nm: push on that joint [N m].
        held: why the released arm was held again instead of guided; "" if it was not.
    """

    posture_deg: tuple[float, ...]
    drift_deg: float
    drifting: str
    push_s: float
    slowest: str
    push_nm: float
    held: str


@dataclass(frozen=True)
class ArmAtRest:
    """Results of one robot: its name, and one `Rest` per posture."""

    robot: str
    rests: tuple[Rest, ...]

    @property
    def drift_deg(self) -> float:
        """Largest drift [deg]."""
        return max(one.drift_deg for one in self.rests)

    @property
    def push_s(self) -> float:
        """Longest time of a push that moves a joint by 1 deg [s]."""
        return max(one.push_s for one in self.rests)

    def as_dict(self) -> dict[str, Any]:
        """Return all figures as plain values; the time of a push that moves nothing is None."""
        rows = [asdict(one) | {"push_s": _finite(one.push_s)} for one in self.rests]
        return {"robot": self.robot, "drift_deg": self.drift_deg, "push_s": _finite(self.push_s), "postures": rows}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def postures(bench: Bench, count: int) -> list[FloatArray]:
    """Return random postures (n,) [rad] that the drives can leave in both directions, and where no links touch.

    Raises:
        DataError: there are too few such postures.
    """
    robot, found = bench.robot, []
    rng, collision = np.random.default_rng([bench.seed, count]), SelfCollision(robot)
    margin = np.minimum(MARGIN_RAD, 0.25 * (robot.upper - robot.lower))
    for _ in range(MOST_DRAWN):
        q = rng.uniform(robot.lower + margin, robot.upper - margin)
        plant = ArmPlant(robot, mount=bench.mount, seed=bench.seed, q0=q)
        needed = np.array([plant.friction.starting_torque(plant.load, sign) for sign in (1.0, -1.0)])
        if (np.abs(needed) <= HOLDING_SHARE * robot.torque_limits).all() and collision.contact_at(q) is None:
            found.append(q)
        if len(found) == count:
            return found
    raise DataError(f"only {len(found)} of {count} postures of robot '{robot.name}' can be held by its drives")


class ReleasedArm:
    """Simulated arm under gravity compensation, released at a posture.

    Args:
        bench: the robot, with controller settings and compiled dynamics.
        model: the identified model.
        posture: start posture, (n,) [rad].
        number: number of the posture, which varies the noise.
    """

    def __init__(self, bench: Bench, model: ControlModel, posture: FloatArray, number: int) -> None:
        robot, settings = bench.robot, bench.settings
        self.arm = SteppedArm(robot, mount=bench.mount, seed=bench.seed + number, q0=posture)
        law = GravityCompensation(model, bench.dynamics, settings.friction_share)
        self._motion = MotionExecutor(robot, ArmController(law, settings.pseudo_differentiation_s, robot.size))
        self._motion.hold(self.arm.measure(), self.arm.stamp_ns)

    @property
    def held(self) -> str:
        """Why hand guiding was interrupted, or ""."""
        return self._motion.guiding.held

    def stiction(self) -> FloatArray:
        """Return the stiction of each joint under its present load, (n,) [N m]."""
        plant = self.arm.plant
        return np.asarray(plant.friction.budget(np.zeros(plant.robot.size), -plant.load, plant.load))

    def path(self, seconds: float, push: FloatArray | None = None) -> Iterator[FloatArray]:
        """Let time pass; yield the joint angles (n,) [rad] after each cycle.

        Args:
            seconds: how long [s].
            push: torque of the hand on each joint, (n,) [N m]; None is zero.
        """
        for _ in range(round(seconds / self.arm.robot.file.bus.cycle_s)):
            self.arm.follow(self._motion, push)
            yield self.arm.plant.q.copy()

    def wait(self, seconds: float) -> FloatArray:
        """Let time pass; return the largest displacement of each joint, (n,) [rad]."""
        begin = self.arm.plant.q.copy()
        return np.asarray(np.abs(np.array(list(self.path(seconds))) - begin).max(axis=0))

    def push(self, torque: FloatArray) -> float:
        """Push until a joint has moved by `MOVED_RAD`; return the time that it took [s], infinity if it did not.

        Args:
            torque: torque of the hand on the pushed joint, and zero on the others, (n,) [N m].
        """
        begin, joint = self.arm.plant.q.copy(), int(np.abs(torque).argmax())
        for cycle, q in enumerate(self.path(LONGEST_PUSH_S, torque), 1):
            if np.sign(torque[joint]) * (q[joint] - begin[joint]) >= MOVED_RAD:
                return cycle * self.arm.robot.file.bus.cycle_s
        return np.inf


def rest_at(bench: Bench, model: ControlModel, posture: FloatArray, number: int, seconds: float) -> Rest:
    """Release the arm at a posture (n,) [rad] for a time, then push each joint in turn towards the middle of its range.

    Args:
        bench: the robot, with controller settings and compiled dynamics.
        model: the identified model.
        posture: the posture.
        number: number of the posture.
        seconds: time for which the released arm is watched [s].
    """
    robot = bench.robot
    released = ReleasedArm(bench, model, posture, number)
    drift, held = np.rad2deg(released.wait(seconds)), released.held
    took_s, pushes = np.array([push_at(bench, model, posture, number, joint) for joint in range(robot.size)]).T
    names, most, last = robot.joint_names, int(drift.argmax()), int(took_s.argmax())
    moved = float(drift[most]), names[most], float(took_s[last]), names[last], float(pushes[last])
    return Rest(tuple(np.rad2deg(posture).round(1).tolist()), *moved, held)


def push_at(bench: Bench, model: ControlModel, posture: FloatArray, number: int, joint: int) -> tuple[float, float]:
    """Release the arm anew at a posture (n,) [rad], and push one joint towards the middle of its range.

    The push begins after the time in which a released arm must stand by itself.

    Returns:
        Time that the joint took to move by 1 deg [s], and the push [N m].
    """
    robot, released = bench.robot, ReleasedArm(bench, model, posture, number)
    released.wait(ALONE_S)
    side = np.sign(0.5 * (robot.lower + robot.upper) - posture)[joint] or 1.0
    push = PUSH_OF_STICTION * released.stiction()[joint]
    return released.push(side * push * np.eye(robot.size)[joint]), float(push)


def at_rest(robot: Robot, work: Path, count: int, seconds: float, seed: int) -> ArmAtRest:
    """Identify a robot's simulated arm, and release it at random postures.

    Args:
        robot: the robot.
        work: empty folder for its recording.
        count: number of postures.
        seconds: time for which the released arm is watched at each [s].
        seed: seed of noise and postures.

    Raises:
        DataError: no model was accepted, or too few postures can be held.
    """
    bench = make_bench(robot, None, seed)
    model = from_model_file(identified(bench, work), bench.arm)
    ModelGate(robot, bench.arm).check(model)
    chosen = enumerate(postures(bench, count))
    return ArmAtRest(robot.name, tuple(rest_at(bench, model, q, number, seconds) for number, q in chosen))


def all_at_rest(
    robots: Sequence[Robot], work: Path, count: int, seconds: float, seed: int, begin: Callable[[str], None]
) -> Iterator[ArmAtRest]:
    """Yield the results of several robots; `begin` is called with the name of each."""
    for robot in robots:
        begin(robot.name)
        folder = Path(tempfile.mkdtemp(dir=work))
        yield at_rest(robot, folder, count, seconds, seed)


def missed(found: Sequence[ArmAtRest]) -> list[str]:
    """Return a sentence for each drift above its limit and each joint that a push did not move."""
    sentences = []
    for arm in found:
        for one in arm.rests:
            if not one.drift_deg < MOST_DRIFT_DEG:
                sentences.append(f"{arm.robot}: {one.drifting} drifts by {one.drift_deg:.2f} deg at {one.posture_deg}")
            if one.held:
                sentences.append(f"{arm.robot}: the arm was held at {one.posture_deg}: {one.held}")
            if not one.push_s <= LONGEST_PUSH_S:
                sentences.append(f"{arm.robot}: {one.push_nm:.3f} N m do not move {one.slowest} at {one.posture_deg}")
    return sentences
