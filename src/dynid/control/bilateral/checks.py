"""The figures that a pair's limits are about, in machine code: a control cycle has no time for many small arrays.

What is not a number is beyond any limit, as in numpy.
"""

import numba
import numpy as np

from dynid.robot import FloatArray

TOLD_RAD_S = 0.05  # two counts of a servo's velocity register, of which one flickers while the joint stands still


@numba.njit(cache=True)
def largest(values: FloatArray) -> float:
    """Largest |value| of (n,), any unit; NaN where there is one."""
    most = 0.0
    for value in values:
        if np.isnan(value):
            return float(value)
        most = max(most, abs(value))
    return most


@numba.njit(cache=True, error_model="numpy")
def largest_share(values: FloatArray, limits: FloatArray) -> tuple[float, int]:
    """Largest |value| / limit of (n,) each, any unit, and where; NaN and its place where there is one."""
    most, place = -1.0, 0
    for i in range(len(values)):
        share = abs(values[i]) / limits[i]
        if np.isnan(share):
            return share, i
        if share > most:
            most, place = share, i
    return most, place


@numba.njit(cache=True)
def finite(values: FloatArray) -> bool:
    """Whether all of (n,), any unit, are finite."""
    for value in values:
        if not np.isfinite(value):
            return False
    return True


@numba.njit(cache=True)
def equal(first: FloatArray, second: FloatArray) -> bool:
    """Whether two vectors, (n,) each in the same unit, are the same, as `np.array_equal` says."""
    if len(first) != len(second):
        return False
    for i in range(len(first)):
        if first[i] != second[i]:
            return False
    return True


@numba.njit(cache=True)
def within(values: FloatArray, limits: FloatArray) -> bool:
    """Whether no |value| is beyond its limit, of (n,) each in the same unit; NaN is."""
    for i in range(len(values)):
        if not abs(values[i]) <= limits[i]:
            return False
    return True


@numba.njit(cache=True)
def longest_at_limit(
    leader: FloatArray, follower: FloatArray, limits: FloatArray, dt: float, since_s: FloatArray
) -> tuple[float, int, int]:
    """How long a joint has been at its torque limit [s], of which side, and which joint.

    Args:
        leader, follower, limits: torques, (n,) each [N m].
        dt: time since the last call [s].
        since_s: for how long every joint has been, (2, n) [s]; goes on.
    """
    most, side, joint = -1.0, 0, 0
    for k in range(2):
        torques = leader if k == 0 else follower
        for i in range(len(limits)):
            since_s[k, i] = since_s[k, i] + dt if abs(torques[i]) >= limits[i] else 0.0
            if since_s[k, i] > most:
                most, side, joint = since_s[k, i], k, i
    return most, side, joint


@numba.njit(cache=True)
def path_told(path: FloatArray, dq: FloatArray, dt: float) -> float:
    """Return the longest path [rad] that velocities say a joint has moved by.

    Args:
        path: of every joint so far, (n,) [rad]; goes on.
        dq: reported velocities, (n,) [rad/s]; what is below `TOLD_RAD_S`, or not a number, moves nothing.
        dt: time since the last call [s].
    """
    most = 0.0
    for i in range(len(dq)):
        if abs(dq[i]) > TOLD_RAD_S:
            path[i] += dq[i] * dt
        most = max(most, abs(path[i]))
    return most
