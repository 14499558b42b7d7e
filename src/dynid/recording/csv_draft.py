"""Draft of a mapping file for a CSV recording, derived from its header and values, with a list of assumptions."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import DataError, cut
from dynid.recording.csv_header import Header, header_of
from dynid.recording.csv_mapping import TIME_UNITS
from dynid.recording.csv_names import (
    KINDS,
    UNITS_OF_KIND,
    UNKNOWN,
    ColumnName,
    clock_unit,
    column_name,
    joint_number,
    stamp_part,
)
from dynid.recording.csv_table import is_instant, number, read_table
from dynid.recording.csv_units import current_unit, length_units, rate_unit, time_unit
from dynid.robot import FloatArray, Robot


@dataclass
class Draft:
    """Drafted mapping of a CSV recording.

    Attributes:
        content: content of the mapping file.
        assumed: assumptions that the CSV file does not confirm, one phrase each.
    """

    content: dict[str, Any]
    assumed: list[str] = field(default_factory=list)


def draft_mapping(csv: Path, robot: Robot, rate_hz: float | None) -> Draft:
    """Draft the mapping file of a CSV recording for a robot.

    Args:
        csv: path of the CSV file.
        robot: the recorded robot.
        rate_hz: rows per second, used if the file has no time column; None if unknown.

    Raises:
        DataError: time, positions or torques have no column, or several possible ones; the message suggests a
            correction.
    """
    header = header_of(csv)
    content: dict[str, Any] = {"schema_version": 1, "delimiter": header.delimiter}
    content |= {"decimal": ","} if header.decimal == "," else {}
    draft, clock = Draft(content), _clock(header)
    told = [None if k == clock else column_name(name, robot.joint_names) for k, name in enumerate(header.names)]
    groups = {kind: _series(csv, told, kind, robot) for kind in KINDS}
    loads = groups["torque"] or groups["current"]
    if any("motor" in one.rest for place in groups["position"] + loads if (one := told[place]) is not None):
        draft.assumed.append("values named after motors are on the joints' side of the gears, else set 'side: motor'")
    for kind, found in (("position", groups["position"]), ("torque", loads)):
        if not found:
            raise _missing(csv, kind, header, told, robot)
    _draft_time(draft, csv, header, clock, rate_hz)
    draft.content["position"] = _positions(draft, csv, header, told, groups["position"], robot)
    draft.content["torque"] = _torques(draft, csv, header, told, loads, robot)
    if groups["velocity"]:
        _draft_velocities(draft, csv, header, told, groups, robot)
    for kind in ("position", "torque"):
        _tell_series(draft, header, told, groups["position"] if kind == "position" else loads, kind, robot)
    return draft


def _tell_series(
    draft: Draft, header: Header, told: list[ColumnName | None], places: list[int], kind: str, robot: Robot
) -> None:
    """Add notes to a drafted mapping if the columns of a quantity, or the joints of these columns, are guessed.

    If the name of a column contains a word without a known meaning, other than "motor", one note gives the first of
    the quantity's columns as an example. If some names contain a joint's name and others only a number, a note for each
    of the others gives the joint to which the number is assigned.

    Args:
        draft: the drafted mapping.
        header: header of the CSV file.
        told: interpretation of every column; None for the time column.
        places: indices of the columns of the quantity, in joint order.
        kind: name of the quantity.
        robot: the robot.
    """
    found = [told[place] for place in places]
    if any(one is not None and one.rest and one.rest != ("motor",) for one in found):
        draft.assumed.append(f"the joints' {kind} is taken from '{header.names[places[0]]}' and its like")
    if any(one is not None and one.joint is not None for one in found):
        draft.assumed += [
            f"'{one.name}' is joint {robot.joint_names[k]}, by its number"
            for k, one in enumerate(found)
            if one is not None and one.joint is None
        ]


def _missing(csv: Path, kind: str, header: Header, told: list[ColumnName | None], robot: Robot) -> DataError:
    words = ", ".join(KINDS[kind].split()[:3])
    if any(one in robot.joint_names for one in header.first):
        return DataError(
            f"{csv} has a row for each joint; expected a row for each time, with columns such as q1,q2,...: pivot it, "
            "in pandas with table.pivot(index='time', columns='joint')"
        )
    found = {one.joint for one in told if one is not None and one.kind == kind and not one.commanded}
    absent = [name for k, name in enumerate(robot.joint_names) if k not in found]
    partly = f"; joint {', '.join(absent)} has none" if found - {None} and absent else ""
    return DataError(
        f"{csv} has no {robot.size} measured {kind} columns for robot '{robot.name}' by name ({words} with a number, "
        f"or with the joints' names {', '.join(robot.joint_names)}){partly}; its columns are "
        f"{cut(', '.join(header.names), 300)}: name another robot with --robot, rename the columns, or write the "
        "mapping by hand"
    )


def _series(csv: Path, told: list[ColumnName | None], kind: str, robot: Robot) -> list[int]:
    """Return the indices of the columns that hold one quantity, one per joint in joint order.

    A series is a set of columns whose names differ only in the joint. The result is [] if no series has one column for
    each joint. If several have, a series whose only additional word states a measurement, such as "actual", is
    preferred. If there is none, a series without additional words is preferred.

    Args:
        csv: path of the CSV file.
        told: interpretation of every column; None for the time column.
        kind: kind of quantity, a key of `KINDS`.
        robot: the robot.

    Raises:
        DataError: several series have one column for each joint, and the preference does not leave exactly one.
    """
    fitting = _whole_series(told, kind, robot, counted=False) or _whole_series(told, kind, robot, counted=True)
    best = [one for one in fitting if one[0] == ("measured",)] or [one for one in fitting if one[0] == ()] or fitting
    if len(best) > 1:
        shown = "; ".join(str(next(one.name for one in [told[found[0]]] if one)) for _, found in best)
        raise DataError(
            f"{csv} has several series of {kind}, which begin with {shown}: keep one in the file, or write the mapping "
            "by hand"
        )
    return best[0][1] if best else []


def _whole_series(
    told: list[ColumnName | None], kind: str, robot: Robot, counted: bool
) -> list[tuple[tuple[str, ...], list[int]]]:
    """Return all series of columns of one quantity that have one column for each joint.

    Args:
        told: interpretation of every column; None for the time column.
        kind: kind of quantity, a key of `KINDS`.
        robot: robot whose joints a series must contain.
        counted: whether a column with a joint's name, such as `joint1`, also counts as a column with the number in this
            name, provided that it is the joint's place in the robot, counted from 1. If True, columns with joint names
            and columns with only numbers may form one series, and the numbers of a series must begin at 1. If False,
            they may begin at any number.

    Returns:
        For each series, the words in its column names that distinguish it from others, and the columns' indices in
        joint order.
    """
    named: dict[tuple[str, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    numbered: dict[tuple[str, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, one in enumerate(told):
        if one is None or one.kind != kind or one.commanded:
            continue
        key = (*one.rest, *(("measured",) if one.measured else ()))
        number = one.number
        if one.joint is not None:
            named[key][one.joint].append(place)
            number = joint_number(robot.joint_names[one.joint]) if counted else None
        if number is not None and (one.joint is None or number == one.joint + 1):
            numbered[key][number].append(place)
    n, fitting = robot.size, []
    for groups in (named, numbered):
        for key, places in groups.items():
            first = min(places)
            begins = first == 0 if groups is named else not counted or first == 1
            whole = sorted(places) == list(range(first, first + n)) and begins
            if whole and all(len(one) == 1 for one in places.values()):
                fitting.append((key, [places[k][0] for k in sorted(places)]))
    return fitting


def _clock(header: Header) -> int | None:
    """Return the index of the time column, recognised by its name or by date values; None if there is none."""
    names = [k for k, name in enumerate(header.names) if clock_unit(name.lstrip("%_ ")) is not None]
    instants = [k for k, one in enumerate(header.first) if is_instant(one)]
    return next(iter([*names, *instants]), None)


def _draft_time(draft: Draft, csv: Path, header: Header, clock: int | None, rate_hz: float | None) -> None:
    if clock is None:
        if rate_hz is None:
            raise DataError(f"{csv} has no column of time: give the rate of its rows with --rate-hz")
        draft.content["rate_hz"] = rate_hz
        return
    column, first, name = header.column(clock), header.first[clock], header.names[clock]
    if is_instant(first):
        draft.content["time"] = {"column": column, "unit": "iso"}
        return
    _refuse_time(csv, header, clock)
    unit = clock_unit(name.lstrip("%_ "))
    if not unit:
        try:
            unit, why = time_unit(_values(csv, header, [clock])[:, 0])
        except DataError as error:
            raise DataError(f"{csv}, column '{name}': {error}") from error
        draft.assumed.append(why)
    draft.content["time"] = {"column": column, "unit": unit}


def _refuse_time(csv: Path, header: Header, clock: int) -> None:
    """Raise DataError if the time column cannot be used.

    It cannot be used if it contains text other than dates, or if its name states an unsupported unit. The column is
    also refused if another column contains the fractional seconds.

    Args:
        csv: path of the CSV file.
        header: header of the file.
        clock: index of the time column.
    """
    name, first = header.names[clock], header.first[clock]
    what = f"{csv} has times such as '{first}' in column '{name}'"
    if number(first.replace(",", ".") if header.decimal == "," else first) is None:
        raise DataError(
            f"{what}; expected numbers, or dates such as 2026-11-27T08:15:25.125Z: write seconds since the start (in "
            "MATLAB: T.Time = seconds(T.Time - T.Time(1)) before writetable)"
        )
    unit = clock_unit(name.lstrip("%_ ")) or ""
    if unit and unit not in TIME_UNITS:
        raise DataError(f"{what} [{unit.lstrip(UNKNOWN)}]; expected s, ms, us or ns: convert it")
    part = next((k for k, one in enumerate(header.names) if k != clock and stamp_part(one)), None)
    if part is not None:
        size = "1e-6" if "us" in header.names[part].lower() or "micro" in header.names[part].lower() else "1e-9"
        raise DataError(
            f"{csv} has its times in two columns, '{name}' and '{header.names[part]}': add one column 't' with their "
            f"sum in s, {name} + {size} * {header.names[part]}, and delete both"
        )


def _draft_velocities(
    draft: Draft, csv: Path, header: Header, told: list[ColumnName | None], groups: dict[str, list[int]], robot: Robot
) -> None:
    """Add recorded velocities to the draft, in the unit stated in the column names or derived from the positions.

    If the names state no unit, the unit is the one in which the velocities equal the rate of change of the positions.
    If there is no such unit, the velocities are left out.

    Args:
        draft: the draft, which already contains positions and time.
        csv: path of the CSV file.
        header: header of the file.
        told: interpretation of every column; None for the time column.
        groups: indices of the columns in joint order, by quantity.
        robot: the robot.
    """
    places = groups["velocity"]
    columns, units = [header.column(place) for place in places], draft.content["position"]["unit"]
    stated = _stated(csv, told, places, "velocity")
    if stated:
        draft.content["velocity"] = {"columns": columns, "unit": [stated] * robot.size}
        return
    rows = _values(csv, header, [*groups["position"], *places])
    time = _times(draft, csv, header, len(rows))
    found = rate_unit(rows[:, robot.size :], rows[:, : robot.size], time, units, robot)
    if found:
        draft.assumed.append(f"velocities are in {found}, the unit in which they are the rate of the positions")
        draft.content["velocity"] = {"columns": columns, "unit": [found] * robot.size}
    else:
        draft.assumed.append(
            f"'{header.names[places[0]]}' and its like are left out: they are not the rate of the positions in rad/s, "
            "deg/s or rpm. Velocities are not needed"
        )


def _times(draft: Draft, csv: Path, header: Header, rows: int) -> FloatArray:
    """Return the times (N,) [s] of all rows of a CSV file, from the draft's time column or rate.

    Args:
        draft: the draft.
        csv: path of the file.
        header: header of the file.
        rows: number of rows N.
    """
    if "time" not in draft.content:
        return np.arange(rows) / float(draft.content["rate_hz"])
    column, unit = draft.content["time"]["column"], draft.content["time"]["unit"]
    dated = column if unit == "iso" else None
    table = read_table(csv, [column], delimiter=header.delimiter, decimal=header.decimal, instants=dated)
    stamps = table.values[:, 0]
    return np.asarray(TIME_UNITS[unit] * (stamps - stamps[0]))


def _stated(csv: Path, told: list[ColumnName | None], places: list[int], kind: str) -> str:
    """Return the unit that the names of a quantity's columns state; "" if they state none.

    Args:
        csv: path of the CSV file, for messages.
        told: interpretation of every column; None for the time column.
        places: indices of the quantity's columns.
        kind: kind of quantity, a key of `UNITS_OF_KIND`.

    Raises:
        DataError: a unit in brackets is not known, the columns state different units, or the unit belongs to another
            quantity.
    """
    units = {one.unit for place in places if (one := told[place]) is not None}
    unit = units.pop() if len(units) == 1 else UNKNOWN
    if unit and unit not in UNITS_OF_KIND[kind]:
        names = ", ".join(one.name for place in places if (one := told[place]) is not None)
        raise DataError(
            f"{csv} has {kind} columns {names}; expected one unit for all of them, one of "
            f"{', '.join(UNITS_OF_KIND[kind])}: convert them and rename the columns, or write the mapping by hand"
        )
    return unit


def _values(csv: Path, header: Header, places: list[int]) -> FloatArray:
    columns = [header.column(place) for place in places]
    return read_table(csv, columns, delimiter=header.delimiter, decimal=header.decimal).values


def _positions(
    draft: Draft, csv: Path, header: Header, told: list[ColumnName | None], places: list[int], robot: Robot
) -> dict[str, Any]:
    columns, stated = [header.column(place) for place in places], _stated(csv, told, places, "position")
    if stated:
        sliding = stated if stated in ("m", "mm") else "m"
        turning = stated if stated not in ("m", "mm") else "rad"
        return {"columns": columns, "unit": [sliding if slides else turning for slides in robot.prismatic]}
    try:
        units = length_units(_values(csv, header, places), [header.names[place] for place in places], robot)
    except DataError as error:
        raise DataError(f"{csv}: {error}") from error
    draft.assumed.append(
        f"positions are in {', '.join(dict.fromkeys(units))}, the unit in which they are within the limits"
    )
    return {"columns": columns, "unit": units}


def _torques(
    draft: Draft, csv: Path, header: Header, told: list[ColumnName | None], places: list[int], robot: Robot
) -> dict[str, Any]:
    columns = [header.column(place) for place in places]
    kind = one.kind if (one := told[places[0]]) is not None else "torque"
    stated = _stated(csv, told, places, kind)
    if stated == "%":
        raise DataError(
            f"{csv} gives {header.names[places[0]]} in per cent of an unknown reference: write the mapping by hand, "
            "with a unit such as '% of 1.27 N m'"
        )
    if stated:
        units = [stated if not slides or stated not in ("N m", "mN m", "kg cm") else "N" for slides in robot.prismatic]
        return {"columns": columns, "unit": units}
    if kind == "current":
        unit, why = current_unit(_values(csv, header, places), robot)
        draft.assumed.append(why)
        return {"columns": columns, "unit": [unit] * robot.size}
    units = ["N" if slides else "N m" for slides in robot.prismatic]
    draft.assumed.append(f"torques are in {', '.join(dict.fromkeys(units))} at the joints")
    return {"columns": columns, "unit": units}
