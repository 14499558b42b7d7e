"""Conversion of a hand-guided motion into a replay: trimmed, smoothed, and slowed where it exceeds limits.

If the control law follows no reference, the executor records the measured position as the reference. So the arm was
guided by hand wherever reference and measured position are exactly equal. Standstill before and after hand guiding is
cut off. The path is smoothed without lag. The replay has the recorded speed if velocity and acceleration limits permit,
and is slower elsewhere on the same path.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d, minimum_filter1d, uniform_filter1d

from dynid.control.motion_check import MotionLimits, robot_limits
from dynid.errors import DataError
from dynid.recording.driver_recording import DriverRecording, load_driver_recording
from dynid.recording.topics import REFERENCE
from dynid.robot import FloatArray, Robot, read_only
from dynid.trajectory.families import load_excitation
from dynid.trajectory.files import save_trajectory_file
from dynid.trajectory.polynomial import PolynomialTrajectory, through_points

MOVED_RAD = 0.05  # least travel of the most moved joint in a hand-guided motion
STANDSTILL_S, SETTLED_S = 1.0, 0.3  # standstill before hand guiding, and its last part, in which the sag is over
STILL_RAD = 0.005  # largest motion of a standing arm: more than encoder noise
GAP_S = 0.02  # longest gap between states within one hand-guided part
GRID_S, POINT_S = 0.005, 0.05
SMOOTHING_S = 0.04  # standard deviation of the Gaussian filter; hand motion is below 5 Hz
LIMIT_SHARE = 0.95  # share of the limits that a replay uses
WINDOW_POINTS = 7  # number of points over which the replay's speed changes
MOST_ROUNDS = 60
PIECE_SAMPLES = 33  # samples per piece; dense, since the first piece, from rest, is fastest soon after its start


@dataclass(frozen=True, eq=False)
class GuidedReplay:
    """A motion that repeats a recorded hand-guided motion, together with the recorded path.

    Attributes:
        motion: the replay, from rest to rest.
        points: points of the replay at the times of its knots, (k, n) [rad].
        shown_s: times at which the hand-guided arm passed these points, since the start of hand guiding, (k,) [s].
        path_time: times of the recorded path, on the axis of `shown_s`, (m,) [s].
        path: recorded path, (m, n) [rad].
    """

    motion: PolynomialTrajectory
    points: FloatArray
    shown_s: FloatArray
    path_time: FloatArray
    path: FloatArray

    @property
    def slowed(self) -> tuple[float, float, float] | None:
        """Lowest ratio of replay speed to recorded speed, and start and end of the interval with all slower parts [s].

        The interval lasts from the start of the first part that is slower than recorded to the end of the last one, in
        times of the recorded motion. The value is None if no part is slower than recorded.
        """
        rate = np.diff(self.shown_s) / np.diff(self.motion.knots)
        slow = np.flatnonzero(rate < 1.0 - 1e-6)
        if not len(slow):
            return None
        return float(rate.min()), float(self.shown_s[slow[0]]), float(self.shown_s[slow[-1] + 1])

    def in_words(self) -> str:
        """Return a line of text that compares duration and speed of the replay with those of the recorded motion."""
        text = f"replay of {self.shown_s[-1]:.1f} s lasts {self.motion.duration:.1f} s"
        if self.slowed is None:
            return f"{text}, as shown"
        least, begin, end = self.slowed
        return f"{text}: slowed to {least:.0%} of the shown speed at least once between {begin:.1f} s and {end:.1f} s"

    def as_dict(self) -> dict[str, Any]:
        """Return durations, lowest relative speed and slowed interval of the replay as a dictionary for JSON.

        The durations are those of the recorded motion and of the replay [s]. The lowest relative speed and the interval
        that contains all slowed parts are those of the property `slowed`. If no part is slowed, the speed is 1 and the
        interval is from 0 to 0 s.
        """
        least, begin, end = self.slowed or (1.0, 0.0, 0.0)
        return {
            "shown_s": float(self.shown_s[-1]),
            "replay_s": self.motion.duration,
            "least_speed": least,
            "slower_between_s": [begin, end],
        }

    def save(self, path: Path) -> None:
        """Write the replay as a trajectory file; raise OutputExistsError if the file exists."""
        save_trajectory_file(path, self.motion, self.points)

    def shown_at(self, times: FloatArray) -> FloatArray:
        """Return the recorded posture (N, n) [rad] that corresponds to times (N,) [s] of the replay."""
        then = np.interp(times, self.motion.knots, self.shown_s)
        return np.array([np.interp(then, self.path_time, column) for column in self.path.T]).T


def replay_of_bag(robot: Robot, bag: Path, name: str, speed: float = 1.0) -> GuidedReplay:
    """Return a motion that replays the hand-guided motion recorded in a bag.

    Args:
        robot: the recorded robot, whose limits the replay keeps.
        bag: folder of the bag.
        name: name of the replay.
        speed: replay speed relative to the recorded speed, above 0.

    Raises:
        InputNotFoundError: there is no such bag.
        DataError: the bag cannot be read, the arm was not guided by hand, or the recorded path jumps, so that the
            replay exceeds the limits however much it is slowed.
    """
    recording = load_driver_recording(bag, robot, needed=(REFERENCE,))
    limits = robot_limits(robot, load_excitation(robot).acceleration_limits)
    return replay_motion(name, robot.joint_names, *guided_part(recording), limits, speed)


def guided_part(recording: DriverRecording) -> tuple[FloatArray, FloatArray]:
    """Return the part of a recording in which the arm was guided by hand, without standstill at its ends.

    During hand guiding, the recorded reference equals the measured posture.

    Returns:
        Times from 0, (m,) [s], and postures, (m, n) [rad].

    Raises:
        DataError: the recording has no reference, the arm always followed a reference, or it hardly moved while it was
            guided by hand.
    """
    reference, source = recording.reference, recording.source
    if reference is None:
        raise DataError(f"{source} holds no topic 'reference', so it does not show whether the arm was guided by hand")
    place = np.searchsorted(reference.time, recording.time)
    place[place == len(reference.time)] = 0
    led = (np.abs(reference.time[place] - recording.time) < 1e-6) & (reference.q[place] == recording.q).all(axis=1)
    if not led.any():
        raise DataError(
            f"in {source} the arm was never guided by hand, it followed a reference: record a motion with 'dynid teach'"
        )
    begin_index, last = _longest_section(recording.time, led)
    begin_index += _after_sag(recording.time[begin_index : last + 1], recording.q[begin_index : last + 1])
    time, q = recording.time[begin_index : last + 1], recording.q[begin_index : last + 1]
    travel = np.ptp(q, axis=0)
    if travel.max() < MOVED_RAD:
        joint = int(np.argmax(travel))
        raise DataError(
            f"in {source} no hand moved the arm: {recording.joint_names[joint]} moved most, by "
            f"{np.rad2deg(travel[joint]):.1f} deg, expected at least {np.rad2deg(MOVED_RAD):.1f} deg: guide the arm "
            "while it is recorded"
        )
    begin = int(np.argmax((np.abs(q - q[0]) > STILL_RAD).any(axis=1)))
    end = len(q) - int(np.argmax((np.abs(q - q[-1]) > STILL_RAD).any(axis=1)[::-1]))
    return time[begin:end] - time[begin], q[begin:end]


def _after_sag(time: FloatArray, q: FloatArray) -> int:
    """Return the index of the first sample after the arm's initial sag.

    The arm sags when its torque is switched on, and stands still `STANDSTILL_S` later. If it does not stand still then,
    a hand has guided it from the start, and the index is 0.

    Args:
        time: times of the samples, (N,) [s].
        q: measured postures, (N, n) [rad].
    """
    stands, stood = (int(np.searchsorted(time, time[0] + at)) for at in (STANDSTILL_S, STANDSTILL_S - SETTLED_S))
    if stands >= len(time) or np.abs(q[stood:stands] - q[stands]).max() > STILL_RAD:
        return 0
    return stands


def _longest_section(time: FloatArray, led: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the indices of the first and last sample of the longest hand-guided interval.

    Gaps of at most `GAP_S` between samples do not end an interval.

    Args:
        time: times of the samples, (N,) [s].
        led: mask of the samples in which the arm was guided by hand, (N,).
    """
    samples = np.flatnonzero(led)
    ends = np.flatnonzero(np.diff(time[samples]) > GAP_S)
    begins, lasts = samples[np.append(0, ends + 1)], samples[np.append(ends, len(samples) - 1)]
    longest = int(np.argmax(time[lasts] - time[begins]))
    return int(begins[longest]), int(lasts[longest])


