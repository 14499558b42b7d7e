"""Draft of a mapping for a CSV recording, made from its header and values, with a list of the assumptions."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import DataError
from dynid.recording.csv_names import KINDS, UNITS_OF_KIND, ColumnName, clock_unit, column_name
from dynid.recording.csv_table import is_instant, read_table
from dynid.robot import FloatArray, Robot

STEPS_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
SLOWEST_S = 0.5  # largest plausible time between rows [s]; if it is longer, the unit of time is smaller
SAMPLE_LINES = 40  # number of lines from which delimiter and decimal sign are determined
LEAST_COLUMNS = 3
MOST_LIMIT_RATIO = 3.0  # a current beyond this multiple of its limit is in another unit
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(e[-+]?\d+)?", re.IGNORECASE)
Column = str | int


@dataclass
class Draft:
    """Drafted mapping of a CSV recording.

    Attributes:
        content: content of the mapping file.
        assumed: assumptions that the CSV file does not confirm, one phrase each.
    """

    content: dict[str, Any]
    assumed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Header:
    """Header of a CSV file: column names, delimiter, decimal sign, first row, and whether a comment holds the names.

    A mapping refers to a column by its number if its name is empty or repeated, or if the header is a comment.
    """

    names: tuple[str, ...]
    delimiter: str
    decimal: str
    first: tuple[str, ...]
    commented: bool

    def column(self, place: int) -> Column:
        """Return the name or number by which a mapping refers to a column, given its index from 0."""
        name = self.names[place]
        plain = not self.commented and name and self.names.count(name) == 1
        return name if plain else place + 1


def header_of(csv: Path) -> Header:
    """Return the header of a CSV file.

    Raises:
        DataError: the file has no header, or too few columns.
    """
    lines = []
    with csv.open(encoding="utf-8-sig") as stream:
        for line in stream:
            if line.strip():
                lines.append(line.rstrip("\r\n"))
            if len(lines) > SAMPLE_LINES:
                break
    commented = [one for one in lines if one.startswith("#")]
    data = [one for one in lines if not one.startswith("#")]
    for delimiter, sign in ((";", ";"), ("tab", "\t"), (",", ","), ("space", None)):
        rows = [_fields(one, sign) for one in data]
        if len(rows) < 2 or len(rows[1]) < LEAST_COLUMNS:
            continue
        decimal = "," if sign != "," and any(DECIMAL_COMMA.fullmatch(one) for one in rows[1]) else "."
        if not any(_is_value(one) for one in rows[0]) and len(rows[0]) == len(rows[1]):
            return Header(tuple(rows[0]), delimiter, decimal, tuple(rows[1]), commented=False)
        named = _fields(commented[-1].lstrip("# "), sign) if commented else []
        if len(named) == len(rows[0]):
            return Header(tuple(named), delimiter, decimal, tuple(rows[0]), commented=True)
    raise DataError(
        f"{csv} has no header with a name for every column: add one, such as t,q1,q2,...,tau1,tau2,..., or write the "
        "mapping by hand, columns by number from 1"
    )


def _fields(line: str, sign: str | None) -> list[str]:
    return [one.strip().strip('"') for one in line.split(sign)]


def _is_value(text: str) -> bool:
    return re.fullmatch(r"[-+]?[\d.,]+(e[-+]?\d+)?", text, re.IGNORECASE) is not None or is_instant(text)


def draft_mapping(csv: Path, robot: Robot, rate_hz: float | None) -> Draft:
    """Draft the mapping of a CSV file for a robot; `rate_hz` is used if the file has no column of time.

    Raises:
        DataError: no columns, or several sets of columns, look like time, positions or torques; the message names the
            cure.
    """
    header = header_of(csv)
    content: dict[str, Any] = {"schema_version": 1, "delimiter": header.delimiter}
    content |= {"decimal": ","} if header.decimal == "," else {}
    draft, clock = Draft(content), _clock(header)
    parsed = [None if k == clock else column_name(name, robot.joint_names) for k, name in enumerate(header.names)]
    groups = {kind: _series(csv, parsed, kind, robot) for kind in KINDS}
    loads = groups["torque"] or groups["current"]
    if any("motor" in one.rest for place in groups["position"] + loads if (one := parsed[place]) is not None):
        draft.assumed.append("values named after motors are on the joints' side of the gears, else set 'side: motor'")
    for kind, found in (("position", groups["position"]), ("torque", loads)):
        if not found:
            raise _missing(csv, kind, header, robot)
    _draft_time(draft, csv, header, clock, rate_hz)
    draft.content["position"] = _positions(draft, csv, header, parsed, groups["position"], robot)
    draft.content["torque"] = _torques(draft, csv, header, parsed, loads, robot)
    if groups["velocity"]:
        rates = _stated(parsed, groups["velocity"], "velocity")
        usual = [f"{unit}/s" for unit in draft.content["position"]["unit"]]
        columns = [header.column(place) for place in groups["velocity"]]
        draft.content["velocity"] = {"columns": columns, "unit": [rates] * robot.size if rates else usual}
    return draft


def _missing(csv: Path, kind: str, header: Header, robot: Robot) -> DataError:
    words = ", ".join(KINDS[kind].split()[:3])
    return DataError(
        f"{csv} has no {robot.size} measured {kind} columns for robot '{robot.name}' by name ({words} with a number, "
        f"or with the joints' names {', '.join(robot.joint_names)}); its columns are {', '.join(header.names)}: name "
        "another robot with --robot, rename the columns, or write the mapping by hand"
    )


def _series(csv: Path, parsed: list[ColumnName | None], kind: str, robot: Robot) -> list[int]:
    """Return the indices of the columns of one kind in joint order; [] if there are none.

    Raises:
        DataError: several series of columns fit.
    """
    named: dict[tuple[str, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    numbered: dict[tuple[str, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, one in enumerate(parsed):
        if one is None or one.kind != kind or one.commanded:
            continue
        key = (*one.rest, *(("measured",) if one.measured else ()))
        if one.joint is not None:
            named[key][one.joint].append(place)
        elif one.number is not None:
            numbered[key][one.number].append(place)
    n, fitting = robot.size, []
    for groups in (named, numbered):
        for key, places in groups.items():
            first = min(places)
            whole = sorted(places) == list(range(first, first + n)) and (groups is numbered or first == 0)
            if whole and all(len(one) == 1 for one in places.values()):
                fitting.append((key, [places[k][0] for k in sorted(places)]))
    best = [one for one in fitting if one[0] == ("measured",)] or [one for one in fitting if one[0] == ()] or fitting
    if len(best) > 1:
        shown = "; ".join(str(next(one.name for one in [parsed[found[0]]] if one)) for _, found in best)
        raise DataError(
            f"{csv} has several series of {kind}, which begin with {shown}: keep one in the file, or write the mapping "
            "by hand"
        )
    return best[0][1] if best else []


def _clock(header: Header) -> int | None:
    """Return the index of the time column, found by its name or by its dates; None if there is none."""
    names = [k for k, name in enumerate(header.names) if clock_unit(name.lstrip("%_ ")) is not None]
    instants = [k for k, one in enumerate(header.first) if is_instant(one)]
    return next(iter([*names, *instants]), None)


def _draft_time(draft: Draft, csv: Path, header: Header, clock: int | None, rate_hz: float | None) -> None:
    if clock is None:
        if rate_hz is None:
            raise DataError(f"{csv} has no column of time: give the rate of its rows with --rate-hz")
        draft.content["rate_hz"] = rate_hz
        return
    column = header.column(clock)
    if is_instant(header.first[clock]):
        draft.content["time"] = {"column": column, "unit": "iso"}
        return
    unit = clock_unit(header.names[clock].lstrip("%_ "))
    if not unit:
        stamps = read_table(csv, [column], delimiter=header.delimiter, decimal=header.decimal).values[:, 0]
        step = float(np.nanmedian(np.diff(stamps)))
        unit = next((one for one in STEPS_S if 0.0 < step * STEPS_S[one] <= SLOWEST_S), "s")
        draft.assumed.append(f"time is in {unit}, as rows are {step:.6g} apart: {1.0 / (step * STEPS_S[unit]):.5g} Hz")
    draft.content["time"] = {"column": column, "unit": unit}


def _stated(parsed: list[ColumnName | None], places: list[int], kind: str) -> str:
    """Return the unit that all columns of a series state; "" if they state none, or one that does not fit the kind."""
    units = {one.unit for place in places if (one := parsed[place]) is not None}
    return units.pop() if len(units) == 1 and units <= {*UNITS_OF_KIND[kind]} else ""


def _values(csv: Path, header: Header, places: list[int]) -> FloatArray:
    columns = [header.column(place) for place in places]
    return read_table(csv, columns, delimiter=header.delimiter, decimal=header.decimal).values


def _positions(
    draft: Draft, csv: Path, header: Header, parsed: list[ColumnName | None], places: list[int], robot: Robot
) -> dict[str, Any]:
    columns, stated = [header.column(place) for place in places], _stated(parsed, places, "position")
    if stated:
        sliding = stated if stated in ("m", "mm") else "m"
        turning = stated if stated not in ("m", "mm") else "rad"
        return {"columns": columns, "unit": [sliding if slides else turning for slides in robot.prismatic]}
    units = _length_units(_values(csv, header, places), robot)
    draft.assumed.append(
        f"positions are in {', '.join(dict.fromkeys(units))}, the unit in which they are within the limits"
    )
    return {"columns": columns, "unit": units}


def _length_units(values: FloatArray, robot: Robot) -> list[str]:
    """Return units that bring positions (N, n) within the joints' limits, with preference for SI units."""
    units = []
    for column, low, high, slides in zip(values.T, robot.lower, robot.upper, robot.prismatic, strict=True):
        inside = np.nanmin(column) >= low - 0.2 and np.nanmax(column) <= high + 0.2
        units.append(("m" if inside else "mm") if slides else ("rad" if inside else "deg"))
    turning = {unit for unit, slides in zip(units, robot.prismatic, strict=True) if not slides}
    return [("deg" if "deg" in turning else unit) if unit in ("rad", "deg") else unit for unit in units]


