"""A log: positions, torques and goals of an arm at stamps that need not be even."""

import hashlib
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np

from dynid.errors import DataError
from dynid.robot import FloatArray, read_only

SLOW_RAD_S = 0.05  # slower than this, a joint may stick
SHORTEST = 20  # rows: fewer are no motion
GAP_STEPS = 5.0  # of the median step: over a longer pause between two rows nothing is known


@dataclass(frozen=True, eq=False)
class Log:
    """N rows of n joints; arrays are read-only copies.

    Attributes:
        name: of the file, topic or episode.
        joint_names: (n,).
        time: stamps, (N,) [s], increasing.
        q: positions, (N, n) [rad; m where a joint slides].
        tau: torques of the motors at the joints, (N, n) [N m; N]; None if nobody logged them.
        goal: positions that were asked for, (N, n) [rad; m]; None if nobody logged them.
        notes: what its reader did, that a reader of the result should know.
        dq: recorded velocities, (N, n) [rad/s; m/s], which only check units; None if nobody logged them.
        mount: how the arm was mounted; None if nobody said.
        torque_delay_s: from the stamp of a torque to the middle of its effect; 0 of measured torques.
        torque_constants: that made torques of currents [N m/A], (n,); () where torques were logged.
        sha256: of the files that were read; "" where there is none.
        endless: joints whose positions wrapped, and go beyond their limits since they were unwrapped.

    Raises:
        DataError: arrays that do not fit, too few rows, stamps that do not increase, or values that are not finite.
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
        """When torques act, (N,) [s]: their stamps, later by the delay that is known of them."""
        return self.time + self.torque_delay_s

    @property
    def interval_s(self) -> float:
        """The median time between rows [s]."""
        return float(np.median(np.diff(self.time)))

    def pieces(self) -> list["Log"]:
        """The log without its gaps: pieces long enough to be used, in order."""
        cuts = np.flatnonzero(np.diff(self.time) > GAP_STEPS * self.interval_s) + 1
        bounds = [0, *cuts.tolist(), len(self.time)]
        return [self.rows(slice(a, b)) for a, b in pairwise(bounds) if b - a >= SHORTEST]

    def rows(self, chosen: slice) -> "Log":
        """Some of the rows."""
        parts = {key: getattr(self, key) for key in ("time", "q", "tau", "goal", "dq")}
        return replace(self, **{key: value[chosen] for key, value in parts.items() if value is not None})


@dataclass(frozen=True, eq=False)
class LogFacts:
    """What is said of a log before anything is identified from it.

    Attributes:
        rows, seconds, interval_s, jitter_s, gaps: of its stamps; the jitter is the deviation of their steps.
        torques, goals: whether they were logged.
        moving_s: how long each joint moved faster than `SLOW_RAD_S`, (n,) [s].
        notes: of its reader.
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
        """Of one log."""
        steps, interval_s = np.diff(log.time), log.interval_s
        speed = np.abs(np.diff(log.q, axis=0)) / steps[:, None]
        return cls(
            rows=len(log.time),
            seconds=float(log.time[-1] - log.time[0]),
            interval_s=interval_s,
            jitter_s=float(np.std(steps)),
            gaps=len(log.pieces()) - 1,
            torques=log.tau is not None,
            goals=log.goal is not None,
            moving_s=(speed > SLOW_RAD_S).sum(axis=0) * interval_s,
            notes=log.notes,
        )


def log_digest(log: Log) -> str:
    """Equal for logs with equal contents, whatever their names, and for no others."""
    digest = hashlib.sha256(" ".join(log.joint_names).encode())
    for value in (log.time, log.q, log.tau, log.goal):
        digest.update(b"none" if value is None else np.ascontiguousarray(value).tobytes())
    if log.mount is not None or log.torque_delay_s:
        digest.update(f"{log.mount} {log.torque_delay_s!r}".encode())
    return digest.hexdigest()
