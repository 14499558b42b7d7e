"""A recording from CSV files: columns by a mapping, on the joints' side in SI units; what is wrong is refused.

Motor-side values pass the gears and the coupling of robot.yaml,

    q_joint = C^-1 (q_motor / N),   tau_joint = C' (N tau_motor),

and currents pass the torque constants first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynid.errors import DataError
from dynid.model.transmission import Transmission
from dynid.recording.bag_reader import sha256_of
from dynid.recording.csv_mapping import TIME_UNITS, ColumnGroup, CsvMapping, length_factors, torque_factors
from dynid.recording.csv_table import BadRow, CsvTable, read_table
from dynid.recording.frozen import refuse_frozen
from dynid.resources import guarded
from dynid.robot import FloatArray, Robot, read_only

BEYOND_RAD = 0.2  # by so much a position may exceed the joint's limits; beyond it, the unit or the mapping is wrong
BEYOND_M = 0.02
FASTEST = 3.0  # times the velocity limit of robot.yaml: no joint is faster
LISTED = 5  # bad rows that an error names
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".txt")


@dataclass(frozen=True, eq=False)
class CsvRecording:
    """One recorded motion from CSV files, on the joints' side; arrays are read-only.

    Attributes:
        source: the file that was named.
        joint_names: (n,).
        time: (N,) [s], strictly increasing, starting at 0.
        q: (N, n) [rad or m].
        tau: (N, n) [N m or N].
        dq: recorded velocities (N, n), or None.
        mount: how the arm was mounted.
        torque_delay_s: from the stamp of a torque to the middle of its effect; 0 of measured torques.
        torque_constants: that made torques of currents [N m/A], (n,); () where torques were recorded.
        sha256: of all files that were read.
        notes: what a reader of the result should know.
    """

    source: Path
    joint_names: tuple[str, ...]
    time: FloatArray
    q: FloatArray
    tau: FloatArray
    dq: FloatArray | None
    mount: str
    torque_delay_s: float
    torque_constants: tuple[float, ...]
    sha256: str
    notes: tuple[str, ...]


def is_csv(path: Path) -> bool:
    """Whether a path names a CSV file, by its suffix."""
    return path.name.lower().endswith(SUFFIXES)


@dataclass(frozen=True, eq=False)
class _Content:
    """Raw columns of all groups on common rows: instants (N,) [s], and values by group."""

    time: FloatArray
    groups: dict[str, FloatArray]
    notes: list[str]
    files: tuple[Path, ...]


def _read(path: Path, mapping: CsvMapping) -> _Content:
    """All columns of all files, bad rows refused or left out."""
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
        table = read_table(file, columns, delimiter=mapping.delimiter, decimal=mapping.decimal, rows=mapping.rows)
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
    """Which rows are in order in all files, (N,), and what was left out.

    Raises:
        DataError: files of other lengths, or bad rows that are not to be left out.
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
    more = f" and {len(bad) - LISTED} more" if len(bad) > LISTED else ""
    return "; ".join(f"line {one.line}: {one.reason}" for one in bad[:LISTED]) + more


