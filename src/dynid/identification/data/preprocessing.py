"""Conversion of recorded signals to samples for the regression, by a low-pass filter or by averages.

`filtered_rows` needs a fast and evenly sampled recording; `averaged_rows` accepts slow and unevenly sampled recordings.
If the settings do not choose between them, `row_choice` does. Both return states on a fine time grid, and a low-pass
that gives the samples (`fine_states`). So all later steps are independent of the choice. Long recordings are processed
in blocks of time.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynid.errors import DataError
from dynid.identification.data.averaged_rows import averaged_samples, averaging_grid
from dynid.identification.data.filtered_rows import LowPass as LowPass  # re-exported
from dynid.identification.data.filtered_rows import central_differences as central_differences
from dynid.identification.data.filtered_rows import filter_grid, filtered_samples
from dynid.identification.data.fine_states import decimation
from dynid.identification.data.row_choice import SLOWEST_S, RowChoice, row_choice
from dynid.identification.data.samples import Samples as Samples
from dynid.identification.data.samples import SampleSettings as SampleSettings
from dynid.identification.data.signals import Signals, Span, TimeAxis, Torques, data_quality, refuse_unusable
from dynid.identification.data.weak_form import HOPS
from dynid.identification.settings import IdentificationSettings
from dynid.recording.driver_recording import DriverRecording
from dynid.robot import FloatArray, Robot, read_only

# The regression needs kilobytes per instant of the fine grid. A recording of more than `WHOLE` instants is cut
# into blocks of `BLOCK` instants, whose filters use data of their neighbours. At most `MOST_BLOCKS` blocks are used.
BLOCK, WHOLE, MOST_BLOCKS = 16_000, 40_000, 4
MAKERS = {"filtered": filtered_samples, "averaged": averaged_samples}


def signals_of(recording: DriverRecording, robot: Robot, settings: IdentificationSettings) -> Signals:
    """Return the signals of a driver recording in the robot's joint order.

    The field `window` is the time in which the trajectory was executed; None if no experiment was recorded.

    Raises:
        DataError: the recording lacks a joint of the robot, or the torques that `settings.torque_source` selects; or
            the trajectory of the recorded experiment never started.
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
    """Return samples for the regression at a target sampling interval; long recordings are processed in blocks of time.

    Args:
        signals: raw signals of one recording.
        settings: settings of the identification.
        interval_s: target sampling interval [s]; None means the interval of the settings. The interval is lengthened
            for a slow recording.

    Raises:
        DataError: signals are not finite or in the wrong unit (the message names joint and value), not sorted, too
            short, without motion, or too slow for the filter; they give too few samples; or the interval is not
            positive.
    """
    interval = settings.sampling_interval_s if interval_s is None else interval_s
    if not 0.0 < interval < np.inf:
        raise DataError(f"the sampling interval is {interval:g} s, expected a time above 0 s, such as 0.02")
    blocks = _Blocks.of(signals, settings, interval)
    if not blocks.windows:
        return blocks.whole(signals)
    count = len(blocks.windows)
    chosen = np.unique(np.rint(np.linspace(0, count - 1, min(count, MOST_BLOCKS))).astype(int)).tolist()
    found = list(blocks.samples(signals, [blocks.windows[k] for k in chosen]))
    part = "" if len(chosen) == count else _selection(found, blocks.duration_s)
    return _as_one(found, signals, settings, blocks.axis, part)


def instants_of(span: Span, settings: IdentificationSettings) -> tuple[int, int]:
    """Return the number of instants of a recording's fine time grid, and the number that an identification uses.

    The numbers differ for a long recording, which is divided into blocks of time: the samples for the regression come
    from a few blocks only.

    Args:
        span: time axis, start and end of the recorded motion.
        settings: settings of the identification.
    """
    choice = row_choice(span.axis, settings, settings.sampling_interval_s)
    count = int((span.end - span.begin) / _grid_and_reach(choice, settings, span.axis)[0])
    return count, count if count <= WHOLE else min(count, MOST_BLOCKS * BLOCK)


