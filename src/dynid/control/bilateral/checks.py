"""Small array functions that check two bilaterally controlled arms, in machine code to save time in the control cycle.

NaN counts as beyond any limit.
"""

import numba
import numpy as np

from dynid.robot import FloatArray

LEAST_RAD_S = 0.05  # least velocity that counts: two register counts, since one count flickers at standstill


@numba.njit(cache=True)
def largest(values: FloatArray) -> float:
    """Return the largest absolute value of a vector (n,) of any unit; NaN if one of its values is NaN."""
    most = 0.0
    for value in values:
        if np.isnan(value):
            return float(value)
        most = max(most, abs(value))
    return most


@numba.njit(cache=True, error_model="numpy")
def largest_share(values: FloatArray, limits: FloatArray) -> tuple[float, int]:
    """Return the largest ratio |value| / limit [-] and its index.

    If a ratio is NaN, the result is NaN and the index of this ratio.

    Args:
        values: values, (n,) in any unit.
        limits: limits of their absolute values, (n,) in the same unit.
    """
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
    """Return whether all values (n,), any unit, are finite."""
    for value in values:
        if not np.isfinite(value):
            return False
    return True


@numba.njit(cache=True)
def equal(first: FloatArray, second: FloatArray) -> bool:
    """Return whether two vectors, (n,) each in any unit, are equal in the sense of `np.array_equal`."""
    if len(first) != len(second):
        return False
    for i in range(len(first)):
        if first[i] != second[i]:
            return False
    return True


@numba.njit(cache=True)
def within(values: FloatArray, limits: FloatArray) -> bool:
    """Return whether each absolute value is at most its limit; False if one value is NaN.

    Values and limits are (n,) each, in the same unit.
    """
    for i in range(len(values)):
        if not abs(values[i]) <= limits[i]:
            return False
    return True


@numba.njit(cache=True)
def longest_at_limit(
    leader: FloatArray, follower: FloatArray, limits: FloatArray, dt: float, since_s: FloatArray
) -> tuple[float, int, int]:
    """Return the joint that has been at its torque limit for the longest uninterrupted time.

    The result has this time [s], the arm (0 for the leader, 1 for the follower), and the index of the joint.

    Args:
        leader: torques of the leader, (n,) [N m].
        follower: torques of the follower, (n,) [N m].
        limits: torque limits, (n,) [N m].
        dt: time since the last call [s].
        since_s: time for which each joint of leader and follower has been at its limit, (2, n) [s]; updated in place.
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
def reported_path(path: FloatArray, dq: FloatArray, dt: float) -> float:
    """Integrate reported joint velocities over one cycle; return the largest absolute displacement of a joint [rad].

    Args:
        path: displacement of each joint so far, (n,) [rad]; updated in place.
        dq: reported velocities, (n,) [rad/s]; values below `LEAST_RAD_S` and NaN count as zero.
        dt: time since the last call [s].
    """
    most = 0.0
    for i in range(len(dq)):
        if abs(dq[i]) > LEAST_RAD_S:
            path[i] += dq[i] * dt
        most = max(most, abs(path[i]))
    return most
