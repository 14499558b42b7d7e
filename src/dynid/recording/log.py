"""Log of an arm: positions, torques and goal positions; its times need not be evenly spaced."""

import hashlib
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.robot import FloatArray, read_only

SLOW_RAD_S = 0.05  # at lower speeds a joint may be in stiction [rad/s]
SHORTEST = 20  # minimum number of rows of a motion
GAP_STEPS = 5.0  # a longer step between rows is a gap that splits the log [median steps]


@dataclass(frozen=True, eq=False)
class Log:
    """Log of an arm with N rows (times) and n joints; its arrays are read-only copies.

    Attributes:
        name: name of the file, topic or episode.
        joint_names: names of the joints, (n,).
        time: stamps, (N,) [s], increasing.
        q: positions, (N, n) [rad, or m for prismatic joints].
        tau: motor torques, converted to the joint side of the gears, (N, n) [N m, or N for prismatic joints]; None if
            they were not logged.
        goal: commanded positions, (N, n) [rad or m]; None if they were not logged.
        notes: remarks on data that the reader changed or left out.
        dq: recorded velocities, (N, n) [rad/s or m/s], which only serve to check units; None if they were not logged.
        mount: name of the arm's mount; None if unknown.
        torque_delay_s: delay from the stamp of a commanded torque to the middle of the time in which it acts [s]; 0 for
            measured torques.
        torque_constants: torque constants with which currents were converted [N m/A], (n,); () if torques were logged.
        sha256: hash of the files that were read; "" if there are no files.
        endless: names of joints that turn without end, so that their unwrapped positions may exceed their limits.

    Raises:
        DataError: arrays do not fit together, rows are too few, stamps do not increase, or values are not finite.
    """

    name: str
    joint_names: tuple[str, ...]
    time: FloatArray
    q: FloatArray
    tau: FloatArray | None = None
    goal: FloatArray | None = None
    notes: tuple[str, ...] = ()
    dq: FloatArray | None = None
    mount: str | None = None
    torque_delay_s: float = 0.0
    torque_constants: tuple[float, ...] = ()
    sha256: str = ""
    endless: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, item.name, read_only(value))
        shape = (len(self.time), len(self.joint_names))
        for key in ("q", "tau", "goal", "dq"):
            value = getattr(self, key)
            if value is None:
                continue
            if value.shape != shape:
                raise DataError(
                    f"{key} of {self.name} has shape {value.shape}, expected {shape}: one per joint and row"
                )
            if not np.isfinite(value).all():
                row, joint = np.argwhere(~np.isfinite(value))[0]
                raise DataError(f"{key} of {self.joint_names[joint]} in row {row} of {self.name} is not finite")
        if shape[0] < SHORTEST:
            raise DataError(f"{self.name} has {shape[0]} rows; a motion needs at least {SHORTEST}")
        if not (np.diff(self.time) > 0.0).all():
            row = int(np.argmin(np.diff(self.time) > 0.0))
            raise DataError(f"stamps of {self.name} do not increase: row {row + 1} is not later than row {row}")

    @property
    def torque_time(self) -> FloatArray:
        """Times at which the torques act, (N,) [s]: their stamps plus `torque_delay_s`."""
        return self.time + self.torque_delay_s

    @property
    def interval_s(self) -> float:
        """Median time between successive rows [s]."""
        return float(np.median(np.diff(self.time)))

    def pieces(self) -> list["Log"]:
        """Split the log at gaps in its times; return the parts that have at least `SHORTEST` rows, in order."""
        bounds = [0, *(self.gaps + 1).tolist(), len(self.time)]
        return [self.rows(slice(a, b)) for a, b in pairwise(bounds) if b - a >= SHORTEST]

    @property
    def gaps(self) -> NDArray[np.int64]:
        """Indices of the rows before a gap in the stamps, (k,)."""
        return np.flatnonzero(np.diff(self.time) > GAP_STEPS * self.interval_s)

    def rows(self, chosen: slice) -> "Log":
        """Return a log of the rows that a slice selects."""
        parts = {key: getattr(self, key) for key in ("time", "q", "tau", "goal", "dq")}
        return replace(self, **{key: value[chosen] for key, value in parts.items() if value is not None})


@dataclass(frozen=True, eq=False)
class LogFacts:
    """Summary of a log for a report before identification; a row contains the values of all joints at one time.

    Attributes:
        rows: number of rows.
        seconds: time from the first to the last stamp [s].
        interval_s: median time between rows [s].
        jitter_s: standard deviation of the time between rows [s].
        gaps: number of gaps in the stamps.
        torques: whether torques were logged.
        goals: whether commanded positions were logged.
        moving_s: time that each joint moved faster than `SLOW_RAD_S`, (n,) [s].
        notes: remarks on data that the reader changed or left out.
    """

    rows: int
    seconds: float
    interval_s: float
    jitter_s: float
    gaps: int
    torques: bool
    goals: bool
    moving_s: FloatArray
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, log: Log) -> "LogFacts":
        """Return the summary of a log."""
        steps, interval_s = np.diff(log.time), log.interval_s
        speed = np.abs(np.diff(log.q, axis=0)) / steps[:, None]
        return cls(
            rows=len(log.time),
            seconds=float(log.time[-1] - log.time[0]),
            interval_s=interval_s,
            jitter_s=float(np.std(steps)),
            gaps=len(log.gaps),
            torques=log.tau is not None,
            goals=log.goal is not None,
            moving_s=(speed > SLOW_RAD_S).sum(axis=0) * interval_s,
            notes=log.notes,
        )


def log_digest(log: Log) -> str:
    """Return a hash of a log's contents, independent of its name.

    Two logs have equal hashes if and only if joint names, times, positions, torques, goals, mount and torque delay are
    equal.
    """
    digest = hashlib.sha256(" ".join(log.joint_names).encode())
    for value in (log.time, log.q, log.tau, log.goal):
        digest.update(b"none" if value is None else np.ascontiguousarray(value).tobytes())
    if log.mount is not None or log.torque_delay_s:
        digest.update(f"{log.mount} {log.torque_delay_s!r}".encode())
    return digest.hexdigest()
