"""Compiled sampling of trajectories into the caller's buffers, so that a control cycle allocates no memory."""

import numba

from dynid.robot import FloatArray


@numba.njit(cache=True)
def at_rest(posture: FloatArray, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> None:
    """Write `posture` into q, and zeros into dq and ddq, (n,) each [rad, rad/s, rad/s^2]."""
    for j in range(len(q)):
        q[j], dq[j], ddq[j] = posture[j], 0.0, 0.0


@numba.njit(cache=True)
def sample_brake(
    t: float, duration: float, origin: FloatArray, speed: FloatArray, q: FloatArray, dq: FloatArray, ddq: FloatArray
) -> None:
    """Write the state of a braking motion, whose velocity falls linearly to zero, into the buffers q, dq and ddq.

    Args:
        t: time since the start of braking [s], from 0 to below `duration`.
        duration: duration of braking [s].
        origin: initial posture, (n,) [rad].
        speed: initial velocities, (n,) [rad/s].
        q: position, (n,) [rad], written in place.
        dq: velocity, (n,) [rad/s], written in place.
        ddq: acceleration, (n,) [rad/s^2], written in place.
    """
    for j in range(len(q)):
        ddq[j] = -speed[j] / duration
        dq[j] = speed[j] + ddq[j] * t
        q[j] = origin[j] + 0.5 * t * (speed[j] + dq[j])


@numba.njit(cache=True)
def scale_reference(rate: float, slope: float, dq: FloatArray, ddq: FloatArray) -> None:
    """Convert derivatives of a reference with respect to path time to derivatives with respect to real time, in place.

    Path time is the time argument of the reference. It passes slower than real time if the motion is slowed down.

    Args:
        rate: rate at which path time passes relative to real time [-].
        slope: derivative of `rate` with respect to real time [1/s].
        dq: first derivative, (n,) [rad/s].
        ddq: second derivative, (n,) [rad/s^2].
    """
    for j in range(len(dq)):
        ddq[j] = rate * rate * ddq[j] + slope * dq[j]
        dq[j] *= rate


@numba.njit(cache=True)
def segment_at(knots: FloatArray, t: float) -> int:
    """Return the index of the segment between knots (k,) [s] that contains time t [s]; knots[0] <= t < knots[-1]."""
    low, high = 0, len(knots) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= t:
            low = middle
        else:
            high = middle
    return low


@numba.njit(cache=True)
def sample_laws(
    t: float, knots: FloatArray, laws: FloatArray, waypoints: FloatArray, q: FloatArray, dq: FloatArray, ddq: FloatArray
) -> None:
    """Write the state of a point-to-point trajectory at a time into the buffers q, dq and ddq.

    The time laws of its segments are those of `dynid.trajectory.interpolation`.

    Args:
        t: time [s].
        knots: times of the waypoints, (k,) [s].
        laws: peak rate [1/s], ramp time [s] and cruise time [s] of every segment, (k - 1, 3).
        waypoints: positions at the knots, (k, n) [rad].
        q: position, (n,) [rad], written in place.
        dq: velocity, (n,) [rad/s], written in place.
        ddq: acceleration, (n,) [rad/s^2], written in place.
    """
    last = len(knots) - 1
    if t <= 0.0 or t >= knots[last]:
        at_rest(waypoints[0] if t <= 0.0 else waypoints[last], q, dq, ddq)
        return
    k = segment_at(knots, t)
    rate, ramp, cruise = laws[k, 0], laws[k, 1], laws[k, 2]
    left = 2.0 * ramp + cruise - (t - knots[k])
    rising = t - knots[k] <= left
    u = t - knots[k] if rising else left
    if u >= ramp:
        s, ds, dds = rate * (u - 0.5 * ramp), rate, 0.0
    else:
        x = u / ramp
        s = rate * ramp * x * x * x * (1.0 - 0.5 * x)
        ds = rate * x * x * (3.0 - 2.0 * x)
        dds = 6.0 * rate * x * (1.0 - x) / ramp
    if not rising:
        s, dds = 1.0 - s, -dds
    for j in range(len(q)):
        way = waypoints[k + 1, j] - waypoints[k, j]
        q[j], dq[j], ddq[j] = waypoints[k, j] + way * s, way * ds, way * dds


@numba.njit(cache=True)
def sample_laws_rows(
    times: FloatArray,
    knots: FloatArray,
    laws: FloatArray,
    waypoints: FloatArray,
    q: FloatArray,
    dq: FloatArray,
    ddq: FloatArray,
) -> None:
    """Write the states of a point-to-point trajectory at N times into the buffers q, dq and ddq.

    Args:
        times: times, (N,) [s].
        knots: times of the waypoints, (k,) [s].
        laws: peak rate [1/s], ramp time [s] and cruise time [s] of every segment, (k - 1, 3).
        waypoints: positions at the knots, (k, n) [rad].
        q: positions, (N, n) [rad], written in place.
        dq: velocities, (N, n) [rad/s], written in place.
        ddq: accelerations, (N, n) [rad/s^2], written in place.
    """
    for k in range(len(times)):
        sample_laws(times[k], knots, laws, waypoints, q[k], dq[k], ddq[k])


@numba.njit(cache=True)
def sample_polynomials(
    t: float,
    knots: FloatArray,
    coefficients: FloatArray,
    ends: FloatArray,
    q: FloatArray,
    dq: FloatArray,
    ddq: FloatArray,
) -> None:
    """Write the state of a piecewise polynomial trajectory at a time into the buffers q, dq and ddq.

    Args:
        t: time [s].
        knots: times at which the pieces meet, (k,) [s].
        coefficients: coefficients by powers of the time since the piece's start, lowest first, (k - 1, 6, n).
        ends: first and last posture, (2, n) [rad].
        q: position, (n,) [rad], written in place.
        dq: velocity, (n,) [rad/s], written in place.
        ddq: acceleration, (n,) [rad/s^2], written in place.
    """
    last = len(knots) - 1
    if t <= 0.0 or t >= knots[last]:
        at_rest(ends[0] if t <= 0.0 else ends[1], q, dq, ddq)
        return
    k = segment_at(knots, t)
    x = t - knots[k]
    for j in range(len(q)):
        value, slope, curvature = 0.0, 0.0, 0.0
        for power in range(coefficients.shape[1] - 1, -1, -1):
            curvature = curvature * x + 2.0 * slope
            slope = slope * x + value
            value = value * x + coefficients[k, power, j]
        q[j], dq[j], ddq[j] = value, slope, curvature


@numba.njit(cache=True)
def sample_polynomials_rows(
    times: FloatArray,
    knots: FloatArray,
    coefficients: FloatArray,
    ends: FloatArray,
    q: FloatArray,
    dq: FloatArray,
    ddq: FloatArray,
) -> None:
    """Write the states of a piecewise polynomial trajectory at N times into the buffers q, dq and ddq.

    Args:
        times: times, (N,) [s].
        knots: times at which the pieces meet, (k,) [s].
        coefficients: coefficients by powers of the time since the piece's start, lowest first, (k - 1, 6, n).
        ends: first and last posture, (2, n) [rad].
        q: positions, (N, n) [rad], written in place.
        dq: velocities, (N, n) [rad/s], written in place.
        ddq: accelerations, (N, n) [rad/s^2], written in place.
    """
    for k in range(len(times)):
        sample_polynomials(times[k], knots, coefficients, ends, q[k], dq[k], ddq[k])
