"""What the columns of a CSV recording are: names, units, signs, ratios, on which side of the gears, which rows.

    schema_version: 1
    rate_hz: 100                  # or   time: {column: t, unit: ms}
    position: {columns: [q1, q2], unit: deg}
    torque: {columns: [i1, i2], unit: A}

Everything else has a default; `ColumnGroup` and `CsvMapping` say what there is.
"""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from dynid.errors import ConfigurationError
from dynid.resources import load_validated
from dynid.robot import FloatArray, Positive, Robot, Strict

Column = str | Annotated[int, Field(ge=1)]
Units = dict[str, float]
PerJoint = float | tuple[float, ...]
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
TURNING = {"rad": 1.0, "deg": np.pi / 180.0, "rev": 2.0 * np.pi}
SLIDING = {"m": 1.0, "mm": 1e-3}
TORQUES = {"N m": 1.0, "mN m": 1e-3}
FORCES = {"N": 1.0}
CURRENTS = {"A": 1.0, "mA": 1e-3}


class TimeColumn(Strict):
    """The column that holds time; it starts anywhere and grows with every row."""

    column: Column
    unit: Literal["s", "ms", "us", "ns"] = "s"


class ColumnGroup(Strict):
    """One column per axis, in the order of the robot's joints.

    file: another CSV beside the one that was named, row by row the same instants; None is that one.
    columns: names in the header, or numbers counted from 1.
    unit: one for all, or one per axis.
    side: where it was measured; `motor` values pass the gear ratios and the coupling of robot.yaml.
    sign, ratio: factors on the raw values, besides unit and gear; one for all, or one per axis.
    offset: added to positions at last, on the joint's side [rad or m].
    """

    file: str | None = None
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]
    unit: str | tuple[str, ...]
    side: Literal["joint", "motor"] = "joint"
    sign: tuple[Literal[-1, 1], ...] = ()
    ratio: PerJoint = 1.0
    offset: PerJoint = 0.0
    counts_per_turn: Positive | None = None

    @model_validator(mode="after")
    def _lengths(self) -> "ColumnGroup":
        wanted = len(self.columns)
        given = {
            "unit": wanted if isinstance(self.unit, str) else len(self.unit),
            "sign": len(self.sign) or wanted,
            "ratio": wanted if isinstance(self.ratio, float) else len(self.ratio),
            "offset": wanted if isinstance(self.offset, float) else len(self.offset),
        }
        wrong = [f"{key} has {got} entries" for key, got in given.items() if got != wanted]
        if wrong:
            raise ValueError(f"{'; '.join(wrong)}; expected one for all or {wanted}, one per column")
        return self

    @property
    def units(self) -> tuple[str, ...]:
        """The unit of every column."""
        return (self.unit,) * len(self.columns) if isinstance(self.unit, str) else self.unit

    def factors(self) -> FloatArray:
        """sign times ratio of every column, (n,)."""
        sign = np.array(self.sign or (1,) * len(self.columns), dtype=np.float64)
        return np.asarray(sign * np.broadcast_to(np.array(self.ratio, dtype=np.float64), sign.shape))


class CsvMapping(Strict):
    """The schema of a mapping file.

    rate_hz: rows per second, where no column holds time.
    rows: first data row that is used and the one after the last, counted from 0 below the header; None: all.
    delimiter: between fields; "space" for any number of blanks.
    decimal: the decimal sign.
    skip_corrupt_rows: leave out rows that cannot be read, instead of refusing the file.
    mount: how the arm was mounted; None is the robot's default.
    torque_delay_s: from the stamp of a torque to the middle of its effect; 0 of measured torques.
    velocity: recorded velocities, used to check units only.
    """

    schema_version: Literal[1]
    rate_hz: Positive | None = None
    time: TimeColumn | None = None
    rows: tuple[Annotated[int, Field(ge=0)], int | None] | None = None
    delimiter: Literal[",", ";", "tab", "space"] = ","
    decimal: Literal[".", ","] = "."
    skip_corrupt_rows: bool = False
    mount: str | None = None
    torque_delay_s: float = 0.0
    position: ColumnGroup
    torque: ColumnGroup
    velocity: ColumnGroup | None = None

    @property
    def groups(self) -> dict[str, ColumnGroup]:
        """What is measured, by name."""
        found = {"position": self.position, "torque": self.torque, "velocity": self.velocity}
        return {name: group for name, group in found.items() if group is not None}

    @model_validator(mode="after")
    def _time(self) -> "CsvMapping":
        if (self.rate_hz is None) == (self.time is None):
            raise ValueError("give either rate_hz or time, so that rows have times")
        if self.decimal == "," and self.delimiter == ",":
            raise ValueError("the decimal sign and the delimiter cannot both be a comma")
        if self.rows is not None and self.rows[1] is not None and self.rows[1] <= self.rows[0]:
            raise ValueError(f"rows {list(self.rows)} is an empty range; the second number is the row after the last")
        return self


def load_mapping(path: Path) -> CsvMapping:
    """Read a mapping file; errors name the file, the field and what was expected."""
    return load_validated(path, CsvMapping)


def _factors(group: ColumnGroup, robot: Robot, what: str, turning: Units, sliding: Units) -> FloatArray:
    """Factors of all columns from their units, where joints that slide have others, and from sign and ratio, (n,)."""
    factors = []
    for unit, joint in zip(group.units, robot.file.joints, strict=True):
        table = sliding if joint.prismatic and group.side == "joint" else turning
        if unit not in table:
            known = ", ".join(table)
            raise ConfigurationError(f"the mapping gives {what} of joint {joint.name} in '{unit}'; expected {known}")
        factors.append(table[unit])
    return np.array(factors) * group.factors()


def length_factors(group: ColumnGroup, robot: Robot, *, rate: bool = False) -> FloatArray:
    """From raw positions (or rates) to rad or m (per second) on the group's own side, (n,).

    Raises:
        ConfigurationError: a unit that is not known, or does not fit to the kind of joint.
    """
    turning, sliding = TURNING, SLIDING
    if group.counts_per_turn is not None:
        turning = turning | {"count": 2.0 * np.pi / group.counts_per_turn}
    if rate:
        turning, sliding = ({f"{unit}/s": factor for unit, factor in table.items()} for table in (turning, sliding))
        turning["rpm"] = 2.0 * np.pi / 60.0
    return _factors(group, robot, "velocity" if rate else "position", turning, sliding)


def torque_factors(group: ColumnGroup, robot: Robot) -> tuple[FloatArray, bool]:
    """From raw values to N m (or N) on the drives' or the joints' side, (n,), and whether they were currents.

    Raises:
        ConfigurationError: a unit that is not known or does not fit; currents beside torques; no torque constant.
    """
    currents = [unit in CURRENTS for unit in group.units]
    if all(currents):
        return _factors(group, robot, "torque", CURRENTS, CURRENTS) * robot.torque_constants, True
    if any(currents):
        raise ConfigurationError("the mapping gives some torques as currents and some not; expected one kind")
    return _factors(group, robot, "torque", TORQUES | CURRENTS, FORCES | CURRENTS), False
