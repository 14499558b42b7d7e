"""Division of a recording into motions and standstill, for an arm that the user moves by hand."""

import numpy as np
from scipy import ndimage

from dynid.errors import DataError
from dynid.robot import FloatArray

WINDOW_S = 0.5  # time within which a joint that stands still moves by less than MOTION_DEG [s]
MOTION_DEG = 1.0  # motion within WINDOW_S from which a joint is moving, ten steps of the encoder [deg]
STILL_S = 0.8  # minimum duration of a standstill that separates two motions [s]
MOST_GAP_S = 0.3  # longest gap between samples, in which a hand turns a joint by less than half a turn [s]


def moving_ranges(time: FloatArray, position_deg: FloatArray) -> tuple[list[tuple[int, int]], int]:
    """Return the range (first, end) of samples of each motion, and the first sample of the standstill at the end.

    Args:
        time: times of the samples, (N,) [s].
        position_deg: positions of the servos, (N, m) [deg].

    Raises:
        DataError: samples are missing, or the arm does not stand still at the end.
    """
    if (gap := float(np.diff(time).max())) > MOST_GAP_S:
        raise DataError(f"the recording has a gap of {gap:.2f} s, expected at most {MOST_GAP_S:g} s: record it again")
    moving = _moving(time, position_deg)
    ranges: list[tuple[int, int]] = []
    for begin, end in _runs(moving):
        if ranges and time[begin] - time[ranges[-1][1] - 1] < STILL_S:
            begin = ranges.pop()[0]
        ranges.append((begin, end))
    still_from = ranges[-1][1] if ranges else 0
    if still_from >= len(time) or time[-1] - time[still_from] < STILL_S:
        raise DataError(f"the arm moves at the end of the recording: hold it still in the pose for {STILL_S:g} s")
    return ranges, still_from


def _moving(time: FloatArray, position_deg: FloatArray) -> "np.ndarray":
    """Return a mask (N,) of the samples around which the arm moves.

    Args:
        time: times of the samples, (N,) [s].
        position_deg: positions of the servos, (N, m) [deg].
    """
    first = np.searchsorted(time, time - WINDOW_S / 2)
    last = np.searchsorted(time, time + WINDOW_S / 2, side="right")
    spans = (np.ptp(position_deg[a:b], axis=0).max() for a, b in zip(first, last, strict=True))
    return np.fromiter(spans, dtype=np.float64, count=len(time)) > MOTION_DEG


def _runs(flags: "np.ndarray") -> list[tuple[int, int]]:
    """Return the range (first index, end) of each run of True in a mask (N,); the index `end` is not included."""
    return [(rows.start, rows.stop) for (rows,) in ndimage.find_objects(ndimage.label(flags)[0])]