def _torques(
    draft: Draft, csv: Path, header: Header, parsed: list[ColumnName | None], places: list[int], robot: Robot
) -> dict[str, Any]:
    columns = [header.column(place) for place in places]
    kind = one.kind if (one := parsed[places[0]]) is not None else "torque"
    stated = _stated(parsed, places, kind)
    if stated == "%":
        raise DataError(
            f"{csv} gives {header.names[places[0]]} in per cent of an unknown reference: write the mapping by hand, "
            "with a unit such as '% of 1.27 N m'"
        )
    if stated:
        units = [stated if not slides or stated not in ("N m", "mN m", "kg cm") else "N" for slides in robot.prismatic]
        return {"columns": columns, "unit": units}
    if kind == "current":
        largest = float(np.nanmax(np.abs(_values(csv, header, places))))
        limits = [one for one in (joint.current_limit_a for joint in robot.file.joints) if one is not None]
        unit = "mA" if limits and largest > MOST_LIMIT_RATIO * max(limits) else "A"
        draft.assumed.append(f"currents are in {unit}, as they reach {largest:.4g}")
        return {"columns": columns, "unit": [unit] * robot.size}
    units = ["N" if slides else "N m" for slides in robot.prismatic]
    draft.assumed.append(f"torques are in {', '.join(dict.fromkeys(units))} at the joints")
    return {"columns": columns, "unit": units}
