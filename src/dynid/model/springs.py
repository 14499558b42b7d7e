"""Springs of robot.yaml: torques that depend on the position of one joint alone, such as a counterbalance.

A spring with coefficients k_p requires the motor torque sum_p k_p (q - a)^p at its joint, in addition to gravity; a is
`about_deg` and the powers p are those of robot.yaml. Its potential is sum_p k_p (q - a)^(p + 1) / (p + 1), and its
stiffness sum_p p k_p (q - a)^(p - 1). Each coefficient is a parameter of the model, named KS<power>_<joint>, such as
KS1_2. Torques are linear in the coefficients, which have no bounds and are identified together with all other
parameters. A spring belongs to the joint, not to the drive: the gear carries its torque like that of gravity. So the
load on which friction may depend includes this torque.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynid.errors import ConfigurationError
from dynid.robot import FloatArray, Robot

PREFIX = "KS"


@dataclass(frozen=True, order=True)
class SpringTerm:
    """One term of a spring's torque, a coefficient times (q - about)^power.

    Attributes:
        joint: index of the joint, from 0.
        power: exponent of the position.
        about: position about which the power is taken [rad; m if prismatic].
    """

    joint: int
    power: int
    about: float = 0.0

    @property
    def name(self) -> str:
        """Name of the term's coefficient, such as 'KS1_2' for power 1 at joint 2."""
        return f"{PREFIX}{self.power}_{self.joint + 1}"

    @property
    def formula(self) -> str:
        """Power of the position that the coefficient multiplies, as a formula such as '(q2 + 1.5708)^3'."""
        return f"(q{self.joint + 1} {'-' if self.about > 0.0 else '+'} {abs(self.about):.5g})^{self.power}"

    def torque(self, q: FloatArray) -> FloatArray:
        """Return the torque of a unit coefficient, (N,) [N m per SI unit], at positions q (N,) [rad or m]."""
        return np.asarray((q - self.about) ** self.power, dtype=np.float64)


@dataclass(frozen=True)
class JointSpring:
    """Spring of one joint with its coefficients.

    Attributes:
        joint: index of the joint, from 0.
        about: position about which powers are taken [rad; m if prismatic].
        coefficients: pairs of power and coefficient [N m/rad^power; N/m^power], in ascending order of the powers.
    """

    joint: int
    about: float
    coefficients: tuple[tuple[int, float], ...]

    def torque(self, q: FloatArray) -> FloatArray:
        """Return the motor torque (N,) [N m], or force [N], that balances the spring at q (N,) [rad or m]."""
        return np.asarray(sum((k * (q - self.about) ** p for p, k in self.coefficients), np.zeros_like(q)))

    def linear(self) -> tuple[float, float]:
        """Return stiffness [N m/rad; N/m] and rest position [rad; m] of the spring's linear part.

        The torque is a polynomial of the position. Its terms of powers 0 and 1 form the linear part; without power 1
        the result is (0, 0).
        """
        known = dict(self.coefficients)
        stiffness = known.get(1, 0.0)
        return (stiffness, self.about - known.get(0, 0.0) / stiffness) if stiffness else (0.0, 0.0)

    def beyond_linear(self) -> "JointSpring | None":
        """Return a spring with the terms of the torque that are not in the linear part; None if there are none."""
        held = (0, 1) if self.linear()[0] else ()
        rest = tuple((p, k) for p, k in self.coefficients if p not in held and k)
        return JointSpring(self.joint, self.about, rest) if rest else None

    def words(self, name: str, slides: bool = False) -> str:
        """Return the torque as a formula, such as 'joint_2: 1.02e+04 N m/rad (q + 1.5708 rad)'.

        Args:
            name: name of the joint.
            slides: whether the joint is prismatic, so that the units are N and m.
        """
        unit, force = ("m", "N") if slides else ("rad", "N m")
        away = f"(q {'-' if self.about >= 0.0 else '+'} {abs(self.about):.5g} {unit})" if self.about else "q"
        terms = [
            f"{k:.6g} {force}" + ("" if p == 0 else f"/{unit} {away}" if p == 1 else f"/{unit}^{p} {away}^{p}")
            for p, k in self.coefficients
        ]
        return f"{name}: {' + '.join(terms)}"


def is_spring(name: str) -> bool:
    """Return whether a name, such as 'KS1_2', or a kind, such as 'KS1_', is that of a spring's coefficient."""
    return name.startswith(PREFIX)


def power_of(name: str) -> int:
    """Return the exponent of the position that belongs to a spring's coefficient, from its name: 1 for 'KS1_2'."""
    return int(name.removeprefix(PREFIX).split("_")[0])


def spring_terms(robot: Robot) -> tuple[SpringTerm, ...]:
    """Return the terms of all springs of robot.yaml, sorted by joint and by the exponent of the position."""
    return tuple(
        sorted(
            SpringTerm(robot.joint_names.index(spring.joint), power, float(np.deg2rad(spring.about_deg)))
            for spring in robot.file.springs
            for power in spring.powers
        )
    )


def spring_unit(name: str, slides: bool) -> str:
    """Return the unit of a spring's coefficient from its name, for a revolute or prismatic (`slides`) joint."""
    power = power_of(name)
    force, length = ("N", "m") if slides else ("N*m", "rad")
    return force if power == 0 else f"{force}/{length}" if power == 1 else f"{force}/{length}^{power}"


def joint_springs(robot: Robot, coefficients: Sequence[Mapping[int, float] | None]) -> tuple[JointSpring, ...]:
    """Return the springs of robot.yaml with the given coefficients.

    Args:
        robot: the robot.
        coefficients: for each of the n axes the spring coefficients by exponent of the position, in N m/rad^exponent or
            N/m^exponent; None or empty if the axis has no spring.

    Raises:
        ConfigurationError: the exponents of the coefficients differ from those that robot.yaml declares.
    """
    found = []
    declared = {robot.joint_names.index(spring.joint): spring for spring in robot.file.springs}
    for axis, given in enumerate(coefficients):
        spring = declared.get(axis)
        powers = () if spring is None else tuple(sorted(spring.powers))
        if tuple(sorted(given or {})) != powers:
            stated = ", ".join(map(str, sorted(given or {}))) or "no power"
            raise ConfigurationError(
                f"the standard parameters state spring_coefficients of {robot.joint_names[axis]} for {stated}, and "
                f"springs in robot.yaml of '{robot.name}' declare {', '.join(map(str, powers)) or 'none'}: give one "
                "for each declared power"
            )
        if spring is not None and given:
            about = float(np.deg2rad(spring.about_deg))
            found.append(JointSpring(axis, about, tuple((power, given[power]) for power in powers)))
    return tuple(found)


def without_springs(robot: Robot) -> Robot:
    """Return the robot as if robot.yaml declared no springs, for comparisons."""
    return Robot(robot.file.model_copy(update={"springs": ()}), robot.folder)


def refuse_springs(robot: Robot, what: str) -> None:
    """Raise ConfigurationError if robot.yaml declares springs; `what` names the model that does not support them."""
    if robot.file.springs:
        joints = ", ".join(spring.joint for spring in robot.file.springs)
        raise ConfigurationError(
            f"{what} cannot take springs into account, and robot.yaml of '{robot.name}' declares one at {joints}: use "
            "another method, or a robot folder without springs if they do not matter here"
        )
