"""What any detector could find of a pull, and what hides from all of them.

The simulated arm runs twice with the same seed, so with the same noise, and is pulled in one of the two runs. Until the
first reading differs, both runs look the same to whatever reads them and knows the motor torques; even a detector that
knew model, noise, place, direction and instant of the pull could not separate them. Real detectors know less, so the
share of pulls that change a reading in time is an upper bound for every detector.

That bound lets the detector know the noise itself. `Ideal` knows what can be known: the arm as it is simulated, how
large its noise is, and when, where, how strongly and in which direction it is pulled, so that all that is left to
decide is whether it is. The test of two such hypotheses is the ratio of their likelihoods (Neyman and Pearson); the
likelihoods are those of `MotionFilter`, whose noise is normal.

At rest, the largest pull that changes no reading is found by bisection: no estimator separates smaller ones from none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks.contact.feeling import FORCES_N, INNER, JUDGED_S, MOTIONS, PULL_S, SETTLED_S, SOON_MS, directions
from benchmarks.contact.scenes import PROFILE, Scene, Touched
from dynid.contact.motion_filter import MotionFilter
from dynid.control.control_model import ControlModel
from dynid.control.sway import STOOD_S
from dynid.model.drive import of_kinds
from dynid.model.model_file import TorqueDeviations
from dynid.model.standard import from_file
from dynid.robot import FloatArray, Robot

SEED, FROM_S, TO_S = 6000, 2.0, 9.0
WATCHED_S = 0.6  # before a pull, in which observers find the arm's motion
FALSE_ALARMS_1_S = 1.0 / 600.0  # of the ideal test: one in ten minutes
KNOWN_NM, EXACT_RAD = 1e-3, 1e-6  # deviations of torques and readings of an arm that is known
LARGEST_N, ROUNDS = 20.0, 7  # of the bisection
Make = Callable[[Scene, int], Touched]


def moving_arm(scene: Scene, number: int) -> Touched:
    """An arm somewhere in a validation motion."""
    run = Touched(scene, (), SEED + number)
    motion = scene.excitation.trajectory(MOTIONS[number % len(MOTIONS)], PROFILE)
    run.motion.begin(motion, run.plant.measure(), run.plant.stamp_ns)
    run.plant.command(np.zeros(scene.robot.size))
    return _passed(run, float(np.random.default_rng([SEED, number]).uniform(FROM_S, TO_S)))


def still_arm(scene: Scene, number: int, sways: bool = False) -> Touched:
    """An arm that is held at a random pose, or sways about it."""
    lower, upper = scene.excitation.limits(PROFILE)
    share = np.random.default_rng([SEED, number]).uniform(-0.5, 0.5, len(lower))
    q0 = 0.5 * (lower + upper) + INNER * share * (upper - lower)
    run = Touched(scene, (), SEED + number, q0, sways=sways)
    run.start()
    return _passed(run, SETTLED_S + STOOD_S * sways)


def swaying_arm(scene: Scene, number: int) -> Touched:
    """An arm that sways about a random pose."""
    return still_arm(scene, number, sways=True)


MADE: dict[str, Make] = {"moving": moving_arm, "still": still_arm, "swaying": swaying_arm}


def _passed(run: Touched, seconds: float) -> Touched:
    for _ in range(round(seconds / run.cycle_s)):
        run.cycle()
    return run


def positions(run: Touched) -> FloatArray:
    """What the encoders said last, (n,) [rad]."""
    return run.plant.position


def registers(run: Touched) -> FloatArray:
    """What encoders and velocity registers said last, (2 n,); currents are those that were sent, and their noise."""
    return np.concatenate([run.plant.position, run.plant.velocity])


def first_difference_ms(
    make: Callable[[], Touched], force: FloatArray, longest_ms: int, seen: Callable[[Touched], FloatArray] = positions
) -> float:
    """After how long the first reading of a pulled arm differs from that of its twin [ms]; infinite if none does."""
    pulled, twin = make(), make()
    for passed in range(longest_ms + 1):
        pulled.cycle(force)
        twin.cycle()
        if (seen(pulled) != seen(twin)).any():
            return float(passed)  # the pull acts from the first of these readings on
    return float("inf")


def hidden_n(make: Callable[[], Touched], direction: FloatArray, longest_ms: int) -> float:
    """The largest pull [N] in a direction (3,) that changes no reading of an encoder so long.

    By bisection up to `LARGEST_N`: of several such sizes, one.
    """
    low, high = 0.0, LARGEST_N
    for _ in range(ROUNDS):
        size = 0.5 * (low + high)
        low, high = (
            (low, size) if np.isfinite(first_difference_ms(make, size * direction, longest_ms)) else (size, high)
        )
    return low


def least_rms_n(hidden: Sequence[float]) -> float:
    """Least RMS error [N] over pulls of all sizes, of places that each hide pulls up to a size [N].

    If no reading changes, the pulled arm cannot be distinguished from one without contact, and the error is the whole
    pull. Here the others are taken to be known exactly.
    """
    return float(np.sqrt(np.mean([size**2 * (size <= one) for size in FORCES_N for one in hidden])))


class Ideal:
    """The likelihood ratio of a pull that an observer expects, who knows the simulated arm.

    Args:
        run: the arm; read in even cycles, whatever its stamps say.

    Attributes:
        deviations: the test's statistic, which is standard normal where nothing pulls.
    """

    def __init__(self, run: Touched) -> None:
        plant, arm, robot = run.plant.plant, run.scene.arm, run.scene.robot
        nuisances, simulation = robot.nuisances.model_copy(update={"stamp_jitter_s": 0.0}), robot.file.simulation
        file = robot.file.model_copy(update={"simulation": simulation.model_copy(update={"nuisances": nuisances})})
        phi = of_kinds(arm.base_parameters(from_file(plant.standard, arm.mdh)), ("FV",), others=True)
        warm = 1.0 - plant.nuisances.warm_up_share * (1.0 - np.exp(-plant.time_s / plant.nuisances.warm_up_time_s))
        true = ControlModel(robot.name, arm.structure_hash, phi, plant.friction.scaled(float(warm)), True)
        known = TorqueDeviations(speeds_rad_s=(0.1,), deviations_nm=((KNOWN_NM,) * robot.size,) * 2)
        self._motion = MotionFilter(
            Robot(file, robot.folder), arm, true, known, run.scene.torque_delay_s, reading_rad=EXACT_RAD
        )
        self._motion.reset(np.array(run.plant.position), np.array(plant.dq))
        self._run, self._force = run, np.zeros(3)
        self._signature, self._score, self._information = np.zeros((len(self._motion.x), 1)), 0.0, 0.0

    def expect(self, force: FloatArray) -> None:
        """From the last reading on a force (3,) [N] may pull at the tool."""
        self._force = force

    def update(self) -> None:
        """After each cycle of the run."""
        self._motion.update(self._run.cycle_s, np.array(self._run.plant.position), self._run.commanded)
        if self._force.any():
            self._signature, out = self._motion.carry(self._signature, (self._motion.J.T @ self._force)[:, None])
            self._score += float(out[:, 0] @ out[:, 1])
            self._information += float(out[:, 0] @ out[:, 0])

    @property
    def deviations(self) -> float:
        """d / sqrt(I); the logarithm of the likelihood ratio is d - I / 2."""
        return self._score / np.sqrt(self._information) if self._information > 0.0 else 0.0


@dataclass(frozen=True)
class Compared:
    """When [ms] a pull changed a position, or any register; when the ideal test and dynid found it; infinite if not.

    `null` is the ideal test's statistic for the same pull of the twin, which nothing pulls, at the end [1].
    """

    position_ms: float
    register_ms: float
    ideal_ms: float
    dynid_ms: float
    null: float


def ideal_bound() -> float:
    """What the ideal test's statistic exceeds: one false alarm in ten minutes of tests of `SOON_MS` each."""
    return float(norm.isf(FALSE_ALARMS_1_S * SOON_MS * 1e-3))


