"""Joint-space trajectories through points in time, as in trajectory_msgs/JointTrajectory.

Between two points each joint follows a polynomial. Its degree is five if the points have velocities and accelerations,
and three if they have velocities. If they have positions only, the polynomials form the cubic spline with continuous
acceleration that is at rest at both ends. ROS's joint trajectory controller instead joins bare positions by straight
lines, whose jumps of velocity no arm can follow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicHermiteSpline, CubicSpline

from dynid.errors import ConfigurationError
from dynid.robot import FloatArray, read_only
from dynid.trajectory.motion import Motion
from dynid.trajectory.pieces import Pieces
from dynid.trajectory.sampling import sample_polynomials, sample_polynomials_rows

COEFFICIENTS = 6
AT_REST_RAD_S = 1e-6
PEAK_RATE, PEAK_BEND = 15.0 / 8.0, 10.0 / np.sqrt(3.0)  # peak velocity and acceleration of a unit quintic
DEFAULT_RAD_S, DEFAULT_RAD_S2, SHORTEST_S = 0.4, 0.8, 0.5


@dataclass(frozen=True, eq=False)
class PolynomialTrajectory(Motion):
    """Trajectory of piecewise polynomials of time; `through_points` makes such a trajectory.

    Attributes:
        name: name of the trajectory.
        joint_names: names of the joints, (n,).
        knots: times at which the pieces meet, (k,) [s]; the first is 0.
        coefficients: coefficients by powers of the time since the piece's start, lowest first, (k - 1, 6, n).
        ends: first and last posture, (2, n) [rad].
    """

    name: str
    joint_names: tuple[str, ...]
    knots: FloatArray
    coefficients: FloatArray
    ends: FloatArray

    @cached_property
    def peak_velocities(self) -> FloatArray:
        """Largest absolute velocity of each joint in the whole motion, (n,) [rad/s]."""
        return read_only(self.pieces().peaks(1))

    def pieces(self) -> Pieces:
        """Return the trajectory as piecewise polynomials of time, from its start to its end."""
        return Pieces.of(self.knots, self.coefficients, self.start)

    @cached_property
    def _tables(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        tables = self.knots, self.coefficients, self.ends
        sample_polynomials(-1.0, *tables, *np.zeros((3, len(self.joint_names))))  # compiles now, not in a control cycle
        return tables

    def sample_into(self, t: float, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
        """Write the state at time t [s] into the buffers q [rad], dq [rad/s] and ddq [rad/s^2], (n,) each.

        Only the first call allocates memory.
        """
        sample_polynomials(t, *self._tables, q, dq, ddq)

    def _sample_rows(self, times: FloatArray, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
        sample_polynomials_rows(times, *self._tables, q, dq, ddq)


def through_points(
    name: str,
    joint_names: Sequence[str],
    times: FloatArray,
    positions: FloatArray,
    velocities: FloatArray | None = None,
    accelerations: FloatArray | None = None,
) -> PolynomialTrajectory:
    """Return a trajectory through points in time.

    The trajectory has no motion to the first point: its time 0 is the time of this point, which may be above 0.

    Args:
        name: name of the trajectory.
        joint_names: names of the joints, (n,).
        times: times of the points, (k,) [s], increasing.
        positions: positions at these times, (k, n) [rad].
        velocities: velocities at these times, (k, n) [rad/s]; None if the points have none.
        accelerations: accelerations at these times, (k, n) [rad/s^2]; None if the points have none.

    Raises:
        ConfigurationError: there are no points, times do not increase, values are not finite, arrays do not fit
            together, numbers overflow, velocities are missing while accelerations are given, or the motion does not
            begin and end at rest.
    """
    where = f"trajectory '{name}'"
    times, n = np.asarray(times, dtype=np.float64), len(joint_names)
    if not len(times) or not (np.isfinite(times).all() and times[0] >= 0.0 and (np.diff(times) > 0.0).all()):
        steps = np.flatnonzero(~(np.diff(times, prepend=-1.0) > 0.0) | ~(times >= 0.0) | ~np.isfinite(times))
        found = f"{times[steps[0]]:g} s at point {steps[0] + 1}" if len(steps) else "none"
        raise ConfigurationError(f"{where}: point times are {found}; expected at least one, increasing from 0")
    if accelerations is not None and velocities is None:
        raise ConfigurationError(f"{where}: its points have accelerations but no velocities; give both or neither")
    rows = {"positions": positions, "velocities": velocities, "accelerations": accelerations}
    given = {key: np.asarray(value, dtype=np.float64) for key, value in rows.items() if value is not None}
    for key, value in given.items():
        if value.shape != (len(times), n):
            raise ConfigurationError(f"{where}: {key} of shape {value.shape}; expected ({len(times)}, {n})")
        if not np.isfinite(value).all():
            row, joint = (int(k) for k in np.argwhere(~np.isfinite(value))[0])
            raise ConfigurationError(
                f"{where}: {key} of {joint_names[joint]} are {value[row, joint]} at point {row + 1}; expected finite "
                "values"
            )
    for label, row in (("begins", 0), ("ends", -1)):
        speed = np.abs(given["velocities"][row]).max() if velocities is not None else 0.0
        if speed > AT_REST_RAD_S:
            raise ConfigurationError(f"{where} {label} at {speed:.4g} rad/s; it must start and end at rest")
    ends = read_only(given["positions"][[0, -1]])
    knots = read_only(times - times[0])
    return PolynomialTrajectory(name, tuple(joint_names), knots, _finite_coefficients(where, knots, given), ends)


def rest_to_rest(
    name: str, joint_names: Sequence[str], start: FloatArray, end: FloatArray, duration: float | None = None
) -> PolynomialTrajectory:
    """Return a smooth motion from one posture to another, at rest at both.

    Args:
        name: name of the motion.
        joint_names: names of the joints, (n,).
        start: first posture, (n,) [rad].
        end: last posture, (n,) [rad].
        duration: duration of the motion [s]; None chooses one that keeps velocities and accelerations low.
    """
    if duration is None:
        way = float(np.abs(end - start).max())
        duration = max(SHORTEST_S, PEAK_RATE * way / DEFAULT_RAD_S, np.sqrt(PEAK_BEND * way / DEFAULT_RAD_S2))
    still = np.zeros((2, len(joint_names)))
    return through_points(name, joint_names, np.array([0.0, duration]), np.vstack([start, end]), still, still)


def _finite_coefficients(where: str, knots: FloatArray, given: dict[str, FloatArray]) -> FloatArray:
    """Return the coefficients of a trajectory through points as a read-only array (k - 1, 6, n), lowest power first.

    Args:
        where: start of the error message.
        knots: times of the points, (k,) [s].
        given: positions and, if given, velocities and accelerations at the points, (k, n) each.

    Raises:
        ConfigurationError: the numbers overflow.
    """
    try:
        with np.errstate(all="ignore"):
            found = _coefficients(knots, list(given.values()))
    except ValueError:  # raised by scipy
        found = np.full(1, np.nan)
    if not np.isfinite(found).all():
        largest = max(float(np.abs(value).max()) for value in given.values())
        raise ConfigurationError(
            f"{where}: its points are up to {largest:.3g} rad and its times {np.diff(knots).min():.3g} s apart: too "
            "far for a motion with finite coefficients"
        )
    return read_only(found)


def _coefficients(knots: FloatArray, rows: list[FloatArray]) -> FloatArray:
    """Return the coefficients of polynomials through points with given derivatives, (k - 1, 6, n), lowest power first.

    Args:
        knots: times of the points, (k,) [s].
        rows: positions and, if given, velocities and accelerations at the points, (k, n) each.
    """
    size = rows[0].shape[1]
    if len(knots) == 1:
        return np.zeros((0, COEFFICIENTS, size))
    if len(rows) == 1:
        pieces = CubicSpline(knots, rows[0], bc_type="clamped").c
    elif len(rows) == 2:
        pieces = CubicHermiteSpline(knots, *rows).c
    else:
        return _quintic(np.diff(knots)[:, None], *rows)
    filled = np.zeros((len(knots) - 1, COEFFICIENTS, size))
    filled[:, : len(pieces)] = np.moveaxis(pieces[::-1], 0, 1)
    return filled


def _quintic(h: FloatArray, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
    """Return the coefficients of quintic pieces that match the states at k points, (k - 1, 6, n), lowest power first.

    All pieces are computed at once. Scipy's BPoly loops over them in Python, which takes minutes for a motion sampled
    at 1 kHz.

    Args:
        h: durations of the pieces, (k - 1, 1) [s].
        q: positions at the points, (k, n) [rad].
        dq: velocities at the points, (k, n) [rad/s].
        ddq: accelerations at the points, (k, n) [rad/s^2].
    """
    start, speed, bend = q[:-1], dq[:-1], 0.5 * ddq[:-1]
    # difference between the end state and that of the first three terms, scaled by powers of h: it determines the rest
    place = q[1:] - start - h * (speed + h * bend)
    rate = h * (dq[1:] - speed - 2.0 * h * bend)
    curve = h**2 * (0.5 * ddq[1:] - bend)
    third, fourth = 10.0 * place - 4.0 * rate + curve, -15.0 * place + 7.0 * rate - 2.0 * curve
    fifth = 6.0 * place - 3.0 * rate + curve
    return np.stack([start, speed, bend, third / h**3, fourth / h**4, fifth / h**5], axis=1)
