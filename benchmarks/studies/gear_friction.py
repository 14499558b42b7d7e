"""Identification of arms with measured gear friction: published values, and random values near them.

Each plant is the simulated arm with all nuisances on and friction of model M6: the published figures of its servos'
stand-ins, or each of them times a factor drawn log-uniformly between 0.5 and 2. A model is identified from one motion
with default settings, and judged by the plant's own parameters and by motions that it has not seen.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DynidError, SafetyError
from dynid.identification.data.recordings import load_recording
from dynid.identification.estimators.solved_torques import predicted_torques
from dynid.identification.estimators.table import estimator
from dynid.identification.estimators.torque_errors import MOVING_RAD_S
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.gear_presets import gear_friction, load_gears
from dynid.model.parameters import BaseParameters
from dynid.model.standard import from_file
from dynid.robot import FloatArray, Robot
from dynid.simulation.lockstep.run import simulate
from dynid.simulation.lockstep.simulated_bag import write_bag
from dynid.simulation.plant.arm import plant_standard
from dynid.trajectory.families import load_excitation

MODEL, PROFILE = "M6", "limited"
IDENTIFICATION, VALIDATION = "demo_identification", ("V01", "V02", "V03")
FACTOR, PLANTS = 2.0, 20
HEAVY_KG_M = 0.02  # gravity parameters below it hardly affect the torques
GRAVITY_BAR, ROTOR_BAR, HELD_OUT_BAR = 0.05, 0.1, 0.5
GRAVITY_OF_ACCEPTED, PLANTS_MET = 0.1, 18
NO_ROTOR_KG_M2 = 1e-5  # smallest standard parameter, which stands for no rotor


@dataclass(frozen=True)
class PlantResult:
    """One plant's row; without a model, figures are NaN and `refused` gives the reason.

    plant: "M6" or the seed.
    gravity_error_max, rotor_error_max: largest relative errors of parameters against the plant's.
    held_out_moving: relative torque error of joints in motion on motions that were not identified from.
    held_out_moving_viscous: the same of Coulomb and viscous friction alone.
    structure: friction structure that the data support.
    seconds: duration of `identify` [s].
    """

    plant: str
    accepted: bool = False
    gravity_error_max: float = math.nan
    rotor_error_max: float = math.nan
    held_out_moving: float = math.nan
    held_out_moving_viscous: float = math.nan
    structure: str = ""
    seconds: float = math.nan
    refused: str = ""

    @property
    def met(self) -> bool:
        """Whether every limit is met."""
        return (
            self.accepted
            and self.gravity_error_max <= GRAVITY_BAR
            and self.rotor_error_max <= ROTOR_BAR
            and self.held_out_moving <= HELD_OUT_BAR * self.held_out_moving_viscous
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values; None for missing ones."""
        return {key: None if isinstance(x, float) and math.isnan(x) else x for key, x in vars(self).items()} | {
            "met": self.met
        }


def drawn_friction(robot: Robot, seed: int) -> FrictionLaw:
    """Return the friction of a plant: every published value times a random factor between 0.5 and 2."""
    file, random = load_gears(robot), np.random.default_rng(seed)

    def drawn(figures: dict[str, float]) -> dict[str, float]:
        return {key: value * FACTOR ** random.uniform(-1.0, 1.0) for key, value in figures.items()}

    gears = {
        name: gear.model_copy(update={"models": {MODEL: drawn(gear.models[MODEL])}})
        for name, gear in file.gears.items()
    }
    return gear_friction(robot, MODEL, file.model_copy(update={"gears": gears}))


def record(robot: Robot, friction: FrictionLaw, folder: Path, seed: int) -> None:
    """Write bags of the identification and validation motions of a plant.

    Raises:
        SafetyError: the arm does not follow a motion.
    """
    controller, excitation = load_controller(robot), load_excitation(robot)
    for name in (IDENTIFICATION, *VALIDATION):
        motion = excitation.trajectory(name, PROFILE)
        run = simulate(robot, motion, FeedforwardPd(controller), seed=seed, friction=friction)
        write_bag(run, robot, controller, folder / name, profile=PROFILE)


def true_parameters(robot: Robot, model: ArmModel) -> FloatArray:
    """Return the base parameters (p,) of the simulated arm."""
    return model.base_parameters(from_file(plant_standard(robot), model.mdh, model.regrouping.standard)).values


