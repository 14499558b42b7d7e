"""Compiled functions that apply the safety guard's limits to all joints at once.

They replace numpy calls: one call takes some microseconds even on eight numbers, and a control cycle needs dozens.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from dynid.robot import FloatArray

# Bits of the result of `limit_currents`: the limits that acted.
SOFT_ZONE, WITHIN_ZONES, TOO_FAST, CAPPED, TOO_SUDDEN = 1, 2, 4, 8, 16
# Rows of the joints' constants in `limits`, (6, n): inner ends of the soft zones [rad], velocity limit [rad/s], largest
# change of the current in a cycle [A], damping [A s/rad], and stiffness of the hold [A/rad].
SOFT_LOWER, SOFT_UPPER, VELOCITY, RATE_STEP, DAMPING, STIFFNESS = range(6)


@numba.njit(cache=True)
def _clipped(value: float, limit: float) -> float:
    """Return a value clipped to the range from -limit to limit, in any unit; NaN stays NaN."""
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
    """Return the used fraction of each servo's overload capacity, (n,), after one step; see `OverloadModel.step`.

    Args:
        share: used fraction before the step, (n,).
        current_a: motor currents during the step, (n,) [A].
        nominal: squared nominal currents, (n,) [A^2].
        trips: overload capacity of each servo, (n,) [A^2 s]: it trips when the integral over time of (squared current -
            `nominal`) reaches this value.
        step_s: duration of the step [s].
    """
    found = np.empty(len(share))
    for j in range(len(share)):
        used = share[j] + (current_a[j] * current_a[j] - nominal[j]) * (step_s / trips[j])
        found[j] = 0.0 if used < 0.0 else used
    return found


@numba.njit(cache=True)
def farthest(q: FloatArray, places: FloatArray, valid: NDArray[np.bool_]) -> tuple[int, float]:
    """Return the index of the joint with the largest displacement, and this displacement [rad].

    A joint has two displacements, one from each of two earlier postures; the larger one counts.

    Args:
        q: joint angles, (n,) [rad].
        places: joint angles at two earlier times, (2, n) [rad].
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
    """Mark joints that are in a soft zone near a limit, or would come to rest in one; return two flags as bits.

    The bit `SOFT_ZONE` is set if any joint is marked. The bit `WITHIN_ZONES` is set if no joint is in a soft zone now.

    Args:
        q: joint angles, (n,) [rad].
        reach: angles at which the joints would come to rest if they were braked now, (n,) [rad].
        limits: constants of the joints, (6, n). The rows `SOFT_LOWER` and `SOFT_UPPER` are the inner ends of the soft
            zones [rad].
        low: output, 1 for joints that are marked for the lower soft zone, else 0, (n,).
        high: output, 1 for joints that are marked for the upper soft zone, else 0, (n,).
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
    """Clip currents to their limits and rates of change, in place; NaN becomes 0.

    Args:
        drive: currents, (n,) [A]; changed in place.
        last: currents of the previous cycle, (n,) [A].
        caps: limits of the currents, (n,) [A].
        steps: largest changes of the currents in a cycle, (n,) [A].

    Returns:
        Bits: `CAPPED` if a current was above its limit, `TOO_SUDDEN` if the change of a current was too large.
    """
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
    """Return the limited drive current, (n,) [A], and the limits that acted on it as bits.

    The bits are `SOFT_ZONE`, `TOO_FAST`, `CAPPED` and `TOO_SUDDEN`. The further bit `WITHIN_ZONES` means that no joint
    is in a soft zone.

    Near the joint limits, current that drives a joint outwards is removed, and outward motion is braked. Above the
    velocity limit, current in the direction of motion is removed, and the motion is braked. The damping current is
    added after these two limits: it only opposes motion, so they must not remove it. Then every current is clipped to
    its limit and its rate of change.

    Args:
        driving: drive current, (n,) [A].
        braking: factor of the damping current, 0 to 1. For joints that are braked at a limit, 1 is used instead.
        commanded: factor, 0 to 1, of the spring that pushes joints out of the soft zones near their limits; 0 while no
            command is followed.
        q: joint angles, (n,) [rad].
        dq: joint velocities, (n,) [rad/s].
        last: currents of the previous cycle, (n,) [A].
        caps: limits of the currents, (n,) [A].
        limits: constants of the joints, (6, n). Rows: inner end of the lower and of the upper soft zone [rad], velocity
            limit [rad/s], largest change of the current in a cycle [A], damping [A s/rad], stiffness of the hold
            [A/rad].
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
