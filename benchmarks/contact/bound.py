"""Bounds of contact detection: which pulls any detector could find, and which are hidden from all detectors.

The simulated arm runs twice with the same seed and so with the same noise, and is pulled in one of the two runs. Until
the first reading differs, both runs are identical for every observer that reads them and knows the motor torques. Even
a detector that knew model, noise, place, direction and time of the pull could not separate them. Real detectors know
less, so the share of pulls that change a reading in time is an upper bound for every detector.

That bound assumes that the detector knows the noise itself. `Ideal` knows only what can be known: the simulated arm,
the size of its noise, and time, place, size and direction of the possible pull. It decides whether the pull exists. The
test of two such hypotheses is the ratio of their likelihoods (Neyman and Pearson); the likelihoods are those of
`MotionFilter`, whose noise is normal.

At rest, the largest pull that changes no reading is found by bisection: no estimator separates smaller pulls from none.
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
from dynid.control.sway import STANDSTILL_S
from dynid.model.drive import of_kinds
from dynid.model.model_file import TorqueDeviations
from dynid.model.standard import from_file
from dynid.robot import FloatArray, Robot

SEED, FROM_S, TO_S = 6000, 2.0, 9.0
WATCHED_S = 0.6  # time before a pull in which observers estimate the arm's motion [s]
FALSE_ALARMS_1_S = 1.0 / 600.0  # false-alarm rate of the ideal test: one in ten minutes
KNOWN_NM, EXACT_RAD = 1e-3, 1e-6  # standard deviations of torques and readings of a known arm
LARGEST_N, ROUNDS = 20.0, 7  # upper limit and number of steps of the bisection
Make = Callable[[Scene, int], Touched]


def moving_arm(scene: Scene, number: int) -> Touched:
    """Return an arm at some point of a validation motion."""
    run = Touched(scene, (), SEED + number)
    motion = scene.excitation.trajectory(MOTIONS[number % len(MOTIONS)], PROFILE)
    run.motion.begin(motion, run.plant.measure(), run.plant.stamp_ns)
    run.plant.command(np.zeros(scene.robot.size))
    return _passed(run, float(np.random.default_rng([SEED, number]).uniform(FROM_S, TO_S)))


def still_arm(scene: Scene, number: int, sways: bool = False) -> Touched:
    """Return an arm that is held at a random pose, or that sways about it."""
    lower, upper = scene.excitation.limits(PROFILE)
    share = np.random.default_rng([SEED, number]).uniform(-0.5, 0.5, len(lower))
    q0 = 0.5 * (lower + upper) + INNER * share * (upper - lower)
    run = Touched(scene, (), SEED + number, q0, sways=sways)
    run.start()
    return _passed(run, SETTLED_S + STANDSTILL_S * sways)


def swaying_arm(scene: Scene, number: int) -> Touched:
    """Return an arm that sways about a random pose."""
    return still_arm(scene, number, sways=True)


MADE: dict[str, Make] = {"moving": moving_arm, "still": still_arm, "swaying": swaying_arm}


def _passed(run: Touched, seconds: float) -> Touched:
    for _ in range(round(seconds / run.cycle_s)):
        run.cycle()
    return run


def positions(run: Touched) -> FloatArray:
    """Return the last readings of the encoders, (n,) [rad]."""
    return run.plant.position


def registers(run: Touched) -> FloatArray:
    """Return the last readings of encoders and velocity registers, (2 n,); current readings add only noise."""
    return np.concatenate([run.plant.position, run.plant.velocity])


def first_difference_ms(
    make: Callable[[], Touched], force: FloatArray, longest_ms: int, seen: Callable[[Touched], FloatArray] = positions
) -> float:
    """Return the time until a reading of a pulled arm first differs from its twin's [ms]; infinite if it never does."""
    pulled, twin = make(), make()
    for passed in range(longest_ms + 1):
        pulled.cycle(force)
        twin.cycle()
        if (seen(pulled) != seen(twin)).any():
            return float(passed)  # the pull acts from the first of these readings on
    return float("inf")


def hidden_n(make: Callable[[], Touched], direction: FloatArray, longest_ms: int) -> float:
    """Return the largest pull [N] in a direction (3,) that changes no encoder reading within `longest_ms`.

    The search bisects up to `LARGEST_N`; if several sizes are limits, it returns one of them.
    """
    low, high = 0.0, LARGEST_N
    for _ in range(ROUNDS):
        size = 0.5 * (low + high)
        low, high = (
            (low, size) if np.isfinite(first_difference_ms(make, size * direction, longest_ms)) else (size, high)
        )
    return low


def least_rms_n(hidden: Sequence[float]) -> float:
    """Return the least possible RMS error [N] over pulls of all sizes, at places that each hide pulls up to a size [N].

    If no reading changes, an estimator that reports no contact for the free arm reports none for the pulled arm, so its
    error is the whole pull. All other pulls are assumed to be known exactly.
    """
    return float(np.sqrt(np.mean([size**2 * (size <= one) for size in FORCES_N for one in hidden])))


class Ideal:
    """Likelihood-ratio test of an expected pull by an observer that knows the simulated arm.

    Args:
        run: the arm; it is read in even cycles, whatever its timestamps are.

    Attributes:
        deviations: statistic of the test, which is standard normal without a pull.
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
        """Start the test of a force (3,) [N] that may pull at the tool from the last reading on."""
        self._force = force

    def update(self) -> None:
        """Update the test after a cycle of the run."""
        self._motion.update(self._run.cycle_s, np.array(self._run.plant.position), self._run.commanded)
        if self._force.any():
            self._signature, out = self._motion.propagate_signatures(
                self._signature, (self._motion.J.T @ self._force)[:, None]
            )
            self._score += float(out[:, 0] @ out[:, 1])
            self._information += float(out[:, 0] @ out[:, 0])

    @property
    def deviations(self) -> float:
        """Statistic d / sqrt(I); the logarithm of the likelihood ratio is d - I / 2."""
        return self._score / np.sqrt(self._information) if self._information > 0.0 else 0.0


@dataclass(frozen=True)
class Compared:
    """Times [ms] from a pull to a change of a position and of any register, and to its detection; infinite without one.

    The detections are those of the ideal test and of dynid. `null` is the ideal test's statistic at the end for the
    twin, which nothing pulls [1].
    """

    position_ms: float
    register_ms: float
    ideal_ms: float
    dynid_ms: float
    null: float


def ideal_bound() -> float:
    """Return the threshold of the ideal test: one false alarm in ten minutes of tests that last `SOON_MS` each."""
    return float(norm.isf(FALSE_ALARMS_1_S * SOON_MS * 1e-3))


def compared(scene: Scene, make: Make, number: int, force: FloatArray) -> Compared:
    """Pull an arm but not its twin by (3,) [N] for the permitted detection time, and return the times of detection."""
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
    """Return bounds for every detector and estimator, from `places` pulls of each kind of arm.

    By state: `bound_detect_...`, share of the smallest pulls that change a position in time; `..._registers_...`, or a
    velocity register; `ideal_detect_...`, share that the ideal test finds; `same_pulls_detect_...`, share that dynid
    finds.
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
