"""Conversion of message stamps to times on one axis.

The conversion also handles clocks that differ or were set back, and missing stamps.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.recording.series import JointSeries
from dynid.robot import FloatArray

SET_BACK_S = 0.5  # a larger step back means that the clock was set back; smaller ones are reordered messages [s]
CLOCK_GAP_STEPS = 100.0  # length of the gap inserted after the clock was set back [median steps]
OTHER_CLOCK_S = 0.1  # larger differences of two publishers' median latency mean two different clocks [s]


def increasing_times(stamp_ns: NDArray[np.int64], notes: list[str]) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return times (N,) [s] that start at 0, and a mask (N,) of the times that exceed all previous times.

    If the clock was set back, for example at a restart of a simulator, the following messages are appended after a gap.

    Args:
        stamp_ns: stamps of the messages, (N,) [ns].
        notes: list to which remarks on irregular stamps are added.

    Raises:
        DataError: a clock was set back, and no stamp exceeds the stamp before it.
    """
    time = _forward(stamp_ns, 1.0, notes)
    later = _later(time)
    if lost := int((~later).sum()):
        notes.append(f"{lost} of {len(time)} messages are stamped no later than one before them and were left out")
    return time, later


def _forward(stamp_ns: NDArray[np.int64], steps_per_step: float, notes: list[str]) -> FloatArray:
    """Return times (N,) [s] that start at 0; wherever the clock was set back, insert a gap and continue.

    Args:
        stamp_ns: stamps of the messages of all publishers, in order of arrival, (N,) [ns].
        steps_per_step: number of all messages, divided by the number of messages of the most frequent publisher. The
            period of that publisher is this ratio times the median of the positive steps between stamps. The inserted
            gap lasts `CLOCK_GAP_STEPS` such periods.
        notes: list to which a note is added if the stamps are set back.

    Raises:
        DataError: the clock was set back, and no stamp exceeds the stamp before it.
    """
    time = (stamp_ns - stamp_ns[0]) / 1e9 if len(stamp_ns) else np.zeros(0)
    steps = np.diff(time)
    back = np.flatnonzero(steps < -SET_BACK_S)
    forward = steps[steps > 0.0]
    if len(back) and not len(forward):
        raise DataError(
            f"the stamps of {len(time)} messages only go back, by {-steps.min():.3g} s at most, expected stamps that "
            "advance: set the publisher's clock right and record again"
        )
    for row in back.tolist():
        gap = CLOCK_GAP_STEPS * steps_per_step * float(np.median(forward))
        time[row + 1 :] += time[: row + 1].max() - time[row + 1] + gap
    if len(back):
        notes.append(f"the stamps are set back {len(back)} times, by {-steps.min():.3g} s at most: read as pieces")
    return time


def _later(time: FloatArray) -> NDArray[np.bool_]:
    """Return a mask (N,) of the times (N,) [s] that are later than all times before them."""
    return np.r_[True, time[1:] > np.maximum.accumulate(time)[:-1]] if len(time) else np.zeros(0, dtype=bool)


def common_times(series: Sequence[JointSeries], notes: list[str]) -> list[tuple[FloatArray, NDArray[np.bool_]]]:
    """Return the times of each publisher's messages on one axis for all publishers.

    The axis follows the header stamps. If a publisher sends no stamps, or if the stamps come from differing clocks, the
    axis follows the recorder's log times.

    Args:
        series: decoded messages of each publisher.
        notes: list to which remarks on irregular stamps are added.

    Returns:
        For each publisher, times (N,) [s], and a mask (N,) of the messages that are later than all of its previous
        messages.

    Raises:
        DataError: a clock was set back, and no stamp exceeds the stamp before it.
    """
    stamps, logs = [one.stamp_ns for one in series], [one.log_ns for one in series]
    late = [float(np.median(log - stamp)) / 1e9 for log, stamp in zip(logs, stamps, strict=True)]
    if any(len(one) > 1 and not np.ptp(one) for one in stamps):
        stamps = logs
        notes.append("some messages carry no stamps of their own: all times are the recorder's")
    elif max(late) - min(late) > OTHER_CLOCK_S:
        stamps = logs
        notes.append(
            f"the publishers' stamps are {max(late) - min(late):.3g} s apart against the recorder's clock: all times "
            "are the recorder's"
        )
    whole, owner = np.concatenate(stamps), np.repeat(np.arange(len(series)), [len(one) for one in stamps])
    order = np.argsort(np.concatenate(logs), kind="stable")
    time = np.empty(len(whole))
    counts = np.bincount(owner)
    time[order] = _forward(whole[order], len(whole) / float(counts.max()), notes)
    found = []
    for k, one in enumerate(series):
        own = time[owner == k]
        later = _later(own)
        if lost := int((~later).sum()):
            notes.append(
                f"{lost} of {len(own)} messages of {one.topic} are stamped no later than one before them and were left "
                "out"
            )
        found.append((own, later))
    return found
