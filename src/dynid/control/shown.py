"""A motion that a hand has shown, made fit to be replayed: cut, smoothed, and slower where it exceeds limits.

A hand leads the arm where the executor's reference follows the arm to the last bit, which is how a law that follows no
reference is recorded. What stands still before and after is cut off. The path is smoothed without a lag, and runs as it
was shown wherever velocities and accelerations allow; elsewhere its time passes more slowly. The path stays the same.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d, minimum_filter1d, uniform_filter1d

from dynid.control.motion_check import MotionLimits, robot_limits
from dynid.errors import DataError
from dynid.recording.recording import Recording, load_recording
from dynid.recording.topics import REFERENCE
from dynid.robot import FloatArray, Robot, read_only
from dynid.trajectory.families import load_excitation
from dynid.trajectory.files import save_trajectory_file
from dynid.trajectory.polynomial import PolynomialTrajectory, through_points

MOVED_RAD = 0.05  # a hand moves some joint at least so far
STANDS_S, STOOD_S = 1.0, 0.3  # in which the arm stands before a hand leads it; of it, at the end, surely without a sag
STILL_RAD = 0.005  # from where it stood: more than an encoder that trembles
GAP_S = 0.02  # between states of an arm that is led
GRID_S, POINT_S = 0.005, 0.05
SMOOTHING_S = 0.04  # standard deviation of the weights; a hand's own motion is below 5 Hz
MARGIN = 0.95  # of the limits
WINDOW = 7  # points over which a slower part begins and ends
ROUNDS = 60
INSIDE = 33  # samples of a piece between two points: the first one, from rest, is fastest soon after its beginning


@dataclass(frozen=True, eq=False)
class Shown:
    """A motion to be replayed, and the one that was shown.

    Attributes:
        motion: the replay, from rest to rest.
        points: what it goes through, (k, n) [rad], at the times of its knots.
        shown_s: when each point was passed in the recording, from where the hand began, (k,) [s].
        path_time, path: what was shown, (m,) [s] on the same axis, (m, n) [rad].
    """

    motion: PolynomialTrajectory
    points: FloatArray
    shown_s: FloatArray
    path_time: FloatArray
    path: FloatArray

    @property
    def slowed(self) -> tuple[float, float, float] | None:
        """The least share of the shown speed, and from when to when [s] the replay is slower; None: nowhere."""
        rate = np.diff(self.shown_s) / np.diff(self.motion.knots)
        slow = np.flatnonzero(rate < 1.0 - 1e-6)
        if not len(slow):
            return None
        return float(rate.min()), float(self.shown_s[slow[0]]), float(self.shown_s[slow[-1] + 1])

    def in_words(self) -> str:
        """How the replay differs from what was shown, one line."""
        text = f"replay of {self.shown_s[-1]:.1f} s lasts {self.motion.duration:.1f} s"
        if self.slowed is None:
            return f"{text}, as shown"
        least, begin, end = self.slowed
        return f"{text}: slowed to {least:.0%} of the shown speed at least once between {begin:.1f} s and {end:.1f} s"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        least, begin, end = self.slowed or (1.0, 0.0, 0.0)
        return {
            "shown_s": float(self.shown_s[-1]),
            "replay_s": self.motion.duration,
            "least_speed": least,
            "slower_between_s": [begin, end],
        }

    def save(self, path: Path) -> None:
        """Write the replay as a trajectory file; OutputExistsError is raised where there is one."""
        save_trajectory_file(path, self.motion, self.points)

    def shown_at(self, times: FloatArray) -> FloatArray:
        """Where the hand had the arm when the replay is at times (N,) [s], (N, n) [rad]."""
        then = np.interp(times, self.motion.knots, self.shown_s)
        return np.array([np.interp(then, self.path_time, column) for column in self.path.T]).T


def shown_of(robot: Robot, bag: Path, name: str, speed: float = 1.0) -> Shown:
    """The replay of what a bag shows; arguments and errors as of `led_part` and `shown_motion`."""
    recording = load_recording(bag, robot, needed=(REFERENCE,))
    limits = robot_limits(robot, load_excitation(robot).acceleration_limits)
    return shown_motion(name, robot.joint_names, *led_part(recording), limits, speed)


def led_part(recording: Recording) -> tuple[FloatArray, FloatArray]:
    """Times (m,) [s] from 0 and postures (m, n) [rad] while a hand led the arm, from its first motion to its last.

    Raises:
        DataError: no reference was recorded, or none that follows the arm, or it was led nowhere.
    """
    reference, source = recording.reference, recording.source
    if reference is None:
        raise DataError(f"{source} holds no topic 'reference', so nothing says whether a hand led the arm")
    place = np.searchsorted(reference.time, recording.time)
    place[place == len(reference.time)] = 0
    led = (np.abs(reference.time[place] - recording.time) < 1e-6) & (reference.q[place] == recording.q).all(axis=1)
    if not led.any():
        raise DataError(
            f"in {source} the arm was never led by a hand, it followed a reference: record a motion with 'dynid teach'"
        )
    first, last = _longest(recording.time, led)
    first += _sagged(recording.time[first : last + 1], recording.q[first : last + 1])
    time, q = recording.time[first : last + 1], recording.q[first : last + 1]
    away = np.ptp(q, axis=0)
    if away.max() < MOVED_RAD:
        joint = int(np.argmax(away))
        raise DataError(
            f"in {source} no hand moved the arm: {recording.joint_names[joint]} moved most, by "
            f"{np.rad2deg(away[joint]):.1f} deg, expected at least {np.rad2deg(MOVED_RAD):.1f} deg: lead the arm while "
            "it is recorded"
        )
    begin = int(np.argmax((np.abs(q - q[0]) > STILL_RAD).any(axis=1)))
    end = len(q) - int(np.argmax((np.abs(q - q[-1]) > STILL_RAD).any(axis=1)[::-1]))
    return time[begin:end] - time[begin], q[begin:end]


def _sagged(time: FloatArray, q: FloatArray) -> int:
    """Return the sample (of N) from which no sag after torque on is left in q (N, n) [rad]; 0 if a hand led at once."""
    stands, stood = (int(np.searchsorted(time, time[0] + at)) for at in (STANDS_S, STANDS_S - STOOD_S))
    if stands >= len(time) or np.abs(q[stood:stands] - q[stands]).max() > STILL_RAD:
        return 0
    return stands


def _longest(time: FloatArray, led: NDArray[np.bool_]) -> tuple[int, int]:
    """First and last sample of the longest time (N,) [s] in which the arm was led (N,), but for gaps of states."""
    samples = np.flatnonzero(led)
    ends = np.flatnonzero(np.diff(time[samples]) > GAP_S)
    begins, lasts = samples[np.append(0, ends + 1)], samples[np.append(ends, len(samples) - 1)]
    longest = int(np.argmax(time[lasts] - time[begins]))
    return int(begins[longest]), int(lasts[longest])


def shown_motion(
    name: str, joints: tuple[str, ...], time: FloatArray, q: FloatArray, limits: MotionLimits, speed: float = 1.0
) -> Shown:
    """The replay of what a hand has shown.

    Args:
        name: of the motion.
        joints: (n,).
        time, q: of `led_part`, (m,) [s] and (m, n) [rad].
        limits: velocities and accelerations that it must keep; positions and torques are checked with every motion.
        speed: of the replay, 1 as it was shown; above 0.

    Raises:
        DataError: no speed is slow enough.
    """
    count = max(3, round(time[-1] / POINT_S) + 1)
    shown_s = np.linspace(0.0, float(time[-1]), count)
    grid = np.arange(0.0, time[-1] + GRID_S, GRID_S)
    even = np.array([np.interp(grid, time, column) for column in q.T])
    smooth = gaussian_filter1d(even, SMOOTHING_S / GRID_S, axis=1, mode="nearest")
    points = np.array([np.interp(shown_s, grid, column) for column in smooth]).T
    rate = np.full(count - 1, speed)
    for _ in range(ROUNDS):
        knots = np.concatenate([[0.0], np.cumsum(np.diff(shown_s) / rate)])
        motion = through_points(name, joints, knots, points)
        allowed = _allowed(motion, limits)
        if allowed.min() >= 1.0:
            return Shown(motion, read_only(points), read_only(shown_s), read_only(time), read_only(q))
        rate = rate * uniform_filter1d(minimum_filter1d(0.98 * allowed + 0.02 * (allowed >= 1.0), WINDOW), WINDOW)
    joint = joints[int(np.argmax(motion.peak_velocities / limits.velocity))]
    raise DataError(f"what was shown as '{name}' jumps at {joint}: no speed keeps its limits; show it again, smoothly")


def _allowed(motion: PolynomialTrajectory, limits: MotionLimits) -> FloatArray:
    """Per piece between two knots, the factor of its rate that keeps the limits, at most 1, (k - 1,)."""
    inside = np.linspace(0.0, 1.0 - 1e-9, INSIDE)  # at its very end a motion rests: the last brake would not be seen
    times = (motion.knots[:-1, None] + np.diff(motion.knots)[:, None] * inside).ravel()
    _, dq, ddq = motion.sample_all(np.minimum(times, motion.duration))
    fast = (np.abs(dq) / (MARGIN * limits.velocity)).max(axis=1).reshape(-1, len(inside)).max(axis=1)
    hard = (np.abs(ddq) / (MARGIN * limits.acceleration)).max(axis=1).reshape(-1, len(inside)).max(axis=1)
    return np.asarray(1.0 / np.maximum(1.0, np.maximum(fast, np.sqrt(hard))))
