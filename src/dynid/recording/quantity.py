"""Units, signs, ratios and gear side of recorded numbers, and their conversion to SI values at the joints.

These rules apply to CSV columns, joint states in bags, data sets and arrays. A unit may be preceded by a number, the
size of one raw count. It may also be a percentage of a rated value:

    mA    2.69 mA    kg cm    % of 1.27 N m

Values measured on the motor side of the gears are converted by the gear ratios N and the coupling matrix C of
robot.yaml:

    q_joint = C^-1 (q_motor / N),   tau_joint = C' (N tau_motor)

C' is the transpose of C. Currents are always currents of the motors, and are first multiplied by the torque constants.
"""

import re
from typing import Literal

import numpy as np

from dynid.errors import ConfigurationError
from dynid.model.transmission import Transmission
from dynid.robot import FloatArray, Positive, Robot, Strict

Units = dict[str, float]
PerJoint = float | tuple[float, ...]
Side = Literal["joint", "motor"]
TURNING = {"rad": 1.0, "deg": np.pi / 180.0, "rev": 2.0 * np.pi}
SLIDING = {"m": 1.0, "mm": 1e-3}
KG_CM = 0.0980665  # one kilogram-force at one centimetre [N m]
TORQUES = {"N m": 1.0, "mN m": 1e-3, "kg cm": KG_CM}
FORCES = {"N": 1.0}
CURRENTS = {"A": 1.0, "mA": 1e-3}
SAME_UNIT = {"Nm": "N m", "N.m": "N m", "N*m": "N m", "mNm": "mN m", "kgcm": "kg cm", "kgf cm": "kg cm"}
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_UNIT = re.compile(rf"(?:(?P<size>{_NUMBER}) +)?(?:% of (?P<rated>{_NUMBER}) +)?(?P<name>\D.*)")
FORMS = "a number before it is the size of one count ('2.69 mA'), '% of 1.27 N m' a share of a rated value"


class Quantity(Strict):
    """Unit, side, sign and ratio of the raw numbers of all axes, in the order of the robot's joints.

    unit: one unit for all axes, or one per axis, such as `mA`, `2.69 mA` (the size of one count) or `% of 1.27 N m`.
    side: side of the gears on which the values were measured; `motor` values are converted by the gear ratios and the
        coupling of robot.yaml.
    sign, ratio: factors on the raw values, in addition to unit and gear ratio; one for all axes, or one per axis.
    offset: offset added to the converted positions, on the joint side [rad or m].
    counts_per_turn: counts per turn of an encoder, for the unit `count`.
    """

    unit: str | tuple[str, ...]
    side: Side = "joint"
    sign: tuple[Literal[-1, 1], ...] = ()
    ratio: PerJoint = 1.0
    offset: PerJoint = 0.0
    counts_per_turn: Positive | None = None

    def other_lengths(self, wanted: int) -> str:
        """Return a phrase with the names of fields that have neither 1 nor `wanted` entries; "" if there are none."""
        given = {
            "unit": wanted if isinstance(self.unit, str) else len(self.unit),
            "sign": len(self.sign) or wanted,
            "ratio": wanted if isinstance(self.ratio, float) else len(self.ratio),
            "offset": wanted if isinstance(self.offset, float) else len(self.offset),
        }
        return "; ".join(f"{key} has {got} entries" for key, got in given.items() if got != wanted)

    def units(self, count: int) -> tuple[str, ...]:
        """Return the unit of each of `count` axes."""
        return (self.unit,) * count if isinstance(self.unit, str) else self.unit

    def factors(self, count: int) -> FloatArray:
        """Return the product of sign and ratio for each of n = `count` axes, (n,)."""
        sign = np.array(self.sign or (1,) * count, dtype=np.float64)
        return np.asarray(sign * np.broadcast_to(np.array(self.ratio, dtype=np.float64), sign.shape))


SI = Quantity(unit="rad")  # default quantity, for which `Conversion` takes 1 as all factors


