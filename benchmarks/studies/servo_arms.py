"""Random small arms of DYNAMIXEL servos: a URDF, and a motor file in Interbotix' format.

Number of joints, mass, shapes, directions of the axes and limits are drawn. All servos have one supply voltage. Each
joint gets the weakest servo that carries its load, or two of the strongest; if these do not carry the arm, it is
shortened.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.hardware.servos.models import Dynamixel, dynamixel_named
from dynid.robot import FloatArray

GRAVITY_M_S2 = 9.81
JOINTS = (2, 7)  # fewest and most joints of an arm
MASS_KG = (0.3, 6.0)  # range of the mass of all moving links
SUPPLIES = (("XL330-M288", "XC330-M288"), ("XM430-W350", "XM540-W270"))  # servos for 5 V and 12 V, weakest first
CURRENT_SHARE = 0.5  # current limit that `robot new` proposes, as a share of the stall current
LOAD_MARGIN = 1.5  # least ratio of a servo's torque at that current to the gravity torque of the stretched arm
TURNING_SHARE = 0.3  # load of a joint about the vertical or along its link, as a share of a lifting joint's
SHORTER = 0.9  # factor on all lengths if the strongest servos do not carry the arm
REACH_M = 0.42  # reach of an arm of 1 kg; it grows with the cube root of the mass
LARGEST_LIMIT_RAD = (1.4, 2.6)  # range of the joints' limits, drawn for each side
KINDS = {"lift": (0, 1, 0), "turn": (1, 0, 0), "pan": (0, 0, 1)}  # axis in the frame of its link, which points along x


@dataclass(frozen=True)
class ServoArm:
    """A random arm.

    Attributes:
        seed: seed of the draw.
        mass_kg: mass of all moving links.
        reach_m: sum of the links' lengths.
        servos: name of each joint's servo model.
        pairs: whether each joint has two servos.
        urdf: text of the URDF.
        motors: text of the motor file.
    """

    seed: int
    mass_kg: float
    reach_m: float
    servos: tuple[str, ...]
    pairs: tuple[bool, ...]
    urdf: str
    motors: str

    @property
    def model_options(self) -> list[str]:
        """Options of `robot new` that name the servo model of each joint."""
        return [f"--servo-model=joint_{j}:={name}" for j, name in enumerate(self.servos, 1)]


def draw_arm(seed: int) -> ServoArm:
    """Return the random arm of a seed."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(JOINTS[0], JOINTS[1] + 1))
    mass_kg = float(np.exp(rng.uniform(*np.log(MASS_KG))))
    shares = rng.dirichlet(4.0 * 0.7 ** np.arange(count))
    masses = mass_kg * (0.02 + shares) / (1.0 + 0.02 * count)
    lengths = rng.uniform(0.6, 1.4, count)
    lengths *= REACH_M * np.cbrt(mass_kg) * rng.uniform(0.8, 1.1) / lengths.sum()
    kinds = _kinds(rng, count)
    while (chosen := _servos(kinds, masses, lengths)) is None:
        lengths *= SHORTER
    servos, pairs = chosen
    joints = [_joint(rng, j, kind, lengths) for j, kind in enumerate(kinds)]
    links = [_link(rng, j, masses[j], lengths[j]) for j in range(count)]
    base = '<link name="base"><collision><geometry><box size="0.08 0.08 0.02"/></geometry></collision></link>'
    urdf = f'<?xml version="1.0"?><robot name="drawn">{base}{"".join(links)}{"".join(joints)}</robot>'
    return ServoArm(seed, mass_kg, float(lengths.sum()), servos, pairs, urdf, _motors(rng, pairs))


def _kinds(rng: np.random.Generator, count: int) -> list[str]:
    """Return the kind of each joint: most lift, the first may pan, and no two in succession turn about one line."""
    kinds = ["pan" if rng.random() < 0.8 else "lift"]
    while len(kinds) < count:
        kinds.append("lift" if kinds[-1] != "lift" or rng.random() < 0.6 else "turn")
    return kinds