def compared(scene: Scene, make: Make, number: int, force: FloatArray) -> Compared:
    """One pull (3,) [N] at an arm and its twin, for as long as is allowed to find it."""
    pulled, twin, sense = make(scene, number), make(scene, number), scene.sense(scene.identified)
    pulled.senses = [sense]
    pairs = [(run, Ideal(run)) for run in (pulled, twin)]
    for _ in range(round(WATCHED_S / pulled.cycle_s)):
        for run, ideal in pairs:
            run.cycle()
            ideal.update()
    position = register = found = felt = np.inf
    before = sense.contact
    for passed in range(round(SOON_MS) + 1):
        for run, ideal in pairs:
            run.cycle(force if run is pulled else None)
            ideal.update()
            if passed == 0:
                ideal.expect(force)  # it acts from this reading on
        before &= sense.contact
        position = min(position, passed if (positions(pulled) != positions(twin)).any() else np.inf)
        register = min(register, passed if (registers(pulled) != registers(twin)).any() else np.inf)
        found = min(found, passed if pairs[0][1].deviations > ideal_bound() else np.inf)
        felt = min(felt, passed if sense.contact and not before else np.inf)
    return Compared(position, register, found, felt, pairs[1][1].deviations)


def benchmark_bound(scene: Scene, places: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """What no detector and no estimator could do better, with a number of pulls of each kind of arm.

    By state: `bound_detect_...`, share of the smallest pulls that change a position in time; `..._registers_...`, or a
    velocity register; `ideal_detect_...`, share that the ideal test finds; `same_pulls_detect_...`, that dynid does.
    """
    figures: dict[str, Any] = {}
    null: list[float] = []
    for state, make in MADE.items():
        progress(f"what could be known of pulls, {state}")
        forces = directions(FORCES_N[0])
        rows = [compared(scene, make, number, next(forces)) for number in range(places)]
        for key, values in (
            ("bound_detect", [row.position_ms for row in rows]),
            ("bound_detect_registers", [row.register_ms for row in rows]),
            ("ideal_detect", [row.ideal_ms for row in rows]),
            ("same_pulls_detect", [row.dynid_ms for row in rows]),
        ):
            figures[f"{key}_{state}"] = float(np.mean(np.array(values) <= SOON_MS))
        null += [row.null for row in rows]
    figures["ideal_null_deviations"] = float(np.sqrt(np.mean(np.square(null))))
    progress("looking for pulls that no encoder shows")
    ways, whole_ms = directions(1.0), round(1e3 * (PULL_S + JUDGED_S))
    hidden = [
        hidden_n(lambda number=number: still_arm(scene, number), next(ways), whole_ms)  # type: ignore[misc]
        for number in range(places)
    ]
    figures["bound_hidden_still_n"] = {"median": float(np.median(hidden)), "largest": float(np.max(hidden))}
    return figures | {"bound_force_still_n": least_rms_n(hidden)}