def unit_factor(unit: str, table: Units) -> float | None:
    """Return the size of a unit, relative to the base unit of `table`; None if the table lacks the unit.

    Args:
        unit: the unit, such as "mA", "2.69 mA" or "% of 1.27 N m".
        table: sizes of the known units by name, such as `TORQUES`.
    """
    found = _UNIT.fullmatch(unit)
    name = "" if found is None else SAME_UNIT.get(found["name"], found["name"])
    if found is None or name not in table:
        return None
    share = 1.0 if found["rated"] is None else 0.01 * float(found["rated"])
    factor = float(found["size"] or 1.0) * share * table[name]
    return factor if 0.0 < factor < np.inf else None


def quantity_of(text: str) -> Quantity:
    """Parse a command-line option with one unit for all joints, or with comma-separated units, one per joint.

    Each unit may end with `at motor` or `at joint`, such as `mA` or `% of 1.27 N m at motor`.

    Raises:
        ConfigurationError: some units are at the motor and others at the joint.
    """
    parts = [one.strip() for one in text.split(",")]
    sides = {one.rpartition(" at ")[2] for one in parts if one.endswith((" at motor", " at joint"))} or {"joint"}
    if len(sides) > 1 or (sides == {"motor"} and not all(one.endswith(" at motor") for one in parts)):
        raise ConfigurationError(f"'{text}' names both sides of the gears; expected one side for all joints")
    units = tuple(one.removesuffix(" at motor").removesuffix(" at joint") for one in parts)
    side: Side = "motor" if sides == {"motor"} else "joint"
    return Quantity(unit=units[0] if len(units) == 1 else units, side=side)


def _factors(quantity: Quantity, robot: Robot, what: str, turning: Units, sliding: Units) -> FloatArray:
    """Return the factors (n,) from raw numbers to SI units, as the product of unit, sign and ratio of each axis.

    Args:
        quantity: unit, sign and ratio of the raw numbers.
        robot: the recorded robot.
        what: name of the quantity, for messages.
        turning: sizes of the units that are valid for revolute joints, by name.
        sliding: sizes of the units that are valid for prismatic joints, by name.

    Raises:
        ConfigurationError: a unit is unknown, or `quantity` has a list whose length is not the number of joints.
    """
    if wrong := quantity.other_lengths(robot.size):
        raise ConfigurationError(
            f"the {what}s of robot '{robot.name}': {wrong}; expected one for all or {robot.size}, one per joint"
        )
    factors = []
    for unit, joint in zip(quantity.units(robot.size), robot.file.joints, strict=True):
        table = sliding if joint.prismatic and quantity.side == "joint" else turning
        factor = unit_factor(unit, table)
        if factor is None:
            known = ", ".join(table)
            hint = f"; {FORMS}" if what == "torque" else ""
            raise ConfigurationError(
                f"the mapping gives {what} of joint {joint.name} in '{unit}'; expected {known}{hint}"
            )
        factors.append(factor)
    return np.array(factors) * quantity.factors(robot.size)


