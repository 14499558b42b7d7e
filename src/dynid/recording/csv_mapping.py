"""Schema of a mapping file for CSV recordings: columns, rows, units, signs, ratios, and side (motor or joint).

    schema_version: 1
    rate_hz: 100                  # or   time: {column: t, unit: ms}
    position: {columns: [q1, q2], unit: deg}
    torque: {columns: [i1, i2], unit: A}

All other fields have defaults; see `ColumnGroup`, `Quantity` and `CsvMapping`.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from dynid.errors import cut, shown
from dynid.recording.quantity import Quantity
from dynid.robot import Positive, Strict

Column = str | Annotated[int, Field(ge=1)]
TIME_UNITS = {"iso": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class TimeColumn(Strict):
    """Time column of a CSV file; time may start at any value and increases with every row.

    unit: unit of the stamps; "iso" for dates with times, such as 2026-11-27T08:15:25.125Z.
    """

    column: Column
    unit: Literal["s", "ms", "us", "ns", "iso"] = "s"


class ColumnGroup(Quantity):
    """Columns of one measured quantity, one per axis in the order of the robot's joints.

    file: another CSV file in the same folder, with the same row times as the main file; None is the main file.
    columns: names in the header, or numbers counted from 1.
    """

    file: str | None = None
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _lengths(self) -> "ColumnGroup":
        wanted = len(self.columns)
        if wrong := self.other_lengths(wanted):
            raise ValueError(f"{wrong}; expected one for all or {wanted}, one per column")
        return self


class CsvMapping(Strict):
    """Schema of a mapping file for CSV recordings.

    rate_hz: rows per second; only for files without a time column.
    rows: index of the first data row to use and of the row after the last, counted from 0 below the header; None uses
        all rows.
    delimiter: delimiter between fields; "space" for any number of blanks.
    decimal: the decimal sign.
    skip_corrupt_rows: whether unreadable rows are left out; otherwise the file is refused.
    mount: name of the arm's mount (how it is fixed) during the recording; None is the robot's default.
    torque_delay_s: delay from the stamp of a commanded torque to the middle of the time in which it acts [s]; 0 for
        measured torques.
    velocity: columns of recorded velocities, used only to check units.
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
        """Column groups of the measured quantities, by name."""
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

    @model_validator(mode="after")
    def _columns(self) -> "CsvMapping":
        """Raise ValueError if two quantities name the same column of a file."""
        named = [(group.file, column, name) for name, group in self.groups.items() for column in group.columns]
        named += [] if self.time is None else [(None, self.time.column, "time")]
        seen: dict[tuple[str | None, Column], str] = {}
        for file, column, name in named:
            if (earlier := seen.get((file, column))) is not None:
                where = "" if file is None else f" of {cut(file)}"
                raise ValueError(
                    f"column {shown(column)}{where} is named for {earlier} and again for {name}; expected another "
                    "column for each value"
                )
            seen[file, column] = name
        return self