def _instants(column: FloatArray | None, keep: FloatArray, mapping: CsvMapping, table: CsvTable) -> FloatArray:
    """Instants of the kept rows from 0, (N,) [s]; rows that are left out leave a gap.

    Raises:
        DataError: time does not grow.
    """
    if column is None or mapping.time is None:
        rows = np.flatnonzero(keep)
        return np.asarray((rows - rows[0]) / mapping.rate_hz)
    raw, lines = column[keep, 0], table.lines[keep]
    wrong = np.flatnonzero(np.diff(raw) <= 0)
    if len(wrong):
        at = int(wrong[0])
        raise DataError(
            f"{table.path} line {lines[at + 1]}: time {raw[at + 1]:.9g} {mapping.time.unit} does not follow on "
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


def _joint_side(values: FloatArray, group: ColumnGroup, robot: Robot) -> FloatArray:
    """Positions or rates (N, n) at the joints."""
    if group.side == "joint":
        return values
    return Transmission(robot).joint_motion(values)


def read_csv(path: Path, robot: Robot, mapping: CsvMapping) -> CsvRecording:
    """See `_read_csv`, behind the guard of the format."""
    with guarded(path, "CSV recording"):
        return _read_csv(path, robot, mapping)


def _read_csv(path: Path, robot: Robot, mapping: CsvMapping) -> CsvRecording:
    """Read a recording from CSV.

    Args:
        path: the file; others that the mapping names lie beside it.
        robot: whose axes the columns are.
        mapping: what the columns are.

    Raises:
        InputNotFoundError: no such file.
        ConfigurationError: a unit that is not known or does not fit to a joint.
        DataError: a wrong column, corrupt rows, time that does not grow, or positions beyond the joints' limits.
    """
    _check_groups(path, mapping, robot)
    mount = mapping.mount or robot.file.default_mount
    robot.gravity(mount)
    position = length_factors(mapping.position, robot)
    torque, currents = torque_factors(mapping.torque, robot)
    content = _read(path, mapping)
    q = _joint_side(content.groups["position"] * position, mapping.position, robot) + np.array(mapping.position.offset)
    tau = content.groups["torque"] * torque
    if currents or mapping.torque.side == "motor":
        tau = Transmission(robot).joint_torque(tau)
    dq = None
    if mapping.velocity is not None:
        rates = content.groups["velocity"] * length_factors(mapping.velocity, robot, rate=True)
        dq = read_only(_joint_side(rates, mapping.velocity, robot))
    cure = "is its column, unit, sign, ratio, side or offset in the mapping right?"
    refuse_beyond_limits(q, robot, str(path), cure)
    refuse_jumps(content.time, q, robot, str(path))
    refuse_frozen(content.time, q, position_margin(robot), robot, str(path))
    return CsvRecording(
        source=path,
        joint_names=robot.joint_names,
        time=read_only(content.time),
        q=read_only(q),
        tau=read_only(tau),
        dq=dq,
        mount=mount,
        torque_delay_s=mapping.torque_delay_s,
        torque_constants=tuple(robot.joint_constants.tolist()) if currents else (),
        sha256=sha256_of(content.files),
        notes=tuple(content.notes),
    )


def refuse_beyond_limits(q: FloatArray, robot: Robot, name: str, cure: str) -> None:
    """Raise DataError where `beyond_limits` of positions (N, n) has words; `cure`: what to look at, as a question."""
    if words := beyond_limits(q, robot):
        raise DataError(f"{name}: {words}: {cure}")


def position_margin(robot: Robot) -> FloatArray:
    """By how much positions may be off their limits, and what is no motion, (n,) [rad or m]."""
    return np.where(robot.prismatic, BEYOND_M, BEYOND_RAD)


def beyond_limits(q: FloatArray, robot: Robot) -> str:
    """Which joint of positions (N, n) [rad or m] goes where it cannot be, in words; "" where none does."""
    margin = position_margin(robot)
    beyond = np.maximum(robot.lower - margin - q.min(axis=0), q.max(axis=0) - robot.upper - margin)
    joint = int(np.argmax(beyond))
    if beyond[joint] > 0:
        unit = "m" if robot.prismatic[joint] else "rad"
        return (
            f"joint {robot.joint_names[joint]} goes from {q[:, joint].min():.4g} to {q[:, joint].max():.4g} {unit}, "
            f"its limits in robot.yaml are {robot.lower[joint]:.4g} and {robot.upper[joint]:.4g}"
        )
    return ""


def refuse_jumps(time: FloatArray, q: FloatArray, robot: Robot, name: str) -> None:
    """Raise DataError where positions (N, n) [rad or m] at time (N,) [s] jump from one row to the next."""
    step = np.abs(np.diff(time))[:, None]  # stamps that are not sorted are refused elsewhere
    far = np.abs(np.diff(q, axis=0)) - FASTEST * robot.velocity_limits * step
    jumps = far > position_margin(robot)
    if jumps.any():
        row, joint = np.argwhere(jumps)[0]
        before, after = q[row : row + 2, joint]
        raise DataError(
            f"{name}: {robot.joint_names[joint]} jumps from {before:.4g} to {after:.4g} within {step[row, 0]:.3g} s at "
            f"{time[row] - time[0]:.3f} s after the start ({int(jumps.any(axis=1).sum())} such rows): an angle that "
            "wraps round, an encoder that stood still, two publishers on one topic, or two recordings in one?"
        )
