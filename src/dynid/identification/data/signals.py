"""Raw signals of an experiment, their time axis, and what must hold before anything is computed from them.

What cannot be used at all is refused with a sentence; what is doubtful is measured, and judged by the checks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.identification.settings import DataLimits, TorqueSource
from dynid.model.parameters import BaseParameters
from dynid.recording.interpolation import interpolate as interpolate  # also for those who read signals
from dynid.recording.periodic_holes import named_holes
from dynid.robot import FloatArray

GAP_PERIODS = 1.5
MAKE_UP_S = 4.0  # so long after a gap late cycles may follow in quick succession
MOST_IRREGULAR = 0.15  # share of steps that are no cycle: lost rows and hiccups of a logger are fewer
PERIOD_LAG = 20  # cycles over which the period is measured


@dataclass(frozen=True, eq=False)
class Torques:
    """Torques over time: time (M,) [s], tau (M, n) [N m], which current they are of, stamp to effect [s]."""

    time: FloatArray
    tau: FloatArray
    source: TorqueSource
    delay_s: float = 0.0


@dataclass(frozen=True, eq=False)
class Signals:
    """Raw signals of one experiment, columns in the order of `joint_names`.

    Attributes:
        joint_names: (n,).
        time: stamps of the positions, (N,) [s].
        q: (N, n) [rad].
        torque_time: stamps of the torques, (M,) [s].
        tau: (M, n) [N m].
        torque_limits: what each joint's driver can give at most, (n,) [N m].
        window: begin and end of the motion to identify from [s]; None is everything.
        dq: recorded velocities (N, n) [rad/s], used for a plausibility check only; None if not recorded.
        torque_delay_s: from the stamp of a torque to the middle of its effect; 0 of measured torques.
        torque_source: which current `tau` is.
        farthest: from zero that each joint can be, (n,) [rad or m]; None is a turn.
        other: the torques of the current that `tau` is not of; None if it was not recorded.
        q_read: positions (N, n) as they were read, where `q` was moved to the stamps; else None.
        likely_units: in which units the torques may be, if they can hardly be N m, in words; else "".
        goal: positions that were asked for at `time`, (N, n) [rad]; None if they were not recorded.
        prior: what is known of the base parameters beforehand, with a diagonal covariance; None: nothing.
    """

    joint_names: tuple[str, ...]
    time: FloatArray
    q: FloatArray
    torque_time: FloatArray
    tau: FloatArray
    torque_limits: FloatArray
    window: tuple[float, float] | None = None
    dq: FloatArray | None = None
    torque_delay_s: float = 0.0
    torque_source: TorqueSource = "present"
    farthest: FloatArray | None = None
    other: Torques | None = None
    q_read: FloatArray | None = None
    likely_units: str = ""
    goal: FloatArray | None = None
    prior: BaseParameters | None = None


@dataclass(frozen=True)
class TimeAxis:
    """What the stamps say: the cycle [s], stamps' scatter about it [s], missing cycles, gaps as (begin, end) [s].

    `irregular` is the share of steps from row to row that differ from the cycle by more than half of it.

    A gap that is followed by as many cycles in quick succession is a delay, not a loss: nothing is missing then.
    """

    period: float
    jitter: float
    missed: int
    cycles: int
    gaps: tuple[tuple[float, float], ...]
    irregular: float = 0.0

    @property
    def missed_text(self) -> str:
        """How many cycles are missing, the longest gap, and what gaps are that come with a known period."""
        longest_s = max((end - begin for begin, end in self.gaps), default=0.0)
        text = f"{self.missed} of {self.cycles}, longest gap {longest_s * 1e3:.3g} ms"
        named = named_holes([end for _, end in self.gaps], [end - begin - self.period for begin, end in self.gaps])
        return f"{text}; {named}" if named else text

    def uneven(self, jitter_of_period: float) -> bool:
        """Return whether rows follow no cycle: stamps scatter by more than a share of it, or steps differ."""
        return self.jitter > jitter_of_period * self.period or self.irregular > MOST_IRREGULAR

    @classmethod
    def of(cls, time: FloatArray) -> "TimeAxis":
        """The axis behind jittery stamps (N,) [s]."""
        steps = np.diff(time)
        # over several cycles jitter averages out, and the median does not see the few stretches with a loss
        lag = min(PERIOD_LAG, len(steps))
        period = float(np.median(time[lag:] - time[:-lag])) / lag
        # counting cycles along the way, not by one global line, tolerates a clock that drifts
        count = np.rint(steps / period).astype(int)
        late = np.flatnonzero(count > 1)
        # a late cycle followed by an early one is jitter, not a loss
        made_up = np.array([count[i + 1] == 0 if i + 1 < len(count) else False for i in late], dtype=int)
        lost = np.maximum(count[late] - 1 - made_up, 0)
        gaps = tuple((float(time[i]), float(time[i + 1])) for i, n in zip(late, lost, strict=True) if n)
        regular = np.abs(steps - period) < 0.5 * period
        jitter = float(np.std(steps[regular]) / np.sqrt(2.0)) if regular.any() else period
        missed = _not_made_up(time, period, late[lost > 0], lost[lost > 0])
        return cls(period, jitter, missed, len(steps) + missed, gaps, float(1.0 - regular.mean()))


@dataclass(frozen=True)
class Span:
    """What a recording's rows depend on: its time axis, begin and end of its motion, the delay of its torques [s]."""

    axis: TimeAxis
    begin: float
    end: float
    torque_delay_s: float

    @classmethod
    def of(cls, signals: Signals) -> "Span":
        """The span of a recording."""
        begin, end = signals.window or (float(signals.time[0]), float(signals.time[-1]))
        return cls(TimeAxis.of(signals.time), begin, end, signals.torque_delay_s)


