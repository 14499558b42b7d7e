"""A joint-space trajectory: waypoints joined by point-to-point segments, sampled exactly at any time."""

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from dynid.errors import ConfigurationError, DataError, SafetyError
from dynid.robot import FloatArray, read_only
from dynid.trajectory.interpolation import (
    NEGLIGIBLE_RAD,
    TimeLaw,
    evaluate,
    evaluate_all,
    point_to_point,
    rest,
)
from dynid.trajectory.sampling import sample_laws

Sample = tuple[FloatArray, FloatArray, FloatArray]


class Motion(Protocol):
    """A joint-space motion from rest to rest, whatever it is made of; n axes."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def joint_names(self) -> tuple[str, ...]:
        """(n,)."""
        ...

    @property
    def duration(self) -> float:
        """Time from start to end [s]."""
        ...

    @property
    def start(self) -> FloatArray:
        """First posture, (n,) [rad]."""
        ...

    @property
    def end(self) -> FloatArray:
        """Last posture, (n,) [rad]."""
        ...

    @property
    def peak_velocities(self) -> FloatArray:
        """Largest |dq| per joint, (n,) [rad/s]."""
        ...

    def sample_into(self, t: float, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
        """Write q [rad], dq [rad/s] and ddq [rad/s^2] at time t [s] into three (n,) buffers; allocates nothing."""
        ...

    def sample_all(self, times: FloatArray) -> Sample:
        """q, dq and ddq at many times (N,) [s]: three (N, n) arrays."""
        ...


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Waypoints (k, n) [rad] of the named joints, and the time law of each of the k - 1 segments between
    them.

    Position, velocity and acceleration are continuous everywhere; the arm is at rest at every waypoint.
    Make one with `through`, `approach`, `concatenate` or `dynid.trajectory.families.load_excitation`.

    Raises:
        ConfigurationError: the sizes do not fit together or a waypoint is not finite.
    """

    name: str
    joint_names: tuple[str, ...]
    waypoints: FloatArray
    laws: tuple[TimeLaw, ...]

    def __post_init__(self) -> None:
        points = read_only(self.waypoints)
        if points.ndim != 2 or points.shape[1] != len(self.joint_names) or points.shape[0] != len(self.laws) + 1:
            raise ConfigurationError(
                f"trajectory '{self.name}': waypoints of shape {points.shape} with {len(self.joint_names)} joints "
                f"and {len(self.laws)} segments; expected ({len(self.laws) + 1}, {len(self.joint_names)})"
            )
        if not np.all(np.isfinite(points)):
            raise ConfigurationError(f"trajectory '{self.name}': a waypoint is not finite")
        object.__setattr__(self, "waypoints", points)

    @cached_property
    def knots(self) -> FloatArray:
        """Times at which the waypoints are reached, (k,) [s]."""
        return read_only(np.concatenate([[0.0], np.cumsum([law.duration for law in self.laws])]))

    @cached_property
    def duration(self) -> float:
        """Time from start to end [s]."""
        return float(self.knots[-1])

    @property
    def start(self) -> FloatArray:
        """First waypoint, (n,) [rad]."""
        return self.waypoints[0]

    @property
    def end(self) -> FloatArray:
        """Last waypoint, (n,) [rad]."""
        return self.waypoints[-1]

    @cached_property
    def _displacements(self) -> FloatArray:
        return read_only(np.diff(self.waypoints, axis=0))

    @cached_property
    def _lookup(self) -> tuple[list[float], list[tuple[TimeLaw, FloatArray, FloatArray]], Sample, Sample]:
        """Plain lists for the 1 kHz path: indexing numpy arrays costs more than the arithmetic."""
        still = read_only(np.zeros(len(self.joint_names)))
        segments = list(zip(self.laws, self.waypoints[:-1], self._displacements, strict=True))
        return self.knots.tolist(), segments, (self.start, still, still), (self.end, still, still)

    def sample(self, t: float) -> Sample:
        """q [rad], dq [rad/s] and ddq [rad/s^2], each (n,), at time t [s]; at rest before the start and
        after the end.

        Raises:
            DataError: t is not a number.
        """
        knots, segments, first, last = self._lookup
        if t <= 0.0:
            return first
        if t >= knots[-1]:
            return last
        if t != t:
            raise DataError(f"trajectory '{self.name}' was asked for time {t}; expected a time in seconds")
        index = bisect_right(knots, t) - 1
        law, origin, displacement = segments[index]
        s, ds, dds = evaluate(law, t - knots[index])
        return origin + displacement * s, displacement * ds, displacement * dds

    @cached_property
    def _tables(self) -> tuple[FloatArray, FloatArray]:
        """Knots and time laws as arrays; the sampling is compiled here, not in a control cycle."""
        laws = read_only(np.array(self.laws).reshape(-1, 3))
        sample_laws(-1.0, self.knots, laws, self.waypoints, *np.zeros((3, len(self.joint_names))))
        return self.knots, laws

    def sample_into(self, t: float, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
        """`sample` into buffers (n,) that the caller keeps; allocates nothing after the first call."""
        knots, laws = self._tables
        sample_laws(t, knots, laws, self.waypoints, q, dq, ddq)

    def sample_all(self, times: FloatArray) -> Sample:
        """`sample` at many times (N,) [s]: three (N, n) arrays.

        Raises:
            DataError: a time is not finite or `times` is not one-dimensional.
        """
        times = np.asarray(times, dtype=np.float64)
        if times.ndim != 1 or not np.all(np.isfinite(times)):
            raise DataError(
                f"trajectory '{self.name}': times must be finite and of shape (N,), got shape {times.shape}"
            )
        if not self.laws:
            still = np.zeros((times.size, len(self.joint_names)))
            return self.start + still, still, still.copy()
        inside = np.clip(times, 0.0, self.duration)
        index = np.clip(np.searchsorted(self.knots, inside, side="right") - 1, 0, len(self.laws) - 1)
        rate, ramp, cruise = np.array(self.laws)[index].T
        s, ds, dds = evaluate_all(rate, ramp, cruise, inside - self.knots[index])
        displacement = self._displacements[index]
        q = self.waypoints[index] + displacement * s[:, None]
        return q, displacement * ds[:, None], displacement * dds[:, None]

    @cached_property
    def segment_velocities(self) -> FloatArray:
        """Peak speed of every joint in every segment, (k - 1, n) [rad/s]; reached in the segment's middle."""
        rates = np.array([law.rate for law in self.laws]).reshape(-1, 1)
        return read_only(np.abs(self._displacements) * rates)

    @cached_property
    def peak_velocities(self) -> FloatArray:
        """Largest |dq| per joint, (n,) [rad/s], exact."""
        return read_only(np.max(self.segment_velocities, axis=0, initial=0.0))

    @cached_property
    def peak_accelerations(self) -> FloatArray:
        """Largest |ddq| per joint, (n,) [rad/s^2], exact."""
        slopes = np.array([1.5 * law.rate / law.ramp if law.rate else 0.0 for law in self.laws]).reshape(-1, 1)
        return read_only(np.max(np.abs(self._displacements) * slopes, axis=0, initial=0.0))

    def check_limits(self, lower: FloatArray, upper: FloatArray, velocity: FloatArray) -> None:
        """Refuse a trajectory that leaves the position limits [rad] or the velocity limits [rad/s], all (n,).

        The check is exact: a segment is monotone in every joint, so its extremes are waypoints.

        Raises:
            SafetyError: names the joint, the time and the value.
        """
        tolerance = 1e-9
        # Negated comparisons, so that a limit that is not a number refuses instead of allowing everything.
        outside = ~((self.waypoints >= lower - tolerance) & (self.waypoints <= upper + tolerance))
        if np.any(outside):
            k, j = (int(i) for i in np.argwhere(outside)[0])
            value, low, high = (float(np.rad2deg(x)) for x in (self.waypoints[k, j], lower[j], upper[j]))
            raise SafetyError(
                f"trajectory '{self.name}': joint {self.joint_names[j]} reaches {value:.2f} deg at "
                f"{self.knots[k]:.3f} s; allowed is {low:.2f} to {high:.2f} deg"
            )
        fast = ~(self.segment_velocities <= np.asarray(velocity) * (1.0 + tolerance))
        if np.any(fast):
            k, j = (int(i) for i in np.argwhere(fast)[0])
            middle = 0.5 * (self.knots[k] + self.knots[k + 1])
            raise SafetyError(
                f"trajectory '{self.name}': joint {self.joint_names[j]} moves at "
                f"{self.segment_velocities[k, j]:.3f} rad/s at {middle:.3f} s; "
                f"allowed is {float(velocity[j]):.3f} rad/s"
            )


def through(
    name: str,
    joint_names: tuple[str, ...],
    waypoints: FloatArray,
    velocity: FloatArray,
    acceleration: FloatArray,
    factors: Sequence[float] | float = 1.0,
    dwell: float = 0.0,
) -> Trajectory:
    """A trajectory through waypoints, at rest at each; equal neighbours count once.

    Args:
        name: name of the result.
        joint_names: (n,).
        waypoints: (k, n) [rad].
        velocity: limits (n,) [rad/s].
        acceleration: limits (n,) [rad/s^2].
        factors: relative speed factor of each segment, (k - 1,), or one for all; scales both limits.
        dwell: rest at every inner waypoint [s].
    """
    points = np.asarray(waypoints, dtype=np.float64)
    scale = np.broadcast_to(np.asarray(factors, dtype=np.float64), (max(len(points) - 1, 0),))
    kept: list[FloatArray] = [points[0]]
    laws: list[TimeLaw] = []
    for target, factor in zip(points[1:], scale, strict=True):
        if np.max(np.abs(target - kept[-1])) < NEGLIGIBLE_RAD:
            continue
        if laws and dwell > 0.0:
            laws.append(rest(dwell))
            kept.append(kept[-1])
        laws.append(point_to_point(target - kept[-1], factor * velocity, factor * acceleration))
        kept.append(target)
    return Trajectory(name, joint_names, np.array(kept), tuple(laws))


def approach(
    q_from: FloatArray,
    q_to: FloatArray,
    joint_names: tuple[str, ...],
    velocity: float = 0.4,
    acceleration: float = 0.8,
    name: str = "approach",
) -> Trajectory:
    """A slow smooth move from one posture to another, (n,) [rad], with limits [rad/s], [rad/s^2] for every
    joint.

    Of zero duration where the two postures are equal.
    """
    ones = np.ones(len(joint_names))
    return through(name, joint_names, np.array([q_from, q_to]), velocity * ones, acceleration * ones)


def concatenate(name: str, parts: Sequence[Trajectory], velocity: FloatArray, acceleration: FloatArray) -> Trajectory:
    """Trajectories one after the other; where one ends elsewhere than the next starts, a move within the
    limits joins them.

    Args:
        name: name of the result.
        parts: at least one trajectory, all of the same joints.
        velocity: limits of the joining moves, (n,) [rad/s].
        acceleration: limits of the joining moves, (n,) [rad/s^2].

    Raises:
        ConfigurationError: nothing to join, or parts of different joints.
    """
    if not parts:
        raise ConfigurationError(f"trajectory '{name}' joins no parts; expected at least one")
    points, laws = [parts[0].waypoints], list(parts[0].laws)
    for previous, part in itertools.pairwise(parts):
        if part.joint_names != previous.joint_names:
            raise ConfigurationError(f"trajectory '{name}': '{previous.name}' and '{part.name}' move different joints")
        gap = part.start - previous.end
        joined = bool(np.max(np.abs(gap)) < NEGLIGIBLE_RAD)
        if not joined:
            laws.append(point_to_point(gap, velocity, acceleration))
        points.append(part.waypoints[1:] if joined else part.waypoints)
        laws.extend(part.laws)
    return Trajectory(name, parts[0].joint_names, np.concatenate(points), tuple(laws))