def all_blocks(signals: Signals, settings: IdentificationSettings) -> Iterator[Samples]:
    """Yield the samples of each block of time of a recording in order; blocks within gaps are skipped.

    A recording is divided into blocks if it is too long to be processed at once.

    Raises:
        DataError: signals are not finite or in the wrong unit, not sorted, too short, without motion, or too slow for
            the filter; or no block has enough samples.
    """
    blocks = _Blocks.of(signals, settings, settings.sampling_interval_s)
    if blocks.windows:
        yield from blocks.samples(signals, blocks.windows)
    else:
        yield blocks.whole(signals)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Division of one recording into blocks of time that are processed one after the other.

    A row is the torque equation of one joint at one sample, from filtered or averaged signals.

    Attributes:
        settings: settings of the identification.
        axis: time axis of the recording.
        kind: "filtered" or "averaged" rows.
        interval_s: sampling interval of the rows [s].
        begin: start of the motion [s].
        end: end of the motion [s].
        reach_s: time before and after a block whose data affect the rows of the block [s].
        windows: start and end of each block [s]; () if the recording is processed as a whole.
    """

    settings: IdentificationSettings
    axis: TimeAxis
    kind: str
    interval_s: float
    begin: float
    end: float
    reach_s: float
    windows: Sequence[tuple[float, float]]

    @classmethod
    def of(cls, signals: Signals, settings: IdentificationSettings, interval_s: float) -> "_Blocks":
        """Return the division of a recording into blocks of time.

        Args:
            signals: signals of the recording.
            settings: settings of the identification.
            interval_s: target sampling interval [s].

        Raises:
            DataError: the signals are not finite or in the wrong unit, not sorted, too short or without motion.
        """
        refuse_unusable(signals)
        axis, (begin, end) = TimeAxis.of(signals.time), signals.window or (signals.time[0], signals.time[-1])
        choice = row_choice(axis, settings, interval_s)
        interval = choice.interval_s
        step, reach = _grid_and_reach(choice, settings, axis)
        windows: Sequence[tuple[float, float]] = ()
        if end - begin > WHOLE * step and axis.period <= SLOWEST_S:  # slower recordings are refused as a whole
            windows = _windows(signals.time, begin, end, max(1, round(BLOCK * step / interval)) * interval, interval)
        return cls(settings, axis, choice.kind, interval, begin, end, reach, windows)

    @property
    def duration_s(self) -> float:
        """Duration of the recorded motion [s]."""
        return self.end - self.begin

    def whole(self, signals: Signals) -> Samples:
        """Return samples computed from all given signals at once, without a division into blocks."""
        return MAKERS[self.kind](signals, self.settings, self.interval_s, self.axis)

    def samples(self, signals: Signals, windows: Sequence[tuple[float, float]]) -> Iterator[Samples]:
        """Yield the samples of the given blocks in order; a block within gaps is skipped.

        Args:
            signals: signals of the recording.
            windows: start and end of each block [s].

        Raises:
            DataError: no block has samples; the error of the last block is raised.
        """
        found, refusal = 0, DataError("no block has samples")
        for window in windows:
            try:
                samples = self.whole(_cut(signals, window, self.reach_s))
            except DataError as error:
                refusal = error
                continue
            later = 0.5 * (window[0] + window[1] - self.begin - self.end)
            yield replace(samples, fine=tuple(replace(one, later_s=one.later_s + later) for one in samples.fine))
            found += 1
        if not found:
            raise refusal


def _windows(time: FloatArray, begin: float, end: float, length: float, interval: float) -> list[tuple[float, float]]:
    """Return start and end [s] of the consecutive blocks of a motion that have rows; the last one may be shorter.

    Args:
        time: stamps of the rows, (N,) [s].
        begin: start of the motion [s].
        end: end of the motion [s].
        length: length of a block [s].
        interval: sampling interval [s]; each block ends half a sampling interval before the next one starts.
    """
    count = math.ceil((end - begin) / length)
    inside = time[(time >= begin) & (time <= end)]
    places, rows = np.unique(np.minimum((inside - begin) // length, count - 1), return_counts=True)
    used = places[rows > 1].tolist()  # of a pause, however long, there are none
    return [(begin + k * length, end if k + 1 == count else begin + (k + 1) * length - 0.5 * interval) for k in used]


def _grid_and_reach(choice: RowChoice, settings: IdentificationSettings, axis: TimeAxis) -> tuple[float, float]:
    """Return the time step of the states' grid [s], and the time around a block in which data affect its samples [s].

    The grid of states is at least as fine as the sampling interval. A block is a part of the recording; raw data that
    precede or follow it by at most the second time may affect its samples.

    Args:
        choice: choice between filtered and averaged signals, with the sampling interval.
        settings: settings of the identification.
        axis: time axis of the recording.
    """
    interval = choice.interval_s
    if choice.kind == "averaged":
        return interval / averaging_grid(interval), HOPS * interval + 100.0 * axis.period
    steps, cutoff = filter_grid(settings.filter, interval, axis.period)[0], settings.filter.cutoff_hz(interval)
    step = interval if settings.filter.state_cutoff_ratio is None else interval / steps
    step *= 1 if step == interval else decimation(steps, step, cutoff)
    return step, 8.0 * settings.filter.settling_periods / cutoff + 100.0 * axis.period


def preprocess_piece(signals: Signals, settings: IdentificationSettings, window: tuple[float, float]) -> Samples:
    """Return the filtered samples of one time window of a recording that is still in progress.

    The filter needs data up to `filter_reach_s` before and after the window. If these data exist, the samples equal
    those of the complete recording except for rounding. If the data after the window are missing, the last samples of
    the window are left out. If several windows are processed, their starts must differ by multiples of the sampling
    interval.

    Args:
        signals: signals recorded so far.
        settings: settings of the identification.
        window: start and end of the window [s].

    Raises:
        DataError: there are fewer than ten samples, or the data do not reach the window.
    """
    few = settings.model_copy(update={"data": settings.data.model_copy(update={"minimum_samples": 10})})
    near = _cut(signals, window, filter_reach_s(settings) + 1.0)
    if min(len(near.time), len(near.torque_time)) < few.data.minimum_samples:
        raise DataError(
            f"the recording has no data from {window[0]:.3f} s to {window[1]:.3f} s; it ends at {signals.time[-1]:.3f} "
            "s: wait for more"
        )
    return filtered_samples(near, few, settings.sampling_interval_s, TimeAxis.of(near.time))


def filter_reach_s(settings: IdentificationSettings) -> float:
    """Return the time before and after a window whose data affect the filtered samples of the window [s].

    The effect of data farther away is smaller than rounding errors.
    """
    filters = settings.filter
    cutoff = filters.cutoff_hz(settings.sampling_interval_s)
    return 3.0 * filters.settling_periods / cutoff * (1.0 + 1.0 / (filters.state_cutoff_ratio or np.inf))


def _cut(signals: Signals, window: tuple[float, float], reach: float) -> Signals:
    """Return the part of signals that is needed to compute the samples of a window of time.

    Args:
        signals: signals of a recording.
        window: start and end of the window [s].
        reach: time before and after the window that is included [s].
    """
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
        goal=None,
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
    """Join the samples of a recording's blocks to one set, with the data quality of the whole recording.

    Args:
        parts: samples of each block.
        signals: signals of the recording.
        settings: settings of the identification.
        axis: time axis of the recording.
        selection: sentence about the blocks that are used; "" if all are used.
    """
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
    derived, averaged = (arrays["time"], arrays["dq"]), first.rows == "averaged"
    return replace(
        parts[0],
        **arrays,
        settings=record,
        quality=(data_quality(signals, axis, settings.data, dropped / (dropped + count), derived, averaged=averaged),),
        fine=tuple(states for one in parts for states in one.fine),
        other_tau=np.concatenate(others) if others else None,
    )


def preprocess_recording(
    recording: DriverRecording, robot: Robot, settings: IdentificationSettings, *, interval_s: float | None = None
) -> Samples:
    """Return filtered samples of a driver recording, even if the settings choose averages under test functions.

    Filtered samples are needed for comparison with a simulated closed loop, whose torques pass the same low-pass.

    Args:
        recording: recording of dynid's driver.
        robot: the robot that was recorded.
        settings: settings of the identification.
        interval_s: target sampling interval [s]; None means the interval of the settings.

    Raises:
        DataError: the recording lacks a joint of the robot or the torques that `settings.torque_source` selects, or its
            trajectory never started; its signals cannot be used for identification or are too slow for the filter; or
            they give too few samples.
    """
    settings = settings.model_copy(update={"rows": "filtered"})
    return preprocess(signals_of(recording, robot, settings), settings, interval_s)