def parameter_errors(robot: Robot, base: BaseParameters) -> tuple[float, float]:
    """Return the largest relative errors of gravity parameters and of rotor inertias against the plant's."""
    model = ArmModel.of(robot)
    found = {"M": [0.0], "IA": [0.0]}
    for name, value in zip(model.names, true_parameters(robot, model), strict=True):
        size = abs(base[name] / value - 1.0) if value else 0.0
        if name.startswith("M") and abs(value) > HEAVY_KG_M:
            found["M"].append(size)
        elif name.startswith("IA") and value > NO_ROTOR_KG_M2:
            found["IA"].append(size)
    return max(found["M"]), max(found["IA"])


def moving_error(robot: Robot, bags: Sequence[Path], phi: BaseParameters, friction: FrictionLaw | None) -> float:
    """Return the relative torque error of joints in motion over bags of the default mount."""
    settings, model = load_identification(robot), ArmModel.of(robot)
    error, torque = 0.0, 0.0
    for bag in bags:
        samples = load_recording(bag, robot).portion("held out", settings).samples
        moving = np.abs(samples.dq) > MOVING_RAD_S
        left = samples.tau - predicted_torques(model, samples, phi, friction)
        error += float(np.sum(left[moving] ** 2))
        torque += float(np.sum(samples.tau[moving] ** 2))
    return math.sqrt(error / torque)


def _viscous_error(robot: Robot, folder: Path, bags: Sequence[Path]) -> float:
    """Return `moving_error` of Coulomb and viscous friction alone, by least squares."""
    settings, model = load_identification(robot), ArmModel.of(robot)
    coulomb = settings.coulomb_friction.model_copy(update={"structure": "Coulomb-viscous"})
    samples = load_recording(folder / IDENTIFICATION, robot).portion("fitted", settings).samples
    found = estimator(settings.estimator).estimate(model, samples, coulomb)
    return moving_error(robot, bags, found.base, found.friction)


def _row(robot: Robot, plant: str, folder: Path, found: Identification, seconds: float) -> PlantResult:
    bags = [folder / name for name in VALIDATION]
    gravity, rotor = parameter_errors(robot, found.base)
    beside = found.estimate.regression.joint_friction
    return PlantResult(
        plant=plant,
        accepted=found.verdict.accepted,
        gravity_error_max=gravity,
        rotor_error_max=rotor,
        held_out_moving=moving_error(robot, bags, found.base, found.friction),
        held_out_moving_viscous=_viscous_error(robot, folder, bags),
        structure="" if beside is None else beside.fit.structure.name,
        seconds=seconds,
    )


def judge_plant(robot: Robot, plant: str, folder: Path, friction: FrictionLaw, seed: int) -> PlantResult:
    """Record and identify one plant and return its row."""
    try:
        record(robot, friction, folder, seed)
    except SafetyError as error:
        return PlantResult(plant, refused=f"not recorded: {error}")
    begin = time.perf_counter()
    try:
        found = identify(robot, [folder / IDENTIFICATION], validation=[folder / name for name in VALIDATION])
    except DynidError as error:
        return PlantResult(plant, seconds=time.perf_counter() - begin, refused=f"not identified: {error}")
    return _row(robot, plant, folder, found, time.perf_counter() - begin)


def benchmark_friction(
    robot: Robot, work: Path, plants: int = PLANTS, progress: Callable[[str], None] = lambda stage: None
) -> list[PlantResult]:
    """Return the rows of the published plant and of random ones with seeds from 0 on.

    Args:
        robot: the robot.
        work: an existing folder for bags.
        plants: number of drawn plants.
        progress: called with the name of each plant as it begins.
    """
    found = []
    for seed in (None, *range(plants)):
        plant = MODEL if seed is None else str(seed)
        progress(f"plant {plant}")
        try:
            friction = gear_friction(robot, MODEL) if seed is None else drawn_friction(robot, seed)
        except DynidError as error:
            found.append(PlantResult(plant, refused=f"no gear: {error}"))
            continue
        found.append(judge_plant(robot, plant, work / plant, friction, seed or 0))
    return found


def missed(rows: Sequence[PlantResult]) -> list[str]:
    """Return a sentence for every missed limit."""
    first, drawn = rows[0], rows[1:]
    reasons = [] if first.met else [f"plant {first.plant} misses its bars: {first.as_dict()}"]
    count, needed = sum(row.met for row in drawn), math.ceil(PLANTS_MET / PLANTS * len(drawn))
    if count < needed:
        failed = ", ".join(row.plant for row in drawn if not row.met)
        reasons.append(f"{count} of {len(drawn)} drawn plants meet their bars, needed are {needed}; missed by {failed}")
    reasons += [
        f"plant {row.plant}: a model with a gravity parameter off by {100 * row.gravity_error_max:.1f} % is accepted"
        for row in rows
        if row.accepted and row.gravity_error_max > GRAVITY_OF_ACCEPTED
    ]
    return reasons