class Conversion:
    """Conversion of raw numbers of all axes, (N, n), to values at the joints, in two steps.

    The first step multiplies every axis by a factor. It gives rad (or m) and N m (or N) on the side of the gears where
    the numbers were measured. The second step applies gear ratios and coupling, which mixes the axes. So operations on
    single axes, such as unwrapping of angles, belong between the two steps.

    Args:
        robot: the recorded robot.
        position: unit and side of positions; None is rad and m at the joints.
        torque: unit and side of torques; None is N m and N at the joints.

    Attributes:
        position_factors: factors of the first step for positions, (n,).
        torque_factors: factors of the first step for torques, (n,).
        torque_constants: constants that convert currents to torques [N m/A at the joints], (n,); () if torques are
            read.

    Raises:
        ConfigurationError: a unit is unknown or does not fit a joint, currents and torques are mixed, or torque
            constants are missing.
    """

    def __init__(self, robot: Robot, position: Quantity | None = None, torque: Quantity | None = None) -> None:
        self.robot, self._position, self._torque = robot, position or SI, torque or SI
        ones = np.ones(robot.size)
        self.position_factors = ones if position is None else length_factors(position, robot)
        self.torque_factors, currents = (ones, False) if torque is None else torque_factors(torque, robot)
        self.torque_constants = tuple(robot.joint_constants.tolist()) if currents else ()
        self._through_gears = currents or self._torque.side == "motor"

    @property
    def positions_at_joints(self) -> bool:
        """Whether positions were measured on the joint side of the gears."""
        return self._position.side == "joint"

    @property
    def positions_separate(self) -> bool:
        """Whether the position of each joint depends on one recorded axis alone."""
        return self.positions_at_joints or not Transmission(self.robot).coupled

    def speed_limits(self) -> FloatArray:
        """Return the maximum speed of each axis, (n,) [rad/s or m/s].

        The speed refers to the side of the gears where positions were measured.
        """
        own = self.robot.velocity_limits
        return own if self._position.side == "joint" else own * np.abs(self.robot.gear_ratios)

    def joint_positions(self, own: FloatArray) -> FloatArray:
        """Convert positions (N, n) [rad or m] to positions at the joints, (N, n).

        Args:
            own: positions on the side of the gears where they were measured, (N, n) [rad or m].
        """
        at = Transmission(self.robot).joint_motion(own) if self._position.side == "motor" else own
        return np.asarray(at + np.array(self._position.offset), dtype=np.float64)

    def joint_torques(self, own: FloatArray) -> FloatArray:
        """Convert torques (N, n) [N m or N] to torques at the joints, (N, n).

        Args:
            own: torques on the side of the gears where they were measured, (N, n) [N m or N].
        """
        return Transmission(self.robot).joint_torque(own) if self._through_gears else own


def joint_rates(raw: FloatArray, quantity: Quantity, robot: Robot) -> FloatArray:
    """Convert raw velocities to velocities at the joints, (N, n) [rad/s or m/s].

    Errors are those of `length_factors`.

    Args:
        raw: velocities as recorded, (N, n).
        quantity: unit, side, sign and ratio of the raw velocities.
        robot: the recorded robot.
    """
    rates = raw * length_factors(quantity, robot, rate=True)
    return rates if quantity.side == "joint" else Transmission(robot).joint_motion(rates)


def length_factors(quantity: Quantity, robot: Robot, *, rate: bool = False) -> FloatArray:
    """Return the factors (n,) that convert raw positions to rad (or m), without the gear ratios.

    The converted positions still refer to the side of the gears on which they were measured.

    Args:
        quantity: unit, side, sign and ratio of the raw numbers.
        robot: the recorded robot.
        rate: whether the raw numbers are velocities; the factors then convert to rad/s (or m/s).

    Raises:
        ConfigurationError: a unit is unknown, or does not fit the kind of joint.
    """
    turning, sliding = TURNING, SLIDING
    if quantity.counts_per_turn is not None:
        turning = turning | {"count": 2.0 * np.pi / quantity.counts_per_turn}
    if rate:
        turning, sliding = ({f"{unit}/s": factor for unit, factor in table.items()} for table in (turning, sliding))
        turning["rpm"] = 2.0 * np.pi / 60.0
    return _factors(quantity, robot, "velocity" if rate else "position", turning, sliding)


def torque_factors(quantity: Quantity, robot: Robot) -> tuple[FloatArray, bool]:
    """Return the factors (n,) from raw torques or currents to N m (or N), and whether the numbers are currents.

    The converted torques still refer to the side of the gears on which they were measured.

    Args:
        quantity: unit, side, sign and ratio of the raw numbers.
        robot: the recorded robot.

    Raises:
        ConfigurationError: a unit is unknown or does not fit, currents and torques are mixed, or a torque constant is
            missing.
    """
    currents = [unit_factor(unit, CURRENTS) is not None for unit in quantity.units(robot.size)]
    if all(currents):
        return _factors(quantity, robot, "torque", CURRENTS, CURRENTS) * robot.torque_constants, True
    if any(currents):
        raise ConfigurationError("the mapping gives some torques as currents and some not; expected one kind")
    return _factors(quantity, robot, "torque", TORQUES | CURRENTS, FORCES | CURRENTS), False
