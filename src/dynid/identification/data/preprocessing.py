"""From recorded signals to samples for the regression, by either of two makers of rows.

`filtered_rows` needs a recording that is fast and even, `averaged_rows` takes slow and uneven ones; `row_choice`
decides unless the settings do. Both give states on a fine grid and a low-pass to the samples (`fine_states`), so
everything after them exists once. Long recordings are used in blocks.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.errors import DataError
from dynid.identification.data.averaged_rows import averaged_samples, averaging_grid
from dynid.identification.data.filtered_rows import LowPass as LowPass  # also for those who make samples
from dynid.identification.data.filtered_rows import central_differences as central_differences
from dynid.identification.data.filtered_rows import filter_grid, filtered_samples
from dynid.identification.data.fine_states import decimation
from dynid.identification.data.row_choice import RowChoice, row_choice
from dynid.identification.data.samples import Samples as Samples
from dynid.identification.data.samples import SampleSettings as SampleSettings
from dynid.identification.data.signals import Signals, Span, TimeAxis, Torques, data_quality, refuse_unusable
from dynid.identification.data.weak_form import HOPS
from dynid.identification.settings import IdentificationSettings
from dynid.recording.recording import Recording
from dynid.robot import Robot, read_only

# The regression keeps kilobytes of every instant of the fine grid. A recording of more than `WHOLE` instants is cut
# into blocks, the filters of which reach into their neighbours; of more than `MOST_BLOCKS` some are left out.
BLOCK, WHOLE, MOST_BLOCKS = 16_000, 40_000, 6
MAKERS = {"filtered": filtered_samples, "averaged": averaged_samples}


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
        interval_s: target sampling interval; None is the settings' own. Of slow recordings it becomes longer.

    Raises:
        DataError: not finite, unsorted, too short, no motion, or in the wrong unit; says which joint and value.
    """
    interval = settings.sampling_interval_s if interval_s is None else interval_s
    if not 0.0 < interval < np.inf:
        raise DataError(f"the sampling interval is {interval:g} s, expected a time above 0 s, such as 0.02")
    refuse_unusable(signals)
    axis, (begin, end) = TimeAxis.of(signals.time), signals.window or (signals.time[0], signals.time[-1])
    choice = row_choice(axis, settings, interval)
    make, interval = MAKERS[choice.kind], choice.interval_s
    step, reach = _grid_and_reach(choice, settings, axis)
    if end - begin <= WHOLE * step:
        return make(signals, settings, interval, axis)
    windows = _windows(begin, end, max(1, round(BLOCK * step / interval)) * interval, interval)
    count = len(windows)
    chosen = np.unique(np.rint(np.linspace(0, count - 1, min(count, MOST_BLOCKS))).astype(int))
    found, refusal = [], DataError("no block has samples")
    for window in [windows[k] for k in chosen.tolist()]:
        try:
            samples = make(_cut(signals, window, reach), settings, interval, axis)
        except DataError as error:  # gaps; the others may do
            refusal = error
            continue
        later = 0.5 * (window[0] + window[1] - begin - end)
        found.append(replace(samples, fine=tuple(replace(one, later_s=one.later_s + later) for one in samples.fine)))
    if not found:
        raise refusal
    return _as_one(found, signals, settings, axis, "" if len(chosen) == count else _selection(found, end - begin))


def instants_of(span: Span, settings: IdentificationSettings) -> tuple[int, int]:
    """Return how many instants of a fine grid a recording has, and how many of them its samples keep in memory."""
    choice = row_choice(span.axis, settings, settings.sampling_interval_s)
    count = int((span.end - span.begin) / _grid_and_reach(choice, settings, span.axis)[0])
    return count, count if count <= WHOLE else min(count, MOST_BLOCKS * BLOCK)


def all_blocks(signals: Signals, settings: IdentificationSettings) -> Iterator[Samples]:
    """Yield the samples of all blocks of a recording, one after the other; blocks within gaps have none.

    Raises:
        DataError: as of `preprocess`, where no block has samples.
    """
    refuse_unusable(signals)
    axis, (begin, end) = TimeAxis.of(signals.time), signals.window or (signals.time[0], signals.time[-1])
    choice = row_choice(axis, settings, settings.sampling_interval_s)
    make, interval = MAKERS[choice.kind], choice.interval_s
    step, reach = _grid_and_reach(choice, settings, axis)
    if end - begin <= WHOLE * step:
        yield make(signals, settings, interval, axis)
        return
    windows = _windows(begin, end, max(1, round(BLOCK * step / interval)) * interval, interval)
    found, refusal = 0, DataError("no block has samples")
    for window in windows:
        try:
            samples = make(_cut(signals, window, reach), settings, interval, axis)
        except DataError as error:
            refusal = error
            continue
        later = 0.5 * (window[0] + window[1] - begin - end)
        yield replace(samples, fine=tuple(replace(one, later_s=one.later_s + later) for one in samples.fine))
        found += 1
    if not found:
        raise refusal


def _windows(begin: float, end: float, length: float, interval: float) -> list[tuple[float, float]]:
    """Return begin and end [s] of blocks of a length that cover a motion; the last one may be shorter."""
    count = math.ceil((end - begin) / length)
    edges = [begin + k * length for k in range(count)]
    return [(a, end if k + 1 == count else edges[k + 1] - 0.5 * interval) for k, a in enumerate(edges)]


def _grid_and_reach(choice: RowChoice, settings: IdentificationSettings, axis: TimeAxis) -> tuple[float, float]:
    """Return the step of the fine grid that is kept, and how far beyond a block its rows look [s]."""
    interval = choice.interval_s
    if choice.kind == "averaged":
        return interval / averaging_grid(interval), HOPS * interval + 100.0 * axis.period
    steps, cutoff = filter_grid(settings.filter, interval, axis.period)[0], settings.filter.cutoff_hz(interval)
    step = interval if settings.filter.state_cutoff_ratio is None else interval / steps
    step *= 1 if step == interval else decimation(steps, step, cutoff)
    return step, 8.0 * settings.filter.settling_periods / cutoff + 100.0 * axis.period


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
    return filtered_samples(near, few, settings.sampling_interval_s, TimeAxis.of(near.time))


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


def preprocess_recording(
    recording: Recording, robot: Robot, settings: IdentificationSettings, *, interval_s: float | None = None
) -> Samples:
    """Filtered samples of a recording, whose closed loop passes the same low-pass; see `preprocess`."""
    settings = settings.model_copy(update={"rows": "filtered"})
    return preprocess(signals_of(recording, robot, settings), settings, interval_s)
