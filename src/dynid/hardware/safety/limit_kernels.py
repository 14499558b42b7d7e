"""The guard's limits for all joints, in one compiled pass each.

A call of numpy on eight numbers takes some microseconds, whatever it computes, and a control cycle needs dozens.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from dynid.robot import FloatArray

# What a pass did, as bits of its result.
SOFT_ZONE, WITHIN_ZONES, TOO_FAST, CAPPED, TOO_SUDDEN = 1, 2, 4, 8, 16
# Rows of the constants that the guard's pass takes, (6, n).
SOFT_LOWER, SOFT_UPPER, VELOCITY, RATE_STEP, DAMPING, STIFFNESS = range(6)


@numba.njit(cache=True)
def _clipped(value: float, limit: float) -> float:
    """Return a value within +- limit; what is not a number stays as it is."""
    return -limit if value < -limit else limit if value > limit else value


@numba.njit(cache=True)
def within(values: FloatArray, limits: FloatArray) -> bool:
    """Return whether all values (n,) are numbers within their limits (n,), both signs."""
    for j in range(len(limits)):
        if not abs(values[j]) <= limits[j]:
            return False
    return True


@numba.njit(cache=True)
def all_finite(values: FloatArray) -> bool:
    """Return whether all values (n,) are finite."""
    for value in values:
        if not np.isfinite(value):
            return False
    return True


@numba.njit(cache=True)
def farthest(q: FloatArray, places: FloatArray, valid: NDArray[np.bool_]) -> tuple[int, float]:
    """Return the valid joint that is farthest from one of two places (2, n) [rad], and how far it is."""
    joint, way = 0, 0.0
    for j in range(len(q)):
        if valid[j]:
            moved = max(abs(q[j] - places[0, j]), abs(q[j] - places[1, j]))
            if moved > way:
                joint, way = j, moved
    return joint, way


@numba.njit(cache=True)
def _zones(q: FloatArray, reach: FloatArray, limits: FloatArray, low: FloatArray, high: FloatArray) -> int:
    """Mark joints that are in a soft zone or would come to rest there; return `SOFT_ZONE` and `WITHIN_ZONES`."""
    found, inside = 0, WITHIN_ZONES
    for j in range(len(q)):
        low[j] = q[j] < limits[SOFT_LOWER, j] or reach[j] < limits[SOFT_LOWER, j]
        high[j] = q[j] > limits[SOFT_UPPER, j] or reach[j] > limits[SOFT_UPPER, j]
        if low[j] or high[j]:
            found = SOFT_ZONE
        if not limits[SOFT_LOWER, j] <= q[j] <= limits[SOFT_UPPER, j]:
            inside = 0
    return found | inside


@numba.njit(cache=True)
def _cap(drive: FloatArray, last: FloatArray, caps: FloatArray, steps: FloatArray) -> int:
    """Keep currents (n,) [A] within their limits and rates, in place; what is not a number becomes 0."""
    did = 0
    for j in range(len(drive)):
        if not abs(drive[j]) <= caps[j]:
            did |= CAPPED
    if did:
        for j in range(len(drive)):
            drive[j] = 0.0 if np.isnan(drive[j]) else _clipped(drive[j], caps[j])
    for j in range(len(drive)):
        if abs(drive[j] - last[j]) > steps[j]:
            did |= TOO_SUDDEN
    if did & TOO_SUDDEN:
        for j in range(len(drive)):
            eased = last[j] + _clipped(drive[j] - last[j], steps[j])
            drive[j] = _clipped(eased, caps[j])  # a limit that fell at once does not wait
    return did


@numba.njit(cache=True)
def limit_currents(
    driving: FloatArray,
    braking: float,
    commanded: float,
    q: FloatArray,
    dq: FloatArray,
    last: FloatArray,
    caps: FloatArray,
    limits: FloatArray,
    stopping_distance: float,
) -> tuple[FloatArray, int]:
    """Return what may flow of a drive current, (n,) [A], and what was done to it, as bits.

    Near the joint limits no current leads outwards, and motion that does is braked; above the velocity limit no current
    acts in the direction of motion, and it is braked. The brake comes after both: it only opposes motion, so no limit
    may take it away. Then every current is kept within its limit and its rate.

    Args:
        driving: drive current, (n,) [A].
        braking: share of the brake.
        commanded: share of the spring that keeps joints out of their soft zones.
        q: joint angles, (n,) [rad].
        dq: joint velocities, (n,) [rad/s].
        last: currents of the cycle before, (n,) [A].
        caps: limits of the currents, (n,) [A].
        limits: constants of the joints by row, (6, n), see the names above.
        stopping_distance: times the velocity squared, the way on which a joint stops [s^2/rad].
    """
    size = len(q)
    drive, reach, low, high = driving.copy(), np.empty(size), np.empty(size), np.empty(size)
    for j in range(size):
        reach[j] = q[j] + dq[j] * abs(dq[j]) * stopping_distance  # where it would come to rest
    did = _zones(q, reach, limits, low, high)
    near = did & SOFT_ZONE
    braked = np.zeros(size)
    for j in range(size):
        if near:
            inside = min(max(q[j], limits[SOFT_LOWER, j]), limits[SOFT_UPPER, j])
            spring = commanded * (limits[STIFFNESS, j] * (inside - q[j]))  # against gravity
            if low[j]:
                drive[j] = spring if drive[j] < spring else drive[j]
            if high[j]:
                drive[j] = spring if drive[j] > spring else drive[j]
            if (low[j] and dq[j] < 0.0) or (high[j] and dq[j] > 0.0):
                braked[j] = 1.0
        if abs(dq[j]) > limits[VELOCITY, j]:
            did |= TOO_FAST
            braked[j] = 1.0
            if drive[j] * dq[j] > 0.0:
                drive[j] = 0.0
    if braking != 0.0 or did & (SOFT_ZONE | TOO_FAST):
        for j in range(size):
            share = 1.0 if braked[j] else braking
            drive[j] -= share * _clipped(limits[DAMPING, j] * dq[j], caps[j])
    return drive, did | _cap(drive, last, caps, limits[RATE_STEP])
