"""Random simulated arms: links, rotors and friction of their gears, with individual seeds of all nuisances.

Links are drawn around the robot's nominal ones, which are first moved a little into the inside of the physical bounds:
true parameters at a bound would make every projection correct by chance. In the modified DH frame, mass and second
moments are multiplied by factors and the centre of mass is moved. Bodies that are impossible or outside the bounds are
drawn again.
Products of inertia stay as the structure has them, so that every arm has true base parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import expm

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.errors import DataError
from dynid.identification.data.recordings import Recording
from dynid.identification.data.simulated_recording import source_of
from dynid.identification.feasibility.consistent import consistent_interior
from dynid.model.drive import kind_and_number
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FV, FrictionLaw
from dynid.model.gear_presets import VISCOUS, gear_friction, load_gears
from dynid.model.parameters import StandardParameters
from dynid.model.standard import StandardFile, from_file, pseudo_inertia, ten_parameters, to_file
from dynid.model.within_limits import link_rows, spread_out
from dynid.resources import load_validated
from dynid.robot import FloatArray, Robot, read_only
from dynid.robot.link_limits import ArmLimits
from dynid.simulation.lockstep.run import SimulatedRun, simulate
from dynid.simulation.plant.nuisances import magnitudes
from dynid.trajectory.motion import Motion

INWARD = 0.3  # share of the distance from the nominal arm to the one farthest from the bounds
LINK_FACTOR, ROTOR_FACTOR, FRICTION_FACTOR = 1.3, 1.5, 2.0  # largest factors; the smallest are their reciprocals
CENTRE_M = 0.005  # standard deviation by which a centre of mass is moved, in each direction
TURN_RAD = 0.3  # standard deviation by which principal axes are turned, about each axis
MOST_DRAWS = 5000
DRAWS = 17  # stream of random numbers, separate from those of the nuisances


@dataclass(frozen=True, eq=False)
class DrawnArm:
    """Arm with unknown parameters and nuisances.

    Attributes:
        seed: seed of the draw and of all nuisances.
        standard: standard parameters of links and rotors, as the simulated arm takes them.
        friction: friction of cold gears.
        names, base: true base parameters, (p,), friction being that of cold gears.
    """

    seed: int
    standard: StandardFile
    friction: FrictionLaw
    names: tuple[str, ...]
    base: FloatArray


def draw_arm(robot: Robot, seed: int, gears: str = "M6", *, full: bool = False) -> DrawnArm:
    """Return a random arm.

    Args:
        robot: robot with the nominal parameters and the bounds of the draw.
        seed: seed of the draw; equal seeds give equal arms.
        gears: a model of friction of which the robot's folder has figures, or "viscous".
        full: links' principal axes about their centres of mass are drawn, so they have products of inertia, too; `base`
            are then the values of these parameters in a model that has products.

    Raises:
        DataError: no draw lies inside the bounds.
    """
    random, model = np.random.default_rng([seed, DRAWS]), ArmModel.of(robot)
    limits, names = model.limits(robot.file.physical_bounds), model.regrouping.standard
    nominal = from_file(_nominal(robot), model.mdh, names).values
    roomy, size = consistent_interior(model, limits), 10 * model.chain_size
    values = np.array(nominal)
    middle = (1.0 - INWARD) * nominal[:size] + INWARD * roomy[:size]
    values[:size] = _drawn_links(model, limits, middle, random, _turned if full else _moved)
    friction = _drawn_friction(robot, gears, random)
    for k, name in enumerate(names[size:], size):
        kind, number = kind_and_number(name)
        if kind == "IA":
            values[k] = nominal[k] * _factor(random, ROTOR_FACTOR)
        elif kind == "FV":
            values[k] = friction.values[FV, number - 1]
        else:
            values[k] = 0.0
    truth = StandardParameters(names, read_only(values), model.chain_size)
    content = to_file(truth, model.mdh, robot.name, robot.joint_names, f"drawn with seed {seed}")
    base = _full_base(robot, model, truth) if full else model.base_parameters(truth).values
    return DrawnArm(seed, content, friction, model.names, base)


def _full_base(robot: Robot, model: ArmModel, truth: StandardParameters) -> FloatArray:
    """Return the base parameters (p,) of a model without products of inertia, as a model with products has them."""
    structure = robot.file.structure.model_copy(update={"products_of_inertia": True})
    whole = ArmModel.of(robot, structure=structure)
    by_name = dict(zip(whole.names, whole.base_parameters(truth).values.tolist(), strict=True))
    return read_only([by_name[name] for name in model.names])


def _nominal(robot: Robot) -> StandardFile:
    return load_validated(robot.folder / robot.file.simulation.standard_parameters, StandardFile)


def _factor(random: np.random.Generator, largest: float) -> float:
    return float(largest ** random.uniform(-1.0, 1.0))


def _drawn_links(
    model: ArmModel,
    limits: ArmLimits,
    middle: FloatArray,
    random: np.random.Generator,
    moved: Callable[[FloatArray, np.random.Generator], FloatArray],
) -> FloatArray:
    """Return standard parameters of all links, (10 n,), near `middle` and within the limits."""
    for _ in range(MOST_DRAWS):
        found = np.array(middle)
        for j, link in enumerate(limits.links):
            own = slice(10 * j, 10 * j + 10)
            G, h = link_rows(link, model.mdh.in_link[j])
            for _ in range(MOST_DRAWS):
                found[own] = moved(middle[own], random)
                lowest = np.linalg.eigvalsh(spread_out(found[own], limits.spread))[0]
                if lowest > limits.margin and (G @ found[own] > h).all():
                    break
            else:
                raise DataError(f"no draw of link {j + 1} lies inside its physical bounds: widen them in robot.yaml")
        if found[9::10].sum() < limits.total_mass:
            return found
    raise DataError(f"no draw of the links is lighter than {limits.total_mass} kg: widen total_mass_kg in robot.yaml")


def _moved(link: FloatArray, random: np.random.Generator) -> FloatArray:
    """Return ten random standard parameters near those of a link."""
    J = pseudo_inertia(link)
    mass, centre = J[3, 3] * _factor(random, LINK_FACTOR), J[:3, 3] / J[3, 3]
    root = np.array([_factor(random, LINK_FACTOR) for _ in range(3)]) ** 0.5
    J[:3, :3] *= np.outer(root, root)
    J[:3, 3] = J[3, :3] = mass * (centre + CENTRE_M * random.standard_normal(3))
    J[3, 3] = mass
    return ten_parameters(J)


def _turned(link: FloatArray, random: np.random.Generator) -> FloatArray:
    """Return ten random standard parameters of a link with rotated principal axes about the centre of mass."""
    J = pseudo_inertia(_moved(link, random))
    mass, centre = J[3, 3], J[:3, 3] / J[3, 3]
    about = J[:3, :3] - mass * np.outer(centre, centre)
    turn = expm(np.cross(np.eye(3), TURN_RAD * random.standard_normal(3)))
    J[:3, :3] = turn @ np.diag(np.diag(about)) @ turn.T + mass * np.outer(centre, centre)
    return ten_parameters(J)


def _drawn_friction(robot: Robot, gears: str, random: np.random.Generator) -> FrictionLaw:
    """Return friction with every published value times a random factor, separate for each servo model."""
    if gears == VISCOUS:
        cold = np.array([axis.viscous_friction_nm_s_per_rad for axis in _nominal(robot).axes])
        coulomb = magnitudes(robot).coulomb_friction
        factors = np.array([[_factor(random, FRICTION_FACTOR) for _ in cold] for _ in range(2)])
        return FrictionLaw.of(robot.size, {"fv": cold * factors[0], "fb": coulomb * factors[1]})
    file = load_gears(robot)

    def drawn(figures: dict[str, float]) -> dict[str, float]:
        return {key: value * _factor(random, FRICTION_FACTOR) for key, value in figures.items()}

    own = {k: one.model_copy(update={"models": {gears: drawn(one.models[gears])}}) for k, one in file.gears.items()}
    return gear_friction(robot, gears, file.model_copy(update={"gears": own}))


@dataclass(frozen=True, eq=False)
class Record:
    """Recorded motion of a drawn arm, with true values that no recording contains.

    Attributes:
        source: recording for the identification.
        run: simulated run with the motors' torques.
    """

    source: Recording
    run: SimulatedRun


def record(robot: Robot, arm: DrawnArm, motion: Motion, seed: int) -> Record:
    """Record a motion of an arm with all nuisances on, in memory, and return the record.

    Raises:
        SafetyError: the arm does not follow the motion.
    """
    controller = FeedforwardPd(load_controller(robot))
    run = simulate(robot, motion, controller, seed=seed, standard=arm.standard, friction=arm.friction)
    return Record(source_of(robot, run, f"{motion.name}-{seed}"), run)


def with_torques(source: Recording, tau: FloatArray) -> Recording:
    """Return the recording with other torques (N, n) [N m] in place of the measured ones."""
    return replace(source, signals=lambda settings: replace(source.signals(settings), tau=tau))
