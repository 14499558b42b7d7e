"""Times of messages from their stamps: clocks that are set back, missing stamps, publishers on other clocks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dynid.recording.series import JointSeries
from dynid.robot import FloatArray

SET_BACK_S = 0.5  # by less, messages overtook each other
CLOCK_GAP_STEPS = 100.0  # of the median step: behind a clock that was set back
OTHER_CLOCK_S = 0.1  # stamps of two publishers that differ by more against the recorder's are of two clocks


def running(stamp_ns: NDArray[np.int64], notes: list[str]) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return times (N,) [s] that start at 0, and which of them are later than all before.

    A clock that was set back, as that of a simulator that starts again, starts a new piece behind a gap.
    """
    time = _forward(stamp_ns, 1.0, notes)
    later = _later(time)
    if lost := int((~later).sum()):
        notes.append(f"{lost} of {len(time)} messages are stamped no later than one before them and were left out")
    return time, later


def _forward(stamp_ns: NDArray[np.int64], steps_per_step: float, notes: list[str]) -> FloatArray:
    """Return times (N,) [s] that start at 0 and are never set back; a publisher's step is of so many steps."""
    time = (stamp_ns - stamp_ns[0]) / 1e9 if len(stamp_ns) else np.zeros(0)
    steps = np.diff(time)
    back = np.flatnonzero(steps < -SET_BACK_S)
    forward = steps[steps > 0.0]
    for row in back.tolist():
        gap = CLOCK_GAP_STEPS * steps_per_step * float(np.median(forward))
        time[row + 1 :] += time[: row + 1].max() - time[row + 1] + gap
    if len(back):
        notes.append(f"the stamps are set back {len(back)} times, by {-steps.min():.3g} s at most: read as pieces")
    return time


def _later(time: FloatArray) -> NDArray[np.bool_]:
    """Return which times (N,) are later than all before."""
    return np.r_[True, time[1:] > np.maximum.accumulate(time)[:-1]] if len(time) else np.zeros(0, dtype=bool)


def common_times(series: Sequence[JointSeries], notes: list[str]) -> list[tuple[FloatArray, NDArray[np.bool_]]]:
    """Return the times (N,) [s] of several publishers on one axis, and which rows of each are later than all before.

    The axis is that of the stamps. Where one publisher has none, or the stamps are of clocks that disagree, it is the
    recorder's.
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