def _not_made_up(time: FloatArray, period: float, gaps: NDArray[np.int64], lost: NDArray[np.int64]) -> int:
    """Cycles lost in gaps (after samples `gaps`) that are not caught up within MAKE_UP_S."""
    behind = np.rint((time - time[0]) / period) - np.arange(len(time))
    missed = 0
    for at, count in zip(gaps, lost, strict=True):
        end = int(np.searchsorted(time, time[at + 1] + MAKE_UP_S, side="right"))
        missed += int(np.clip(behind[at + 1 : end].min() - behind[at], 0, count))
    return missed


def held_over_gaps(time: FloatArray, tau: FloatArray, source: TorqueSource) -> tuple[FloatArray, FloatArray]:
    """Torques with what a servo did during gaps in the stamps: it held its last goal current.

    That is the current measured at a gap's end, and the goal written at its begin. A straight line across the gap would
    instead join two values of a torque that changes from cycle to cycle. Returns time (M,) [s] and tau (M, n) [N m].
    """
    steps = np.diff(time)
    period = float(np.median(steps))
    gaps = np.flatnonzero(steps > GAP_PERIODS * period)
    held = gaps + 1 if source == "present" else gaps
    at = time[gaps] + period if source == "present" else time[gaps + 1] - period
    return np.insert(time, gaps + 1, at), np.insert(tau, gaps + 1, tau[held], axis=0)


def refuse_unusable(signals: Signals) -> None:
    """Raise DataError for signals from which nothing can be identified."""
    n = len(signals.joint_names)
    for name, time, values in (("position", signals.time, signals.q), ("torque", signals.torque_time, signals.tau)):
        if values.ndim != 2 or values.shape != (len(time), n):
            raise DataError(f"{name}s have shape {values.shape}, expected ({len(time)}, {n}): one column per joint")
        if len(time) < 10:
            raise DataError(f"only {len(time)} {name} samples; a motion needs many more: record longer")
        # positions are sampled once per stamp; a torque that was written again within a stamp's resolution is harmless
        sorted_steps = np.diff(time) > 0 if name == "position" else np.diff(time) >= 0
        if not sorted_steps.all():  # NaN compares false
            at = int(np.argmin(sorted_steps))
            raise DataError(f"{name} stamps are not sorted: {time[at]} s is followed by {time[at + 1]} s; record again")
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            row, joint = bad[0]
            where = f"{signals.joint_names[joint]} is {values[row, joint]} at {time[row]:.3f} s"
            raise DataError(f"{name} of {where} ({len(bad)} such values); remove or repair these samples")
    _refuse_units(signals)
    if np.ptp(signals.q, axis=0).max() == 0.0:
        raise DataError("no joint moves, every position is constant: was the arm enabled, and is this the right topic?")