def replay_motion(
    name: str, joints: tuple[str, ...], time: FloatArray, q: FloatArray, limits: MotionLimits, speed: float = 1.0
) -> GuidedReplay:
    """Return a motion that replays a hand-guided path from rest to rest, slowed where it would exceed limits.

    Args:
        name: name of the motion.
        joints: joint names, (n,).
        time: times of the recorded path from `guided_part`, (m,) [s].
        q: postures of the recorded path from `guided_part`, (m, n) [rad].
        limits: limits of velocity and acceleration to keep; position and torque limits are not checked here.
        speed: replay speed relative to the recorded speed, above 0.

    Raises:
        DataError: the path jumps, so that the limits are exceeded even after `MOST_ROUNDS` rounds of slowing.
    """
    count = max(3, round(time[-1] / POINT_S) + 1)
    shown_s = np.linspace(0.0, float(time[-1]), count)
    grid = np.arange(0.0, time[-1] + GRID_S, GRID_S)
    even = np.array([np.interp(grid, time, column) for column in q.T])
    smooth = gaussian_filter1d(even, SMOOTHING_S / GRID_S, axis=1, mode="nearest")
    points = np.array([np.interp(shown_s, grid, column) for column in smooth]).T
    rate = np.full(count - 1, speed)
    for _ in range(MOST_ROUNDS):
        knots = np.concatenate([[0.0], np.cumsum(np.diff(shown_s) / rate)])
        motion = through_points(name, joints, knots, points)
        allowed = _allowed(motion, limits)
        if allowed.min() >= 1.0:
            return GuidedReplay(motion, read_only(points), read_only(shown_s), read_only(time), read_only(q))
        rate = rate * uniform_filter1d(
            minimum_filter1d(0.98 * allowed + 0.02 * (allowed >= 1.0), WINDOW_POINTS), WINDOW_POINTS
        )
    joint = joints[int(np.argmax(motion.peak_velocities / limits.velocity))]
    raise DataError(
        f"the guided motion '{name}' jumps at {joint} and exceeds its limits at every speed; guide the arm again, "
        "smoothly"
    )


def _allowed(motion: PolynomialTrajectory, limits: MotionLimits) -> FloatArray:
    """Return the factor, at most 1, by which the speed on each piece of a motion must be multiplied to keep the limits.

    The result has one factor for each piece between two of the k knots, (k - 1,) [-].
    """
    inside = np.linspace(0.0, 1.0 - 1e-9, PIECE_SAMPLES)  # excludes the end, where the motion already rests
    times = (motion.knots[:-1, None] + np.diff(motion.knots)[:, None] * inside).ravel()
    _, dq, ddq = motion.sample_all(np.minimum(times, motion.duration))
    fast = (np.abs(dq) / (LIMIT_SHARE * limits.velocity)).max(axis=1).reshape(-1, len(inside)).max(axis=1)
    hard = (np.abs(ddq) / (LIMIT_SHARE * limits.acceleration)).max(axis=1).reshape(-1, len(inside)).max(axis=1)
    return np.asarray(1.0 / np.maximum(1.0, np.maximum(fast, np.sqrt(hard))))
