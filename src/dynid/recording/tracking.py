"""Tracking error of a recorded motion."""

import numpy as np

from dynid.errors import DataError
from dynid.recording.driver_recording import DriverRecording
from dynid.robot import FloatArray


def tracking_rms(recording: DriverRecording) -> FloatArray:
    """Return each joint's root mean square tracking error during the trajectory motion of a recording, (n,) [rad].

    The tracking error is the measured position minus the reference position with the same stamp.

    Raises:
        DataError: no reference or no trajectory was recorded, or no reference has the same stamp as a state.
    """
    if recording.reference is None:
        raise DataError(f"{recording.source} holds no topic 'reference', so the tracking error cannot be computed")
    start, end = recording.trajectory_span()
    inside = (recording.time >= start) & (recording.time <= end)
    time, reference = recording.time[inside], recording.reference
    place = np.clip(np.searchsorted(reference.time, time), 0, len(reference.time) - 1)
    same = np.abs(reference.time[place] - time) < 1e-6
    if not same.any():
        raise DataError(f"{recording.source}: no reference has the same stamp as a state")
    error = recording.q[inside][same] - reference.q[place[same]]
    return np.asarray(np.sqrt(np.mean(error**2, axis=0)))
