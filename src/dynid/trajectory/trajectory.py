"""Joint-space trajectories through waypoints, joined by point-to-point segments and sampled exactly at any time."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dynid.errors import ConfigurationError, SafetyError
from dynid.robot import FloatArray, read_only
from dynid.trajectory.interpolation import ZERO_DISPLACEMENT_RAD, TimeLaw, point_to_point, rest, share_polynomials
from dynid.trajectory.motion import Motion
from dynid.trajectory.pieces import Pieces
from dynid.trajectory.sampling import sample_laws, sample_laws_rows


@dataclass(frozen=True, eq=False)
class Trajectory(Motion):
    """Trajectory through k waypoints, with a time law for each of the k - 1 segments between them.

    Position, velocity and acceleration are continuous everywhere, and the arm is at rest at every waypoint. `through`,
    `approach`, `concatenate` and `dynid.trajectory.families.load_excitation` make trajectories.

    Attributes:
        name: name of the trajectory.
        joint_names: names of the joints, (n,).
        waypoints: postures at which the arm is at rest, (k, n) [rad].
        laws: time laws of the segments, (k - 1,).
        knots: times of the waypoints, (k,) [s]; the first is 0.
        ends: first and last posture, (2, n) [rad].

    Raises:
        ConfigurationError: the sizes do not fit together or a waypoint is not finite.
    """

    name: str
    joint_names: tuple[str, ...]
    waypoints: FloatArray
    laws: tuple[TimeLaw, ...]
    knots: FloatArray = field(init=False, repr=False)
    ends: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        points = read_only(self.waypoints)
        if points.ndim != 2 or points.shape[1] != len(self.joint_names) or points.shape[0] != len(self.laws) + 1:
            raise ConfigurationError(
                f"trajectory '{self.name}': waypoints of shape {points.shape} with {len(self.joint_names)} joints "
                f"and {len(self.laws)} segments; expected ({len(self.laws) + 1}, {len(self.joint_names)})"
            )
        if not np.all(np.isfinite(points)):
            raise ConfigurationError(f"trajectory '{self.name}': a waypoint is not finite")
        reached = np.concatenate([[0.0], np.cumsum([law.duration for law in self.laws])])
        for key, value in {"waypoints": points, "knots": reached, "ends": points[[0, -1]]}.items():
            object.__setattr__(self, key, read_only(value))

    @cached_property
    def _tables(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Times of the waypoints (k,) [s], time laws of the segments (k - 1, 3), and waypoints (k, n) [rad].

        The first access compiles the function that samples the trajectory.
        """
        tables = self.knots, read_only(np.array(self.laws).reshape(-1, 3)), self.waypoints
        sample_laws(-1.0, *tables, *np.zeros((3, len(self.joint_names))))
        return tables

    def pieces(self) -> Pieces:
        """Return the trajectory as piecewise polynomials of time.

        Each segment between two waypoints gives three pieces: rising ramp, cruise and falling ramp of its speed.
        """
        laws = np.array(self.laws).reshape(-1, 3)
        lengths = laws[:, [1, 2, 1]].ravel()
        shares = share_polynomials(laws)
        way = np.diff(self.waypoints, axis=0)
        coefficients = (shares[..., None] * way[:, None, None]).reshape(-1, shares.shape[2], len(self.joint_names))
        coefficients[:, 0] += np.repeat(self.waypoints[:-1], 3, axis=0)
        return Pieces.of(np.concatenate([[0.0], np.cumsum(lengths)]), coefficients, self.start)

    def sample_into(self, t: float, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
        """Write the state at time t [s] into the buffers q [rad], dq [rad/s] and ddq [rad/s^2], (n,) each.

        Only the first call allocates memory.
        """
        sample_laws(t, *self._tables, q, dq, ddq)

    def _sample_rows(self, times: FloatArray, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
        sample_laws_rows(times, *self._tables, q, dq, ddq)

    @cached_property
    def segment_velocities(self) -> FloatArray:
        """Peak speed of every joint in every segment, (k - 1, n) [rad/s], reached in the middle of the segment."""
        rates = np.array([law.rate for law in self.laws]).reshape(-1, 1)
        return read_only(np.abs(np.diff(self.waypoints, axis=0)) * rates)

    @cached_property
    def peak_velocities(self) -> FloatArray:
        """Largest absolute velocity of each joint in the whole motion, (n,) [rad/s]."""
        return read_only(np.max(self.segment_velocities, axis=0, initial=0.0))

    @cached_property
    def peak_accelerations(self) -> FloatArray:
        """Largest absolute acceleration of each joint in the whole motion, (n,) [rad/s^2]."""
        slopes = np.array([1.5 * law.rate / law.ramp if law.rate else 0.0 for law in self.laws]).reshape(-1, 1)
        return read_only(np.max(np.abs(np.diff(self.waypoints, axis=0)) * slopes, axis=0, initial=0.0))

    def check_limits(self, lower: FloatArray, upper: FloatArray, velocity: FloatArray) -> None:
        """Raise SafetyError if the trajectory exceeds position or velocity limits.

        The check is exact: a segment is monotone in every joint, so its extreme positions are waypoints.

        Args:
            lower: lower position limits, (n,) [rad].
            upper: upper position limits, (n,) [rad].
            velocity: velocity limits, (n,) [rad/s].

        Raises:
            SafetyError: a limit is exceeded; the message names joint, time and value.
        """
        tolerance = 1e-9
        # Negated comparisons, so that a limit of NaN refuses every trajectory instead of none.
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
    """Return a trajectory that stops at each waypoint; equal consecutive waypoints count as one.

    Args:
        name: name of the trajectory.
        joint_names: names of the joints, (n,).
        waypoints: positions at which the motion stops, (k, n) [rad].
        velocity: velocity limits, (n,) [rad/s].
        acceleration: acceleration limits, (n,) [rad/s^2].
        factors: factor of velocity and acceleration limits in each segment, (k - 1,), or one factor for all segments.
        dwell: duration of the pause at every inner waypoint [s].
    """
    points = np.asarray(waypoints, dtype=np.float64)
    scale = np.broadcast_to(np.asarray(factors, dtype=np.float64), (max(len(points) - 1, 0),))
    kept: list[FloatArray] = [points[0]]
    laws: list[TimeLaw] = []
    for target, factor in zip(points[1:], scale, strict=True):
        if np.max(np.abs(target - kept[-1])) < ZERO_DISPLACEMENT_RAD:
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
    """Return a slow, smooth move between two postures (n,) [rad]; its duration is zero if they are equal.

    Args:
        q_from: first posture, (n,) [rad].
        q_to: last posture, (n,) [rad].
        joint_names: names of the joints, (n,).
        velocity: velocity limit of every joint [rad/s].
        acceleration: acceleration limit of every joint [rad/s^2].
        name: name of the trajectory.
    """
    ones = np.ones(len(joint_names))
    return through(name, joint_names, np.array([q_from, q_to]), velocity * ones, acceleration * ones)


def concatenate(name: str, parts: Sequence[Trajectory], velocity: FloatArray, acceleration: FloatArray) -> Trajectory:
    """Return one trajectory that runs several trajectories in sequence.

    If a trajectory does not start at the end posture of the previous one, a move is inserted between them.

    Args:
        name: name of the result.
        parts: trajectories in their order, at least one, all of the same joints.
        velocity: velocity limits of the inserted moves, (n,) [rad/s].
        acceleration: acceleration limits of the inserted moves, (n,) [rad/s^2].

    Raises:
        ConfigurationError: there are no parts, or they are of different joints.
    """
    if not parts:
        raise ConfigurationError(f"trajectory '{name}' has no parts; expected at least one")
    points, laws = [parts[0].waypoints], list(parts[0].laws)
    for previous, part in itertools.pairwise(parts):
        if part.joint_names != previous.joint_names:
            raise ConfigurationError(f"trajectory '{name}': '{previous.name}' and '{part.name}' move different joints")
        gap = part.start - previous.end
        joined = bool(np.max(np.abs(gap)) < ZERO_DISPLACEMENT_RAD)
        if not joined:
            laws.append(point_to_point(gap, velocity, acceleration))
        points.append(part.waypoints[1:] if joined else part.waypoints)
        laws.extend(part.laws)
    return Trajectory(name, parts[0].joint_names, np.concatenate(points), tuple(laws))
