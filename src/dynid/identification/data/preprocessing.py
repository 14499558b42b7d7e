"""From recorded signals to samples for the regression: time axis, zero-phase filter, derivatives, resampling.

The steps, in order:

1. Time axis. Stamps jitter about the cycle; signals are interpolated from their stamps onto an exact grid whose step
   divides the target interval and is at most about the recorded cycle: by straight lines where the recording is fast,
   else by a spline (`resampling`). Cycles that are missing are counted, and samples near a gap longer than the limit
   are dropped rather than invented.
2. Filter. Butterworth low-pass, run forwards and backwards (no phase), below the Nyquist frequency of the target
   interval. Both sides of tau = W phi (paper eq. 4) lose the same band: with `state_cutoff_ratio`, W is computed from
   states of more bandwidth and passes the low-pass itself, see `fine_states`; without, as in the paper, positions pass
   the torques' filter before W is computed from them, which is the same only as far as W is linear.
3. Derivatives. Velocity and acceleration are five-point central differences of the filtered position on the fine
   grid. The encoder's step (1.5 mrad for 12 bits) is far above the measured velocity's own resolution only after the
   low-pass has averaged many cycles, so differences come after the filter. Their own error, (w T)^4 / 30, is below
   2e-4 up to the cut-off of the states: the grid is made finer than the recording where it has to be. Unlike a velocity
   register they have no unknown delay.
4. Resampling. Only the samples on the target grid are kept. Samples between them would be almost copies.
5. Edges. Filter start-up reaches a few periods of the cut-off into the data. Where the recording goes on outside the
   window of interest nothing is lost; else that much is trimmed.

Delay: the present current is measured by the servo with the position of the same frame, so no shift is applied to it.
A goal current acts only after it has crossed the bus and then holds for a cycle; `goal_delay_s` shifts it.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.identification.data.fine_states import FineStates, Function, decimation
from dynid.identification.data.resampling import around, band_interpolated, decimated, finest_step_s
from dynid.identification.data.signals import (
    DataQuality,
    Signals,
    TimeAxis,
    Torques,
    data_quality,
    held_over_gaps,
    refuse_unusable,
)
from dynid.identification.data.zero_phase import butterworth_sections, filtered_both_ways
from dynid.identification.settings import FilterSettings, IdentificationSettings, TorqueSource
from dynid.recording.recording import Recording
from dynid.robot import FloatArray, Robot, Strict, read_only

MOST_OF_NYQUIST = 0.9
# The regression keeps kilobytes of every instant of the fine grid. A recording of more than `WHOLE` instants is cut
# into blocks, the filters of which reach into their neighbours; of more than `MOST_BLOCKS` some are left out.
BLOCK, WHOLE, MOST_BLOCKS = 16_000, 40_000, 6


class SampleSettings(Strict):
    """How samples were made; goes into the result."""

    interval_s: float
    grid_s: float
    filter_order: int
    cutoff_hz: float
    state_cutoff_hz: float | None = None
    torque_source: TorqueSource
    torque_delay_s: float
    window_s: tuple[float, float]
    trimmed_s: tuple[float, float]
    missed_cycles: int
    dropped_samples: int
    samples: int
    selection: str = ""  # in words, if not all of a long recording is used


@dataclass(frozen=True, eq=False)
class Samples:
    """States and torques on the target grid, ready for the regression; arrays are read-only.

    Attributes:
        joint_names: (n,).
        time: (N,) [s], on the recording's axis.
        q, dq, ddq: (N, n) [rad, rad/s, rad/s^2].
        tau: (N, n) [N m].
        settings: how they were made.
        quality: of the raw signals of every recording in order.
        fine: what `seen` stands on, for every recording in order; () where states passed the torques' filter.
        torque_limits: what each joint's driver can give at most, (n,) [N m]; None in tests that need none.
        other_tau: torques of the current that `tau` is not of, (N, n) [N m], NaN where its record does not reach; None
            if it was not recorded.
    """

    joint_names: tuple[str, ...]
    time: FloatArray
    q: FloatArray
    dq: FloatArray
    ddq: FloatArray
    tau: FloatArray
    settings: SampleSettings
    quality: tuple[DataQuality, ...] = ()
    fine: tuple[FineStates, ...] = ()
    other_tau: FloatArray | None = None
    torque_limits: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("time", "q", "dq", "ddq", "tau", "other_tau"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, read_only(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.time)

    def seen(self, function: Function) -> FloatArray:
        """A function of the states as it is in the torques, whose low-pass it passes.

        Args:
            function: of q, dq, ddq, (M, n) each; gives (M, ...).

        Returns:
            (N, ...).
        """
        if not self.fine:
            return function(self.q, self.dq, self.ddq)
        return np.concatenate([part.seen(function) for part in self.fine])


class LowPass:
    """The zero-phase anti-alias filter for one target interval, on one fine grid.

    Simulated torques that are compared with filtered measured ones must pass `apply` too.
    """

    def __init__(
        self,
        settings: FilterSettings,
        interval_s: float,
        grid_s: float,
        recorded_s: float | None = None,
        ratio: float = 1.0,
    ) -> None:
        self.cutoff_hz = ratio * settings.cutoff_hz(interval_s)
        slowest = max(grid_s, recorded_s or grid_s)
        if self.cutoff_hz >= 0.5 / slowest:
            raise DataError(
                f"data every {slowest:.4g} s cannot be filtered at {self.cutoff_hz:.4g} Hz for a target interval of "
                f"{interval_s:.4g} s; are the stamps seconds? Then choose a longer interval, record faster, or use "
                "'dynid logs' for slow logs"
            )
        self.settling_s = settings.settling_periods / self.cutoff_hz
        self.sections = butterworth_sections(settings.order, self.cutoff_hz, 1.0 / grid_s)

    def apply(self, signal: FloatArray) -> FloatArray:
        """The filtered signal, (N, n) as given, on the fine grid."""
        return filtered_both_ways(self.sections, signal)


def central_differences(q: FloatArray, step: float) -> tuple[FloatArray, FloatArray]:
    """First and second derivative of q (N, n) by five-point central differences; one-sided at the two ends."""
    dq, ddq = np.gradient(q, step, axis=0), np.empty_like(q)
    dq[2:-2] = (8.0 * (q[3:-1] - q[1:-3]) - (q[4:] - q[:-4])) / (12.0 * step)
    ddq[2:-2] = (16.0 * (q[3:-1] + q[1:-3]) - (q[4:] + q[:-4]) - 30.0 * q[2:-2]) / (12.0 * step**2)
    ddq[:2], ddq[-2:] = ddq[2], ddq[-3]
    return dq, ddq


def signals_of(recording: Recording, robot: Robot, settings: IdentificationSettings) -> Signals:
    """The signals of a recording in the robot's joint order, its window being the trajectory motion.

    Raises:
        DataError: another robot, a missing joint, the chosen torque was not recorded, or no trajectory ran.
    """
    missing = [name for name in robot.joint_names if name not in recording.joint_names]
    if missing:
        raise DataError(f"{recording.source} lacks the joint {', '.join(missing)} of robot '{robot.name}'")
    columns = [recording.joint_names.index(name) for name in robot.joint_names]
    torques = {"present": Torques(recording.time, recording.tau_present[:, columns], "present")}
    if recording.applied is not None:
        delay = settings.goal_delay(robot, recording.hardware.cycle_s, simulated=recording.hardware.simulated)
        torques["goal"] = Torques(recording.applied.time, recording.applied.tau[:, columns], "goal", delay)
    chosen = torques.pop(settings.torque_source, None)
    if chosen is None:
        raise DataError(f"{recording.source} holds no applied torques; use torque_source: present")
    constants = np.array(recording.hardware.torque_constants_nm_per_a)
    return Signals(
        joint_names=robot.joint_names,
        time=recording.time,
        q=recording.q[:, columns],
        torque_time=chosen.time,
        tau=chosen.tau,
        torque_limits=read_only(constants[columns] * robot.current_limits) if constants.size else robot.torque_limits,
        window=recording.trajectory_span() if recording.experiments else None,
        dq=recording.dq[:, columns],
        torque_delay_s=chosen.delay_s,
        torque_source=chosen.source,
        farthest=robot.farthest,
        other=next(iter(torques.values()), None),
    )


def preprocess(signals: Signals, settings: IdentificationSettings, interval_s: float | None = None) -> Samples:
    """Samples on the target grid; long recordings in blocks, see `BLOCK`.

    Args:
        interval_s: target sampling interval; None is the settings' own.

    Raises:
        DataError: not finite, unsorted, too short, no motion, or in the wrong unit; says which joint and value.
    """
    interval = settings.sampling_interval_s if interval_s is None else interval_s
    if not 0.0 < interval < np.inf:
        raise DataError(f"the sampling interval is {interval:g} s, expected a time above 0 s, such as 0.02")
    refuse_unusable(signals)
    axis, (begin, end) = TimeAxis.of(signals.time), signals.window or (signals.time[0], signals.time[-1])
    steps, cutoff = _steps(settings.filter, interval, axis.period)[0], settings.filter.cutoff_hz(interval)
    step = interval if settings.filter.state_cutoff_ratio is None else interval / steps
    step *= 1 if step == interval else decimation(steps, step, cutoff)
    if end - begin <= WHOLE * step:
        return _one(signals, settings, interval, axis)
    length = max(1, round(BLOCK * step / interval)) * interval
    count = math.ceil((end - begin) / length)
    chosen = np.unique(np.rint(np.linspace(0, count - 1, min(count, MOST_BLOCKS))).astype(int))
    reach = 8.0 * settings.filter.settling_periods / cutoff + 100.0 * axis.period
    found, refusal = [], DataError("no block has samples")
    for k in chosen.tolist():
        window = (begin + k * length, end if k + 1 == count else begin + (k + 1) * length - 0.5 * interval)
        try:
            samples = _one(_cut(signals, window, reach), settings, interval, axis)
        except DataError as error:  # gaps; the others may do
            refusal = error
            continue
        later = 0.5 * (window[0] + window[1] - begin - end)
        found.append(replace(samples, fine=tuple(replace(one, later_s=later) for one in samples.fine)))
    if not found:
        raise refusal
    return _as_one(found, signals, settings, axis, "" if len(chosen) == count else _selection(found, end - begin))


def preprocess_piece(signals: Signals, settings: IdentificationSettings, window: tuple[float, float]) -> Samples:
    """Samples of a window [s] of a recording that still grows, as the whole recording would have them.

    They are, to rounding, where data reach `filter_reach_s` beyond the window on both sides or to the end of it; else
    the samples next to the end are left out. Windows must begin at whole sampling intervals from each other.

    Raises:
        DataError: fewer than ten samples, or data that do not reach the window.
    """
    few = settings.model_copy(update={"data": settings.data.model_copy(update={"minimum_samples": 10})})
    near = _cut(signals, window, filter_reach_s(settings) + 1.0)
    if min(len(near.time), len(near.torque_time)) < few.data.minimum_samples:
        raise DataError(
            f"the recording has no data from {window[0]:.3f} s to {window[1]:.3f} s; it ends at {signals.time[-1]:.3f} "
            "s: wait for more"
        )
    return _one(near, few, settings.sampling_interval_s, TimeAxis.of(near.time))


def filter_reach_s(settings: IdentificationSettings) -> float:
    """How far [s] beyond a window the filters look; what lies farther counts for less than rounding."""
    filters = settings.filter
    cutoff = filters.cutoff_hz(settings.sampling_interval_s)
    return 3.0 * filters.settling_periods / cutoff * (1.0 + 1.0 / (filters.state_cutoff_ratio or np.inf))


def _cut(signals: Signals, window: tuple[float, float], reach: float) -> Signals:
    """A window of a recording, with what the filters need on either side [s]."""
    near = [np.searchsorted(time, window + reach * np.array([-1, 1])) for time in (signals.time, signals.torque_time)]
    own, torques = (slice(int(first), int(last)) for first, last in near)
    other = signals.other
    if other is not None:
        first, last = np.searchsorted(other.time, window + reach * np.array([-1, 1]))
        other = replace(other, time=other.time[first:last], tau=other.tau[first:last])
    return replace(
        signals,
        time=signals.time[own],
        q=signals.q[own],
        torque_time=signals.torque_time[torques],
        tau=signals.tau[torques],
        window=window,
        dq=None if signals.dq is None else signals.dq[own],
        other=other,
    )


def _selection(parts: list[Samples], whole_s: float) -> str:
    used = sum(one.settings.window_s[1] - one.settings.window_s[0] for one in parts)
    return (
        f"{used:.0f} of {whole_s:.0f} s are used, in {len(parts)} blocks spread evenly over the recording, because an "
        "identification holds no more in memory: give the recording in parts to choose others"
    )


def _as_one(
    parts: list[Samples], signals: Signals, settings: IdentificationSettings, axis: TimeAxis, selection: str
) -> Samples:
    """Blocks of one recording as its samples, judged as a whole."""
    keys = ("time", "q", "dq", "ddq", "tau")
    arrays: dict[str, Any] = {key: np.concatenate([getattr(one, key) for one in parts]) for key in keys}
    others = [one.other_tau for one in parts if one.other_tau is not None]
    first, last = parts[0].settings, parts[-1].settings
    dropped, count = sum(one.settings.dropped_samples for one in parts), len(arrays["time"])
    record = first.model_copy(
        update={
            "window_s": signals.window or (float(signals.time[0]), float(signals.time[-1])),
            "trimmed_s": (first.trimmed_s[0], last.trimmed_s[1]),
            "missed_cycles": axis.missed,
            "dropped_samples": dropped,
            "samples": count,
            "selection": selection,
        }
    )
    derived = arrays["time"], arrays["dq"]
    return replace(
        parts[0],
        **arrays,
        settings=record,
        quality=(data_quality(signals, axis, settings.data, dropped / (dropped + count), derived),),
        fine=tuple(states for one in parts for states in one.fine),
        other_tau=np.concatenate(others) if others else None,
    )


def _one(signals: Signals, settings: IdentificationSettings, interval: float, axis: TimeAxis) -> Samples:
    """Samples of a recording, or a block of one; errors as in `preprocess`."""
    if not min(len(signals.time), len(signals.torque_time)):
        raise DataError(f"no data near the block {signals.window} [s]: it lies within a gap; record without gaps")
    steps, ratio = _steps(settings.filter, interval, axis.period)
    grid = interval / steps
    skip = 1 if ratio is None else decimation(steps, grid, settings.filter.cutoff_hz(interval))
    low_pass = LowPass(settings.filter, interval, grid * skip, axis.period)
    # the filter in front of the decimation; without a ratio it is the only one
    first_pass = LowPass(settings.filter, interval, grid, axis.period, ratio or 1.0)
    begin, end = signals.window or (signals.time[0], signals.time[-1])
    margin = low_pass.settling_s + (0.0 if ratio is None else first_pass.settling_s)
    covered = _covered(signals)
    # a few settling times beyond the window feed the filter; more would only cost time
    first = skip * int(np.ceil((max(covered[0], begin - 3 * margin) - begin) / (grid * skip) - 1e-9))
    last = int(np.floor((min(covered[1], end + 3 * margin) - begin) / grid + 1e-9))
    fine = np.asarray(begin + grid * np.arange(first, last + 1), dtype=np.float64)
    if len(fine) < 6 * settings.filter.order + 6 * steps:  # the filter's own padding needs some data
        raise DataError(
            f"only {max(len(fine), 0) * grid:.3g} s of data from {begin:.3f} s to {end:.3f} s; that is too short for a "
            f"target interval of {interval:.3g} s"
        )
    q = first_pass.apply(band_interpolated(fine, signals.time, signals.q, first_pass.cutoff_hz))
    torques, ripple, means = _torques(signals, fine, first_pass, skip)
    q, dq, ddq = (x[::skip] for x in (q, *central_differences(q, grid)))
    time, places = fine[::skip], np.arange(first, last + 1, skip)
    usable = (max(begin, time[0] + margin), min(end, time[-1] - margin))
    # target-grid samples only: the grid starts with the window, so equal windows give equal instants
    target = np.flatnonzero(places % steps == 0)
    target = target[(time[target] >= usable[0] - 1e-9) & (time[target] <= usable[1] + 1e-9)]
    keep = _clear_of_gaps(time[target], axis, settings, margin)
    dropped = int((~keep).sum())
    target = target[keep]
    if len(target) < settings.data.minimum_samples:
        raise DataError(
            f"{len(target)} usable samples every {interval:.3g} s from {begin:.3f} s to {end:.3f} s; at least "
            f"{settings.data.minimum_samples} are needed: record longer or choose a shorter interval"
        )
    parts: tuple[FineStates, ...] = ()
    if ratio is not None:
        wide = LowPass(settings.filter, interval, grid * skip, axis.period, ratio).sections
        parts = (
            FineStates(
                q,
                dq,
                ddq,
                low_pass.sections,
                target,
                torques[0],
                ripple,
                wide,
                means[0],
                means[1] if len(means) > 1 else None,
            ),
        )
    q, dq, ddq, tau, *other = (parts[0].low_pass(x) if parts else x[target] for x in (q, dq, ddq, *torques))
    if signals.other is not None:
        other = [_where_covered(other[0], time[target], signals.other, margin)]
    record = SampleSettings(
        interval_s=interval,
        grid_s=grid,
        filter_order=settings.filter.order,
        cutoff_hz=low_pass.cutoff_hz,
        state_cutoff_hz=None if ratio is None else first_pass.cutoff_hz,
        torque_source=signals.torque_source,
        torque_delay_s=signals.torque_delay_s,
        window_s=(float(begin), float(end)),
        trimmed_s=(float(usable[0] - begin), float(end - usable[1])),
        missed_cycles=axis.missed,
        dropped_samples=dropped,
        samples=len(target),
    )
    quality = data_quality(signals, axis, settings.data, dropped / (dropped + len(target)), (time[target], dq))
    states = Samples(signals.joint_names, time[target], q, dq, ddq, tau, record, (quality,), parts, *other)
    return replace(states, torque_limits=signals.torque_limits)


def _torques(
    signals: Signals, fine: FloatArray, low_pass: LowPass, skip: int
) -> tuple[list[FloatArray], FloatArray, list[FloatArray]]:
    """Filtered torques of the chosen and the other current, ripple (M, R, n), and unfiltered means; (M, n) [N m]."""
    chosen = Torques(signals.torque_time, signals.tau, signals.torque_source, signals.torque_delay_s)
    recorded = [one for one in (chosen, signals.other) if one is not None]
    raw = [_on_grid(one, fine, low_pass.cutoff_hz) for one in recorded]
    written = next((one for one in recorded if one.source == "goal"), None)
    means = [decimated(one, skip) for one in raw]
    return [low_pass.apply(one)[::skip] for one in raw], _ripple(fine, raw[0], written, low_pass, skip), means


def _on_grid(torques: Torques, fine: FloatArray, cutoff_hz: float) -> FloatArray:
    """Torques at the instants `fine` (K,) [s], exact up to a cut-off, (K, n) [N m]."""
    time, tau = held_over_gaps(torques.time, torques.tau, torques.source)
    return band_interpolated(fine, time + torques.delay_s, tau, cutoff_hz)


def _where_covered(tau: FloatArray, time: FloatArray, torques: Torques, margin: float) -> FloatArray:
    """Samples tau (N, n) at time (N,), NaN where the record of these torques does not reach [s]."""
    begin, end = torques.time[0] + torques.delay_s + margin, torques.time[-1] + torques.delay_s - margin
    return np.where(((time >= begin) & (time <= end))[:, None], tau, np.nan)


def _ripple(fine: FloatArray, raw: FloatArray, written: Torques | None, low_pass: LowPass, skip: int) -> FloatArray:
    """What a low-pass takes off the torques, at the instants about every node that is kept, (M, R, n) [N m].

    A measured current has been averaged, so the written one is more accurate, if it was recorded.
    """
    if written is not None:
        place = np.searchsorted(written.time + written.delay_s, fine, side="right") - 1
        raw = written.tau[np.clip(place, 0, len(written.tau) - 1)]
    fast = raw - low_pass.apply(raw)
    return np.asarray(fast[around(len(fine), skip)])


def preprocess_recording(
    recording: Recording, robot: Robot, settings: IdentificationSettings, *, interval_s: float | None = None
) -> Samples:
    """`preprocess` of `signals_of` a recording."""
    return preprocess(signals_of(recording, robot, settings), settings, interval_s)


def _steps(settings: FilterSettings, interval: float, period: float) -> tuple[int, float | None]:
    """Steps of the fine grid per target interval, and the cut-off of the states over that of the torques.

    The grid is as fine as the recording, since a coarser one would fold what lies above its own band into it before the
    filter acts, and fine enough for the differences up to the cut-off of the states.
    """
    recorded = max(1, round(interval / period))
    ratio = _state_cutoff_ratio(settings, interval, max(interval / recorded, period))
    finest = finest_step_s((ratio or 1.0) * settings.cutoff_hz(interval))
    return max(recorded, math.ceil(interval / finest - 1e-9)), ratio


def _state_cutoff_ratio(settings: FilterSettings, interval: float, period: float) -> float | None:
    """The settings' ratio, or what slowly recorded data allow of it."""
    if settings.state_cutoff_ratio is None:
        return None
    allowed = MOST_OF_NYQUIST * 0.5 / (period * settings.cutoff_hz(interval))
    return min(settings.state_cutoff_ratio, max(allowed, 1.0))


def _covered(signals: Signals) -> tuple[float, float]:
    """The time that positions and torques both cover [s]."""
    delayed = signals.torque_time + signals.torque_delay_s
    return max(signals.time[0], delayed[0]), min(signals.time[-1], delayed[-1])


def _clear_of_gaps(
    time: FloatArray, axis: TimeAxis, settings: IdentificationSettings, margin: float
) -> NDArray[np.bool_]:
    """Which of the instants (N,) lie further from every long gap than the filter reaches."""
    clear = np.ones(len(time), dtype=bool)
    for begin, end in axis.gaps:
        if end - begin > settings.data.longest_gap_s:
            clear &= (time < begin - 0.5 * margin) | (time > end + 0.5 * margin)
    return clear