def _refuse_units(signals: Signals) -> None:
    """Raise DataError where a value is far beyond what its SI unit allows."""
    largest = np.abs(signals.q).max(axis=0)
    most = np.full(len(largest), 2.0 * np.pi) if signals.farthest is None else signals.farthest
    joint = int(np.argmax(largest / most))
    if largest[joint] > most[joint]:
        raise DataError(
            f"position of {signals.joint_names[joint]} reaches {largest[joint]:.4g}, expected at most "
            f"{most[joint]:.4g} rad, or m where it slides (degrees, millimetres or encoder counts?)"
        )
    ratio = np.abs(signals.tau).max(axis=0) / signals.torque_limits
    joint = int(np.argmax(ratio))
    if ratio[joint] > 3.0:
        raise DataError(
            f"torque of {signals.joint_names[joint]} reaches {np.abs(signals.tau[:, joint]).max():.4g} N m, the driver "
            f"gives at most {signals.torque_limits[joint]:.3g} N m; expected N m "
            f"({signals.likely_units or 'mA or raw counts'}?)"
        )


Detailed = tuple[float, str]


@dataclass(frozen=True)
class DataQuality:
    """How good raw signals are: numbers, with a detail where one helps.

    Attributes:
        missed_cycles: share of control cycles that are missing; None where averages need no even rows.
        jitter: scatter of the stamps about the cycle, over the cycle; None where averages need no even rows.
        dropped: share of the samples that lie near a gap.
        motion: range [rad] of the joint that moves least.
        peak_torque: over the joint's limit, of the joint that comes closest.
        torque_range: over its limit, of the moving joint whose torque varies least.
        saturated: share of the time at the current limit, of the joint that is there longest.
        velocity: deviation of recorded over derived velocity from 1; None without recorded velocities.
    """

    missed_cycles: Detailed | None
    jitter: Detailed | None
    dropped: float
    motion: Detailed
    peak_torque: float
    torque_range: Detailed | None
    saturated: Detailed
    velocity: Detailed | None


def data_quality(
    signals: Signals,
    axis: TimeAxis,
    limits: DataLimits,
    dropped_share: float,
    derived: tuple[FloatArray, FloatArray],
    *,
    averaged: bool = False,
) -> DataQuality:
    """Measure raw signals.

    Args:
        limits: what counts as moving and as saturated.
        dropped_share: part of the samples that lie near a gap.
        derived: instants (K,) [s] and velocities (K, n) [rad/s] from the positions, against the recorded ones.
        averaged: whether rows are averages under test functions, which take uneven steps.
    """
    begin, end = signals.window or (signals.time[0], signals.time[-1])
    inside = (signals.time >= begin) & (signals.time <= end)
    inside_torque = (signals.torque_time >= begin) & (signals.torque_time <= end)
    ranges = np.ptp(signals.q[inside], axis=0)
    torques = np.abs(signals.tau[inside_torque]) / signals.torque_limits
    saturated = (torques >= limits.saturation_of_limit).mean(axis=0)
    still, clipped = int(np.argmin(ranges)), int(np.argmax(saturated))
    names = signals.joint_names
    return DataQuality(
        None if averaged and axis.uneven(limits.jitter_of_period) else (axis.missed / axis.cycles, axis.missed_text),
        None if averaged else (axis.jitter / axis.period, f"of the cycle of {axis.period * 1e3:.4g} ms"),
        dropped_share,
        (float(ranges[still]), names[still]),
        float(torques.max()),
        _least_range(signals.tau[inside_torque], signals, ranges >= limits.joint_range_rad),
        (float(saturated[clipped]), f"share of the time at the limit, {names[clipped]}"),
        _velocity_deviation(signals, derived, ranges >= limits.joint_range_rad),
    )


def _least_range(tau: FloatArray, signals: Signals, moving: NDArray[np.bool_]) -> Detailed | None:
    """The smallest range of a moving joint's torques tau (M, n) over its limit, and the joint; None if none moves."""
    if not moving.any():
        return None
    ranges = np.where(moving, np.ptp(tau, axis=0) / signals.torque_limits, np.inf)
    joint = int(np.argmin(ranges))
    return float(ranges[joint]), signals.joint_names[joint]


def _velocity_deviation(
    signals: Signals, derived: tuple[FloatArray, FloatArray], moving: NDArray[np.bool_]
) -> Detailed | None:
    """Largest deviation from 1 of recorded over derived velocity, and its joint: finds wrong units and time scales."""
    if signals.dq is None:
        return None
    if not np.any(moving):
        return float("nan"), "no joint moves"
    recorded = interpolate(derived[0], signals.time, signals.dq)
    strength = (derived[1] ** 2).sum(axis=0)
    slope = (recorded * derived[1]).sum(axis=0) / np.where(strength > 0, strength, np.inf)
    deviation = np.where(moving, np.abs(slope - 1.0), 0.0)
    joint = int(np.argmax(deviation))
    return float(deviation[joint]), f"deviation from 1, {signals.joint_names[joint]}"
