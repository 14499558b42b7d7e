"""Compiled functions that apply the guard's limits, each to all joints at once.

A numpy call on eight numbers takes some microseconds, whatever it computes, and a control cycle would need dozens.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from dynid.robot import FloatArray

# Bits of the result of `limit_currents`: the limits that acted.
SOFT_ZONE, WITHIN_ZONES, TOO_FAST, CAPPED, TOO_SUDDEN = 1, 2, 4, 8, 16
# Rows of the joints' constants in `limits`, (6, n).
SOFT_LOWER, SOFT_UPPER, VELOCITY, RATE_STEP, DAMPING, STIFFNESS = range(6)


@numba.njit(cache=True)
def _clipped(value: float, limit: float) -> float:
    """Return a value clipped to +- limit, in any unit; NaN stays NaN."""
    return -limit if value < -limit else limit if value > limit else value


@numba.njit(cache=True)
def within(values: FloatArray, limits: FloatArray) -> bool:
    """Return whether the magnitude of each value (n,) is at most its limit (n,), in any unit; False for NaN."""
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
def used_capacity(
    share: FloatArray, current_a: FloatArray, nominal: FloatArray, trips: FloatArray, step_s: float
) -> FloatArray:
    """Return the used share of overload capacity, (n,), after one step, see `OverloadModel.step`.

    Args:
        share: used share before the step, (n,).
        current_a: motor currents during the step, (n,) [A].
        nominal: squared nominal currents, (n,) [A^2].
        trips: excess of squared current times time that uses the whole capacity, (n,) [A^2 s].
        step_s: duration of the step [s].
    """
    found = np.empty(len(share))
    for j in range(len(share)):
        used = share[j] + (current_a[j] * current_a[j] - nominal[j]) * (step_s / trips[j])
        found[j] = 0.0 if used < 0.0 else used
    return found


@numba.njit(cache=True)
def farthest(q: FloatArray, places: FloatArray, valid: NDArray[np.bool_]) -> tuple[int, float]:
    """Return the valid joint that moved farthest from either of two earlier positions, and its distance [rad].

    Args:
        q: joint angles, (n,) [rad].
        places: two earlier joint positions, (2, n) [rad].
        valid: mask of the joints to consider, (n,).
    """
    joint, distance = 0, 0.0
    for j in range(len(q)):
        if valid[j]:
            moved = max(abs(q[j] - places[0, j]), abs(q[j] - places[1, j]))
            if moved > distance:
                joint, distance = j, moved
    return joint, distance


@numba.njit(cache=True)
def _zones(q: FloatArray, reach: FloatArray, limits: FloatArray, low: FloatArray, high: FloatArray) -> int:
    """Mark joints that are in a soft zone or would come to rest there, and return the bits `SOFT_ZONE`, `WITHIN_ZONES`.

    `WITHIN_ZONES` means that no joint is in a soft zone now.

    Args:
        q: joint angles, (n,) [rad].
        reach: angles at which the joints would come to rest, (n,) [rad].
        limits: constants of the joints by row, (6, n), see `SOFT_LOWER` and following.
        low: set to 1 for joints at the lower soft zone, else 0, (n,).
        high: set to 1 for joints at the upper soft zone, else 0, (n,).
    """
    bits, inside = 0, WITHIN_ZONES
    for j in range(len(q)):
        low[j] = q[j] < limits[SOFT_LOWER, j] or reach[j] < limits[SOFT_LOWER, j]
        high[j] = q[j] > limits[SOFT_UPPER, j] or reach[j] > limits[SOFT_UPPER, j]
        if low[j] or high[j]:
            bits = SOFT_ZONE
        if not limits[SOFT_LOWER, j] <= q[j] <= limits[SOFT_UPPER, j]:
            inside = 0
    return bits | inside


@numba.njit(cache=True)
def _cap(drive: FloatArray, last: FloatArray, caps: FloatArray, steps: FloatArray) -> int:
    """Clip currents (n,) [A] to their limits and rates in place, NaN to 0; return the bits `CAPPED`, `TOO_SUDDEN`."""
    bits = 0
    for j in range(len(drive)):
        if not abs(drive[j]) <= caps[j]:
            bits |= CAPPED
    if bits:
        for j in range(len(drive)):
            drive[j] = 0.0 if np.isnan(drive[j]) else _clipped(drive[j], caps[j])
    for j in range(len(drive)):
        if abs(drive[j] - last[j]) > steps[j]:
            bits |= TOO_SUDDEN
    if bits & TOO_SUDDEN:
        for j in range(len(drive)):
            limited = last[j] + _clipped(drive[j] - last[j], steps[j])
            drive[j] = _clipped(limited, caps[j])  # a lowered limit applies at once, whatever the rate
    return bits


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
    """Return the limited drive current, (n,) [A], and bits that name the limits that acted on it.

    Near the joint limits no current leads outwards, and motion that does is braked. Above the velocity limit no current
    acts in the direction of motion, and the motion is braked. The brake is added after both: it only opposes motion, so
    neither limit may remove it. Then every current is clipped to its limit and its rate.

    Args:
        driving: drive current, (n,) [A].
        braking: share of the brake, 0 to 1.
        commanded: share of the spring that keeps joints out of their soft zones, 0 to 1.
        q: joint angles, (n,) [rad].
        dq: joint velocities, (n,) [rad/s].
        last: currents of the previous cycle, (n,) [A].
        caps: limits of the currents, (n,) [A].
        limits: constants of the joints by row, (6, n), see `SOFT_LOWER` and following.
        stopping_distance: stopping distance per squared velocity [s^2/rad].
    """
    size = len(q)
    drive, reach, low, high = driving.copy(), np.empty(size), np.empty(size), np.empty(size)
    for j in range(size):
        reach[j] = q[j] + dq[j] * abs(dq[j]) * stopping_distance  # angle at which the joint would come to rest [rad]
    bits = _zones(q, reach, limits, low, high)
    near_zone = bits & SOFT_ZONE
    braked = np.zeros(size)
    for j in range(size):
        if near_zone:
            inside = min(max(q[j], limits[SOFT_LOWER, j]), limits[SOFT_UPPER, j])
            # spring that holds the joint inside against gravity
            spring = commanded * (limits[STIFFNESS, j] * (inside - q[j]))
            if low[j]:
                drive[j] = spring if drive[j] < spring else drive[j]
            if high[j]:
                drive[j] = spring if drive[j] > spring else drive[j]
            if (low[j] and dq[j] < 0.0) or (high[j] and dq[j] > 0.0):
                braked[j] = 1.0
        if abs(dq[j]) > limits[VELOCITY, j]:
            bits |= TOO_FAST
            braked[j] = 1.0
            if drive[j] * dq[j] > 0.0:
                drive[j] = 0.0
    if braking != 0.0 or bits & (SOFT_ZONE | TOO_FAST):
        for j in range(size):
            share = 1.0 if braked[j] else braking
            drive[j] -= share * _clipped(limits[DAMPING, j] * dq[j], caps[j])
    return drive, bits | _cap(drive, last, caps, limits[RATE_STEP])
