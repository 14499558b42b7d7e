"""Raw signals of an experiment, their time axis, and the checks that they must pass before any computation.

Unusable signals raise an error. For doubtful signals, quality measures are computed, which later checks compare with
limits.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.identification.settings import DataLimits, TorqueSource
from dynid.model.parameters import BaseParameters
from dynid.recording.interpolation import interpolate as interpolate  # re-exported
from dynid.recording.periodic_gaps import throttling_sentence
from dynid.robot import FloatArray

GAP_PERIODS = 1.5
MAKE_UP_S = 4.0  # time after a gap within which late cycles may catch up [s]
MOST_IRREGULAR = 0.15  # largest fraction of steps that differ from the period: lost rows and logger delays are rarer
PERIOD_LAG = 20  # cycles over which the period is measured


@dataclass(frozen=True, eq=False)
class Torques:
    """Recorded torques over time.

    Attributes:
        time: timestamps, (M,) [s].
        tau: torques, (M, n) [N m].
        source: motor current from which the torques come, "present" (measured) or "goal" (commanded).
        delay_s: delay from the timestamp of a torque to the middle of the interval in which it acts [s].
    """

    time: FloatArray
    tau: FloatArray
    source: TorqueSource
    delay_s: float = 0.0


@dataclass(frozen=True, eq=False)
class Signals:
    """Raw signals of one experiment, with columns in the order of `joint_names`.

    Attributes:
        joint_names: names of the joints, (n,).
        time: timestamps of the positions, (N,) [s].
        q: positions (N, n) [rad].
        torque_time: timestamps of the torques, (M,) [s].
        tau: torques (M, n) [N m].
        torque_limits: largest torque of each joint's drive, (n,) [N m].
        window: start and end of the motion that is used for identification [s]; None means the whole recording.
        dq: recorded velocities (N, n) [rad/s], for a plausibility check and to find stops; None if not recorded.
        torque_delay_s: delay from the timestamp of a torque to the middle of the interval in which it acts [s]; 0 for
            measured torques.
        torque_source: motor current from which `tau` was computed, "present" (measured) or "goal" (commanded).
        farthest: largest plausible |position| of each joint, (n,) [rad or m]; None means one turn.
        other: torques from the motor current (present or goal) that `tau` does not come from; None if it was not
            recorded.
        q_read: positions (N, n) [rad] as recorded, if they were read at other times than their timestamps; `q` is then
            interpolated from them to the timestamps. None if the timestamps need no such correction.
        likely_units: text that names likely units of the torques if they can hardly be N m; else "".
        goal: goal positions at `time`, (N, n) [rad]; None if they were not recorded.
        prior: prior estimate of the base parameters, with a diagonal covariance; None if there is none.
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

    def digest(self) -> str:
        """Return a hash of all recorded values and of the delay of the torques."""
        digest = hashlib.sha256(f"{self.torque_source} {self.torque_delay_s!r} {self.window}".encode())
        for values in (self.time, self.q, self.torque_time, self.tau, self.dq, self.q_read):
            digest.update(b"none" if values is None else np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class TimeAxis:
    """Properties of a recording's timestamps.

    A cycle is the period of the recorder, in which it should write one row. Rows that arrive late, such as several rows
    in quick succession after a gap, do not count as missing. A gap is a time step in which no row arrives
    for at least one cycle, apart from jitter.

    Attributes:
        period: usual time between rows [s].
        jitter: standard deviation of a single timestamp's error [s], estimated from time steps that differ from the
            period by less than half of it; equal to the period if there are none.
        missed: number of missing cycles.
        cycles: number of cycles, including the missing ones.
        gaps: timestamps of the rows before and after each gap [s].
        irregular: fraction of the time steps between rows that differ from the period by more than half of it.
    """

    period: float
    jitter: float
    missed: int
    cycles: int
    gaps: tuple[tuple[float, float], ...]
    irregular: float = 0.0

    @property
    def missed_text(self) -> str:
        """Text with the number of missing cycles, the longest gap, and a likely cause if the gaps are periodic."""
        longest_s = max((end - begin for begin, end in self.gaps), default=0.0)
        text = f"{self.missed} of {self.cycles}, longest gap {longest_s * 1e3:.3g} ms"
        named = throttling_sentence(
            [end for _, end in self.gaps], [end - begin - self.period for begin, end in self.gaps]
        )
        return f"{text}; {named}" if named else text

    def uneven(self, jitter_of_period: float) -> bool:
        """Return whether rows are unevenly spaced: the jitter is too large, or many time steps differ from the period.

        Args:
            jitter_of_period: largest jitter of evenly spaced rows, as a fraction of the period.
        """
        return self.jitter > jitter_of_period * self.period or self.irregular > MOST_IRREGULAR

    @classmethod
    def of(cls, time: FloatArray) -> "TimeAxis":
        """Return the properties of timestamps (N,) [s], which may have jitter."""
        steps = np.diff(time)
        # over several cycles jitter averages out, and the median ignores the few intervals with lost cycles
        lag = min(PERIOD_LAG, len(steps))
        period = float(np.median(time[lag:] - time[:-lag])) / lag
        # counting cycles step by step, not by one global line, tolerates clock drift
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
    """Time axis, duration and torque delay of a recording.

    They determine whether its samples are low-pass filtered or averaged over short times, and the number of samples.

    Attributes:
        axis: time axis of the recording.
        begin: start of the recorded motion [s].
        end: end of the recorded motion [s].
        torque_delay_s: delay from the timestamp of a torque to the middle of the interval in which it acts [s].
    """

    axis: TimeAxis
    begin: float
    end: float
    torque_delay_s: float

    @classmethod
    def of(cls, signals: Signals) -> "Span":
        """Return the time axis, start, end and torque delay of a recording's signals."""
        begin, end = signals.window or (float(signals.time[0]), float(signals.time[-1]))
        return cls(TimeAxis.of(signals.time), begin, end, signals.torque_delay_s)


def _not_made_up(time: FloatArray, period: float, gaps: NDArray[np.int64], lost: NDArray[np.int64]) -> int:
    """Return the number of rows missing in gaps, except rows that arrive late, within `MAKE_UP_S` after their gap.

    Args:
        time: timestamps, (N,) [s].
        period: usual time between rows [s].
        gaps: index of the last row before each gap, (G,).
        lost: number of rows that are missing in each gap, (G,).
    """
    behind = np.rint((time - time[0]) / period) - np.arange(len(time))
    missed = 0
    for at, count in zip(gaps, lost, strict=True):
        end = int(np.searchsorted(time, time[at + 1] + MAKE_UP_S, side="right"))
        missed += int(np.clip(behind[at + 1 : end].min() - behind[at], 0, count))
    return missed


def held_over_gaps(time: FloatArray, tau: FloatArray, source: TorqueSource) -> tuple[FloatArray, FloatArray]:
    """Return torques with an additional value in each gap of the timestamps: the torque that acted during the gap.

    During a gap, no new goal arrives, so a servo keeps its last goal current and its torque is constant. For goal
    currents, this torque is that of the last row before the gap; it is added one period before the end of the gap. For
    present (measured) currents, it is that of the first row after the gap, because the last row before the gap was
    measured before the last goal acted; it is added one period after the start of the gap. With the additional value,
    interpolation gives this torque for nearly the whole gap instead of a ramp.

    Args:
        time: timestamps (N,) [s].
        tau: torques (N, n) [N m].
        source: motor current from which the torques come, "present" (measured) or "goal" (commanded).

    Returns:
        Time (M,) [s] and torques (M, n) [N m], with M = N + the number of gaps.
    """
    steps = np.diff(time)
    period = float(np.median(steps))
    gaps = np.flatnonzero(steps > GAP_PERIODS * period)
    held = gaps + 1 if source == "present" else gaps
    at = time[gaps] + period if source == "present" else time[gaps + 1] - period
    return np.insert(time, gaps + 1, at), np.insert(tau, gaps + 1, tau[held], axis=0)


def refuse_unusable(signals: Signals) -> None:
    """Raise DataError if the signals cannot be used for identification."""
    n = len(signals.joint_names)
    for name, time, values in (("position", signals.time, signals.q), ("torque", signals.torque_time, signals.tau)):
        if values.ndim != 2 or values.shape != (len(time), n):
            raise DataError(f"{name}s have shape {values.shape}, expected ({len(time)}, {n}): one column per joint")
        if len(time) < 10:
            raise DataError(f"only {len(time)} {name} samples; a motion needs many more: record longer")
        # position timestamps must increase; torques may be written twice within the resolution of a timestamp
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
    """Raise DataError if a position or torque is far beyond the plausible range of its SI unit."""
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
    """Numbers that describe the quality of raw signals; some are paired with an explanatory text.

    Attributes:
        missed_cycles: fraction of the control cycles that are missing; None if samples are averages of unevenly spaced
            rows.
        jitter: standard deviation of a timestamp's error, as a fraction of the control cycle; None if samples are
            averages over short times (`weak_form`), which permit unevenly spaced rows.
        dropped: fraction of the samples that are dropped because they lie near a gap.
        motion: position range [rad] and name of the joint that moves least.
        peak_torque: largest ratio of torque to torque limit, over all joints.
        torque_range: smallest ratio of torque range to torque limit among the moving joints; None if no joint moves.
        saturated: fraction of the torques that are at the torque limit or close to it, for the joint with the largest
            fraction.
        velocity: largest deviation from 1, over all moving joints, of the ratio of recorded velocity to differentiated
            position; NaN if no joint moves, None if no velocities were recorded.
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
    """Return numbers that describe the quality of raw signals, such as gaps, jitter and saturation.

    Args:
        signals: raw signals of one recording.
        axis: time axis of the recording.
        limits: limits that define a moving joint, a saturated joint and unevenly spaced rows.
        dropped_share: fraction of the samples that are dropped because they lie near a gap.
        derived: instants (K,) [s], and velocities (K, n) [rad/s] computed from the positions, for comparison with
            recorded velocities.
        averaged: whether samples are averages over short times (`weak_form`), which permit unevenly spaced rows.
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
    """Return the smallest ratio of torque range to torque limit among the moving joints, and the name of this joint.

    The result is None if no joint moves.

    Args:
        tau: torques, (M, n) [N m].
        signals: signals with the torque limits.
        moving: mask of the moving joints, (n,).
    """
    if not moving.any():
        return None
    ranges = np.where(moving, np.ptp(tau, axis=0) / signals.torque_limits, np.inf)
    joint = int(np.argmin(ranges))
    return float(ranges[joint]), signals.joint_names[joint]


def _velocity_deviation(
    signals: Signals, derived: tuple[FloatArray, FloatArray], moving: NDArray[np.bool_]
) -> Detailed | None:
    """Return the largest deviation from 1 of the ratio of recorded to derived velocity, with a text about it.

    A large deviation indicates a wrong unit or time scale. The result is None if no velocity was recorded, and the
    deviation is NaN if no joint moves.

    Args:
        signals: signals with the recorded velocities.
        derived: instants (K,) [s], and velocities computed from the positions, (K, n) [rad/s].
        moving: mask of the moving joints, (n,).
    """
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
