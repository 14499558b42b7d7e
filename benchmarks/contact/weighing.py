"""How exactly the simulated arm weighs what it holds within the first second of a motion."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.contact.scenes import PROFILE, Scene, Touched
from dynid.contact.payload import PayloadEstimator
from dynid.simulation.plant.held import holding
from dynid.trajectory.trajectory import through

MASSES_KG = (0.05, 0.1, 0.2)
SEED, SETTLED_S, MOVED_S, SPEED = 4000, 0.3, 1.0, 0.6
INNER, OFFSET_M = 0.6, 0.02
NINETY = 1.6449  # deviations


def weighed(scene: Scene, mass_kg: float, number: int) -> list[tuple[float, float, float]]:
    """Mass [kg], its deviation [kg] and the error of the centre [m] after a second, by both models."""
    random = np.random.default_rng([SEED, number])
    lower, upper = scene.excitation.limits(PROFILE)
    points = 0.5 * (lower + upper) + INNER * random.uniform(-0.5, 0.5, (3, len(lower))) * (upper - lower)
    offset = random.uniform(-OFFSET_M, OFFSET_M, 3)
    senses = scene.senses()
    run = Touched(scene, senses, SEED + number, points[0], standard=holding(scene.robot, mass_kg, offset))
    scales = [PayloadEstimator(scene.robot, scene.arm, sense.observer, sense.bars) for sense in senses]
    run.start()
    for _ in range(round(SETTLED_S / run.cycle_s)):
        run.pushed()
    fast = scene.excitation.file.velocity_rad_s, scene.excitation.file.acceleration_rad_s2
    velocity, acceleration = np.array(fast[0]), np.array(fast[1])
    way = through("way", scene.robot.joint_names, points, velocity, acceleration, [SPEED, SPEED], 0.0)
    run.motion.begin(way, run.plant.position.copy(), run.plant.stamp_ns)
    while run.motion.phase == "approach":
        run.pushed()
    for _ in range(round(MOVED_S / run.cycle_s)):
        run.pushed()
        for scale in scales:
            scale.update(run.plant.stamp_ns, run.plant.position)
    found = [scale.estimate() for scale in scales]
    centre = np.array(scene.robot.file.tool_m) + offset
    return [(one.mass_kg, one.mass_deviation_kg, float(np.linalg.norm(one.centre_m - centre))) for one in found]


def benchmark_weighing(
    scene: Scene, runs: int, progress: Callable[[str], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures with the identified model, and with the nominal one; `payload_error_g` is the largest error."""
    rows: dict[float, list[list[tuple[float, float, float]]]] = {}
    for mass in MASSES_KG:
        progress(f"weighing {1e3 * mass:g} g")
        rows[mass] = [weighed(scene, mass, number) for number in range(runs)]
    both = []
    for which in (0, 1):
        errors = {mass: np.array([row[which][0] - mass for row in own]) for mass, own in rows.items()}
        spread = {mass: np.array([row[which][1] for row in own]) for mass, own in rows.items()}
        held = np.concatenate([np.abs(errors[mass]) <= NINETY * spread[mass] for mass in rows])
        every = np.concatenate(list(errors.values()))
        both.append(
            {
                "payload_error_g": float(1e3 * np.abs(every).max()),
                "payload_rms_g": float(1e3 * np.sqrt(np.mean(every**2))),
                "payload_within_10_g_share": float(np.mean(np.abs(every) <= 0.01)),
                "payload_in_90_percent_interval_share": float(held.mean()),
                "payload_deviation_g": float(1e3 * np.mean(np.concatenate(list(spread.values())))),
                "payload_centre_error_mm": {
                    f"{1e3 * mass:g}": float(1e3 * np.median([row[which][2] for row in own]))
                    for mass, own in rows.items()
                },
            }
        )
    return both[0], both[1]
