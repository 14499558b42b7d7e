"""Accuracy of the payload estimate within the first second of a motion.

Two sets of runs: the simulated arm with random motions and bodies, and randomly drawn arms, each with a model
identified from a motion of its own. The second set tests the confidence intervals, because one arm has only one model
error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

from benchmarks.contact.scenes import PROFILE, Scene, Touched
from benchmarks.studies.drawn_arms import draw_arm
from dynid.errors import DataError, SafetyError
from dynid.robot import Robot
from dynid.simulation.plant.held import holding
from dynid.trajectory.trajectory import through

MASSES_KG = (0.05, 0.1, 0.2)
SEED, SETTLED_S, MOVED_S, SPEED = 4000, 0.3, 1.0, 0.6
INNER, OFFSET_M = 0.6, 0.02
NINETY = 1.6449  # half width of a 90 % interval in standard deviations
ENOUGH_KG = 0.01


@dataclass(frozen=True)
class Weighing:
    """One body and one estimate of it: masses and deviation [kg], and the error of the centre [m]."""

    true_kg: float
    mass_kg: float
    deviation_kg: float
    centre_error_m: float

    @property
    def error_kg(self) -> float:
        """Estimated less true mass [kg]."""
        return self.mass_kg - self.true_kg


def weighed(scene: Scene, mass_kg: float, number: int) -> tuple[Weighing, Weighing]:
    """Return the estimates of the identified and of the nominal model after a second of a motion.

    Raises:
        SafetyError: the arm did not follow.
    """
    random = np.random.default_rng([SEED, number])
    lower, upper = scene.excitation.limits(PROFILE)
    points = 0.5 * (lower + upper) + INNER * random.uniform(-0.5, 0.5, (3, len(lower))) * (upper - lower)
    offset = random.uniform(-OFFSET_M, OFFSET_M, 3)
    scales = scene.scales()
    standard = holding(scene.robot, mass_kg, offset, scene.drawn.standard if scene.drawn else None)
    run = Touched(scene, (), SEED + number, points[0], standard=standard)

    def cycles(seconds: float) -> None:
        for _ in range(round(seconds / run.cycle_s)):
            run.pushed()
            for scale in scales:
                scale.update(run.plant.stamp_ns, run.plant.position.copy(), run.commanded)

    run.start()
    cycles(SETTLED_S)
    fast = scene.excitation.file.velocity_rad_s, scene.excitation.file.acceleration_rad_s2
    velocity, acceleration = np.array(fast[0]), np.array(fast[1])
    way = through("way", scene.robot.joint_names, points, velocity, acceleration, [SPEED, SPEED], 0.0)
    run.motion.begin(way, run.plant.position.copy(), run.plant.stamp_ns)
    while run.motion.phase == "approach":
        cycles(run.cycle_s)
    cycles(MOVED_S)
    centre = np.array(scene.robot.file.tool_m) + offset
    first, second = (
        Weighing(mass_kg, one.mass_kg, one.mass_deviation_kg, float(np.linalg.norm(one.centre_m - centre)))
        for one in (scale.estimate() for scale in scales)
    )
    return first, second


def weighing_figures(found: Sequence[Weighing]) -> dict[str, Any]:
    """Return the figures of one model's estimates; `payload_error_g` is the largest error."""
    error = np.array([one.error_kg for one in found])
    deviation = np.array([one.deviation_kg for one in found])
    inside = np.abs(error) <= NINETY * deviation
    sure = binomtest(int(inside.sum()), len(inside)).proportion_ci(0.9, "exact")
    return {
        "payloads": len(found),
        "payload_error_g": float(1e3 * np.abs(error).max()),
        "payload_rms_g": float(1e3 * np.sqrt(np.mean(error**2))),
        "payload_mean_error_g": float(1e3 * error.mean()),
        "payload_within_10_g_share": float(np.mean(np.abs(error) <= ENOUGH_KG)),
        "payload_in_90_percent_interval_share": float(inside.mean()),
        "payload_in_90_percent_interval_share_between": [float(sure.low), float(sure.high)],
        "payload_deviation_g": float(1e3 * deviation.mean()),
        "payload_centre_error_mm": {
            f"{1e3 * mass:g}": float(1e3 * np.median([one.centre_error_m for one in found if one.true_kg == mass]))
            for mass in sorted({one.true_kg for one in found})
        },
    }


def benchmark_weighing(
    scene: Scene, runs: int, progress: Callable[[str], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the figures with the identified model, and those with the nominal one."""
    found: list[tuple[Weighing, Weighing]] = []
    for place, mass in enumerate(MASSES_KG):
        progress(f"weighing {1e3 * mass:g} g")
        found += [weighed(scene, mass, len(MASSES_KG) * number + place) for number in range(runs)]
    return weighing_figures([one for one, _ in found]), weighing_figures([one for _, one in found])


def benchmark_drawn(robot: Robot, arms: int, first: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """Return the figures of drawn arms that estimate one body of each mass, each with its identified model.

    `arms_left_out` counts those whose model was refused, or that did not follow.
    """
    found: list[Weighing] = []
    left_out = 0
    for seed in range(first, first + arms):
        progress(f"arm {seed}: identifying and weighing")
        try:
            scene = Scene.of(robot, draw_arm(robot, seed))
            own = [weighed(scene, mass, 100 + 3 * seed + k)[0] for k, mass in enumerate(MASSES_KG)]
        except (DataError, SafetyError):
            left_out += 1
            continue
        found += own
    return (weighing_figures(found) if found else {"payloads": 0}) | {"arms": arms, "arms_left_out": left_out}
