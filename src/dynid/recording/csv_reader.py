"""Reader of CSV recordings: converts them to a log in SI units at the joints and refuses impossible data."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynid.errors import DataError
from dynid.recording.bag_reader import sha256_of
from dynid.recording.csv_mapping import TIME_UNITS, CsvMapping
from dynid.recording.csv_table import BadRow, CsvTable, read_table
from dynid.recording.joint_log import joint_log, measured
from dynid.recording.log import Log
from dynid.recording.quantity import Conversion, joint_rates
from dynid.resources import guarded
from dynid.robot import FloatArray, Robot

MAPPING_HINT = "is its column, unit, sign, ratio, side or offset in the mapping right?"
MOST_LISTED = 5  # maximum number of corrupt rows that an error names
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".txt")


def is_csv(path: Path) -> bool:
    """Return whether a path names a CSV file, judged by its suffix."""
    return path.name.lower().endswith(SUFFIXES)


@dataclass(frozen=True, eq=False)
class _Content:
    """Raw columns of all CSV files of one recording, limited to the rows that are usable in every file.

    Attributes:
        time: times of the rows, (N,) [s].
        groups: raw values (N, n) by quantity, such as "position".
        notes: remarks on rows that were left out.
        files: paths of the files.
    """

    time: FloatArray
    groups: dict[str, FloatArray]
    notes: list[str]
    files: tuple[Path, ...]


def _read(path: Path, mapping: CsvMapping) -> _Content:
    """Read the columns of all files of a recording; refuse or leave out corrupt rows, as the mapping states.

    Raises:
        DataError: the files differ in length, a row is corrupt, or time does not increase; see also `read_table`.
    """
    wanted: dict[Path, list[tuple[str, Sequence[str | int]]]] = {path: []}
    if mapping.time is not None:
        wanted[path].append(("time", [mapping.time.column]))
    for name, group in mapping.groups.items():
        file = path if group.file is None else path.parent / group.file
        wanted.setdefault(file, []).append((name, group.columns))
    found: dict[str, FloatArray] = {}
    tables = []
    for file, groups in wanted.items():
        if not groups:
            continue
        columns = [column for _, one in groups for column in one]
        dated = mapping.time.column if mapping.time is not None and mapping.time.unit == "iso" else None
        dialect = {"delimiter": mapping.delimiter, "decimal": mapping.decimal}
        table = read_table(file, columns, **dialect, rows=mapping.rows, instants=dated if file == path else None)
        tables.append(table)
        ends = np.cumsum([len(one) for _, one in groups])
        parts = np.split(table.values, ends[:-1], axis=1)
        found |= {name: part for (name, _), part in zip(groups, parts, strict=True)}
    keep, notes = _usable_rows(tables, mapping)
    time = _instants(found.pop("time", None), keep, mapping, tables[0])
    notes += [note for table in tables for note in table.notes]
    used = found if keep.all() else {name: part[keep] for name, part in found.items()}
    return _Content(time, used, notes, tuple(table.path for table in tables))


def _usable_rows(tables: list[CsvTable], mapping: CsvMapping) -> tuple[FloatArray, list[str]]:
    """Return a mask (N,) of the rows that are intact in all files, and notes on the rows left out.

    Args:
        tables: columns of each file.
        mapping: states whether corrupt rows are skipped.

    Raises:
        DataError: the files differ in length, or rows are corrupt and the mapping does not skip them.
    """
    counts = {len(table.values) for table in tables}
    if len(counts) > 1:
        listed = ", ".join(f"{table.path.name} has {len(table.values)}" for table in tables)
        raise DataError(f"the files of one recording must have equally many rows: {listed}")
    keep = np.ones(counts.pop(), dtype=bool)
    notes = []
    for table in tables:
        if not table.bad:
            continue
        first = mapping.rows[0] if mapping.rows else 0
        keep[[bad.row - first for bad in table.bad]] = False
        listed = _listing(table.bad)
        if not mapping.skip_corrupt_rows:
            raise DataError(
                f"{table.path} has {len(table.bad)} corrupt rows: {listed}. Repair them, or skip them with "
                "skip_corrupt_rows: true in the mapping (--skip-corrupt-rows)"
            )
        notes.append(f"{table.path.name}: {len(table.bad)} corrupt rows skipped: {listed}")
    return keep, notes


def _listing(bad: Sequence[BadRow]) -> str:
    more = f" and {len(bad) - MOST_LISTED} more" if len(bad) > MOST_LISTED else ""
    return "; ".join(f"line {one.line}: {one.reason}" for one in bad[:MOST_LISTED]) + more


def _instants(column: FloatArray | None, keep: FloatArray, mapping: CsvMapping, table: CsvTable) -> FloatArray:
    """Return the times of the K usable rows, starting at 0, (K,) [s].

    Args:
        column: values of the time column, (N, 1); None if the mapping states a rate instead.
        keep: mask of the usable rows, (N,).
        mapping: mapping with the unit of time, or with the rate of the rows.
        table: columns of the main file, with its line numbers for messages.

    Raises:
        DataError: time does not increase.
    """
    if column is None or mapping.time is None:
        rows = np.flatnonzero(keep)
        return np.asarray((rows - rows[0]) / mapping.rate_hz)
    raw, lines = column[keep, 0], table.lines[keep]
    wrong = np.flatnonzero(np.diff(raw) <= 0)
    if len(wrong):
        at = int(wrong[0])
        raise DataError(
            f"{table.path} line {lines[at + 1]}: time {raw[at + 1]:.9g} {mapping.time.unit} does not come after "
            f"{raw[at]:.9g} ({len(wrong)} such rows); expected time to grow with every row"
        )
    return np.asarray((raw - raw[0]) * TIME_UNITS[mapping.time.unit])


def _check_groups(path: Path, mapping: CsvMapping, robot: Robot) -> None:
    for name, group in mapping.groups.items():
        if len(group.columns) != robot.size:
            raise DataError(
                f"the mapping for {path} gives {len(group.columns)} {name} columns; robot '{robot.name}' has "
                f"{robot.size} axes: {', '.join(robot.joint_names)}"
            )


def read_csv(path: Path, robot: Robot, mapping: CsvMapping) -> Log:
    """Read a log from CSV files.

    Args:
        path: the main file; other files that the mapping names are in the same folder.
        robot: robot whose axes the columns describe.
        mapping: meaning of the columns: quantities, units and signs.

    Raises:
        InputNotFoundError: a file does not exist.
        ConfigurationError: a unit is unknown or does not fit a joint.
        DataError: a column is missing, rows are corrupt, time does not increase, or the joints cannot have the values.
    """
    with guarded(path, "CSV recording"):
        return _read_csv(path, robot, mapping)


def _read_csv(path: Path, robot: Robot, mapping: CsvMapping) -> Log:
    """Read a log from CSV files; arguments and errors are those of `read_csv`."""
    _check_groups(path, mapping, robot)
    robot.gravity(mapping.mount)
    conversion = Conversion(robot, mapping.position, mapping.torque)
    content = _read(path, mapping)
    groups, dq = content.groups, None
    if mapping.velocity is not None:
        dq = joint_rates(groups["velocity"], mapping.velocity, robot)
    rows = measured(
        str(path), conversion, content.time, groups["position"], groups["torque"], dq=dq, notes=tuple(content.notes)
    )
    return joint_log(
        rows,
        conversion,
        MAPPING_HINT,
        mount=mapping.mount,
        torque_delay_s=mapping.torque_delay_s,
        sha256=sha256_of(content.files),
    )