def _servos(
    kinds: Sequence[str], masses: FloatArray, lengths: FloatArray
) -> tuple[tuple[str, ...], tuple[bool, ...]] | None:
    """Return servo model and pairing of each joint of a stretched arm; None if the strongest do not carry it."""
    needed = np.array([_load(kind, masses[j:], lengths[j:]) for j, kind in enumerate(kinds)]) * LOAD_MARGIN
    choice = next((one for one in SUPPLIES if _torque(one[-1]) >= needed.max()), SUPPLIES[-1])
    if needed.max() > 2.0 * _torque(choice[-1]):
        return None
    names = [next((name for name in choice if _torque(name) >= load), choice[-1]) for load in needed]
    return tuple(names), tuple(bool(load > _torque(name)) for name, load in zip(names, needed, strict=True))


def _load(kind: str, masses: FloatArray, lengths: FloatArray) -> float:
    """Return the gravity torque [N m] at a joint that carries these links, stretched out."""
    distances = np.cumsum(lengths) - 0.5 * lengths
    return GRAVITY_M_S2 * float(masses @ distances) * (1.0 if kind == "lift" else TURNING_SHARE)


def _torque(name: str) -> float:
    """Return the torque of a servo at the proposed current limit [N m]."""
    model = dynamixel_named(name)
    assert isinstance(model, Dynamixel)
    (point,) = (one for one in model.stall if one.supply_v == model.supply_v)
    return CURRENT_SHARE * point.torque_nm


def _joint(rng: np.random.Generator, j: int, kind: str, lengths: FloatArray) -> str:
    axis = rng.choice([-1.0, 1.0]) * np.array(KINDS[kind])
    lower, upper = -rng.uniform(*LARGEST_LIMIT_RAD), rng.uniform(*LARGEST_LIMIT_RAD)
    origin = (0.0, 0.0, 0.06) if j == 0 else (lengths[j - 1], 0.0, 0.0)
    parent = "base" if j == 0 else f"link_{j}"
    return (
        f'<joint name="joint_{j + 1}" type="revolute"><parent link="{parent}"/><child link="link_{j + 1}"/>'
        f'<origin xyz="{_vector(origin)}"/><axis xyz="{_vector(axis)}"/>'
        f'<limit lower="{lower:.3f}" upper="{upper:.3f}" effort="20" velocity="4.5"/></joint>'
    )


def _link(rng: np.random.Generator, j: int, mass: float, length: float) -> str:
    """Return a link that is a box of even density around a part of its length."""
    sides = np.array([0.8 * length, 0.03, 0.03]) * rng.uniform([0.7, 0.8, 0.8], [1.1, 1.5, 1.5])
    centre = np.array([0.5 * length, 0.0, 0.0]) + rng.uniform(-0.1, 0.1, 3) * sides
    xx, yy, zz = (mass / 12.0 * (np.sum(sides**2) - side**2) for side in sides)
    origin = f'<origin xyz="{_vector(centre)}"/>'
    return (
        f'<link name="link_{j + 1}"><inertial>{origin}<mass value="{mass:.5g}"/>'
        f'<inertia ixx="{xx:.5g}" iyy="{yy:.5g}" izz="{zz:.5g}" ixy="0" ixz="0" iyz="0"/></inertial>'
        f'<collision>{origin}<geometry><box size="{_vector(sides)}"/></geometry></collision></link>'
    )


def _motors(rng: np.random.Generator, pairs: Sequence[bool]) -> str:
    """Return the motor file: IDs from 1 on in the order of the joints, 3 Mbps, random directions."""
    lines, number = ["motors:"], 0
    for j, pair in enumerate(pairs, 1):
        number += 1
        mode = int(rng.integers(2))
        lines.append(f"  joint_{j}: {{ID: {number}, Baud_Rate: 5, Drive_Mode: {mode}, Secondary_ID: 255}}")
        if pair:
            number += 1
            shadow = f"{{ID: {number}, Baud_Rate: 5, Drive_Mode: {1 - mode}, Secondary_ID: {number - 1}}}"
            lines.append(f"  joint_{j}_shadow: {shadow}")
    return "\n".join(lines) + "\n"


def _vector(values: Sequence[float] | FloatArray) -> str:
    return " ".join(f"{value:.5g}" for value in values)
