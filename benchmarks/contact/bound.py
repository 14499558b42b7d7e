"""Which pulls no detector could find in time: those after which every encoder still says what it says without them.

The simulated arm runs twice with the same seed, so with the same noise, and is pulled in one of the two runs. Until the
first encoder reading differs, both runs look the same to whatever reads encoders and knows the motor torques; even a
detector that knew model, noise, place, direction and instant of the pull could not separate them. Real detectors know
less, so this share is an upper bound.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.contact.feeling import INNER, MOTIONS, SETTLED_S, SOON_MS, directions
from benchmarks.contact.scenes import PROFILE, Scene, Touched
from dynid.robot import FloatArray

SEED, FROM_S, TO_S = 6000, 2.0, 9.0


def moving_arm(scene: Scene, number: int) -> Touched:
    """An arm somewhere in a validation motion."""
    run = Touched(scene, (), SEED + number)
    motion = scene.excitation.trajectory(MOTIONS[number % len(MOTIONS)], PROFILE)
    run.motion.begin(motion, run.plant.measure(), run.plant.stamp_ns)
    run.plant.command(np.zeros(scene.robot.size))
    for _ in range(round(np.random.default_rng([SEED, number]).uniform(FROM_S, TO_S) / run.cycle_s)):
        run.cycle()
    return run


def still_arm(scene: Scene, number: int) -> Touched:
    """An arm that is held at a random pose."""
    lower, upper = scene.excitation.limits(PROFILE)
    share = np.random.default_rng([SEED, number]).uniform(-0.5, 0.5, len(lower))
    run = Touched(scene, (), SEED + number, 0.5 * (lower + upper) + INNER * share * (upper - lower))
    run.start()
    for _ in range(round(SETTLED_S / run.cycle_s)):
        run.cycle()
    return run


def first_difference_ms(make: Callable[[], Touched], force: FloatArray, longest_ms: int) -> float:
    """After how long the first reading of a pulled arm differs from that of its twin [ms]; infinite if none does."""
    pulled, twin = make(), make()
    for passed in range(longest_ms + 1):
        pulled.cycle(force)
        twin.cycle()
        if (pulled.plant.position != twin.plant.position).any():
            return float(passed)  # the pull acts from the first of these readings on
    return float("inf")


def readable_share(
    scene: Scene, make: Callable[[Scene, int], Touched], size_n: float, pulls: int, longest_ms: float = SOON_MS
) -> float:
    """Share of pulls of one size [N] that change a reading within the time that is required, or another [ms]."""
    forces = directions(size_n)
    found = [
        first_difference_ms(lambda number=number: make(scene, number), next(forces), round(longest_ms))  # type: ignore[misc]
        for number in range(pulls)
    ]
    return float(np.isfinite(found).mean())


def least_rms_n(readable: dict[float, float]) -> float:
    """Of shares that change a reading by the size of pulls [N]: the least RMS error over all sizes [N].

    Where no reading changes, whoever says of an arm that nothing touches it says so of the pulled one, and is off by
    the whole pull. Here the others are taken to be known exactly.
    """
    return float(np.sqrt(np.mean([size**2 * (1.0 - share) for size, share in readable.items()])))
