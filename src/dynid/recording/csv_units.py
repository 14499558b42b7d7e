"""Units of CSV columns whose names state no unit, determined from the columns' values."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.recording.quantity import Quantity, length_factors
from dynid.robot import FloatArray, Robot

STEPS_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
SLOWEST_S = 0.5  # largest plausible time between rows [s]; if it is longer, the unit of time is smaller
BEYOND_RAD = 0.2  # distance beyond a joint limit at which a position still fits [rad or m]
LEAST_DEG = 7.0  # smallest peak angle that shows degrees [deg]; a smaller peak may be in rad, beyond the joint limits
RATES = ("rad/s", "deg/s", "rpm")
RATE_ERROR = 0.2  # largest relative error of a velocity that counts as the rate of the position
MOST_LIMIT_RATIO = 3.0  # a current beyond this multiple of its limit is in another unit


def time_unit(stamps: FloatArray) -> tuple[str, str]:
    """Determine the unit of time stamps (N,); return it with a phrase that states the reason.

    Raises:
        DataError: at least half of the stamps do not exceed the previous stamp, so the unit cannot be determined.
    """
    step = float(np.nanmedian(np.diff(stamps)))
    if not step > 0.0:
        raise DataError(
            "its times do not grow from row to row: if seconds and their fraction are two columns, add one column with "
            "their sum in s"
        )
    unit = next((one for one in STEPS_S if step * STEPS_S[one] <= SLOWEST_S), "s")
    return unit, f"time is in {unit}, as rows are {step:.6g} apart: {1.0 / (step * STEPS_S[unit]):.5g} Hz"


def length_units(values: FloatArray, names: Sequence[str], robot: Robot) -> list[str]:
    """Return the unit of each joint's positions: one that places them within the joint limits, preferably an SI unit.

    The possible units are rad and deg for revolute joints, which all get the same unit, and m and mm for prismatic
    joints.

    Args:
        values: positions as recorded, (N, n).
        names: names of the position columns, for messages.
        robot: the robot that was recorded.

    Raises:
        DataError: positions exceed a joint's limits in every possible unit. Or they fit only in deg, but no angle
            reaches `LEAST_DEG`, so they may also be angles in rad beyond the limits.
    """
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)

    def inside(factors: FloatArray) -> NDArray[np.bool_]:
        fits = (factors * low >= robot.lower - BEYOND_RAD) & (factors * high <= robot.upper + BEYOND_RAD)
        return np.asarray(fits, dtype=np.bool_)

    slides = np.array(robot.prismatic)
    in_si, in_small = inside(np.ones(robot.size)), inside(np.where(slides, 1e-3, np.deg2rad(1.0)))
    in_deg = not in_si[~slides].all()
    fits = np.where(slides, in_si | in_small, in_small if in_deg else in_si)
    largest = np.maximum(np.abs(low), np.abs(high))[~slides].max(initial=0.0)
    if not fits.all() or (in_deg and largest < LEAST_DEG):
        k = int(np.argmin(fits)) if not fits.all() else int(np.flatnonzero(~slides & ~in_si)[0])
        raise DataError(
            f"{names[k]} goes from {low[k]:.4g} to {high[k]:.4g}, outside the limits of "
            f"{robot.joint_names[k]} in every likely unit: write the unit into the names of the columns, such as "
            "'pos_1_deg', correct robot.yaml, or write the mapping by hand ('unit: count' with counts_per_turn, "
            "offset, sign)"
        )
    turning = "deg" if in_deg else "rad"
    return [("m" if si else "mm") if own else turning for si, own in zip(in_si, slides, strict=True)]


def rate_unit(values: FloatArray, positions: FloatArray, time: FloatArray, units: Sequence[str], robot: Robot) -> str:
    """Return the unit with which recorded velocities match the derivatives of the positions; "" if none matches.

    The unit is the same for all joints: rad/s, deg/s or rpm. The result is also "" if the robot has a prismatic joint,
    because these units do not fit it, or if the times do not increase or are fewer than three.

    Args:
        values: velocities as recorded, (N, n).
        positions: positions as recorded, (N, n).
        time: times of the rows, (N,) [s].
        units: units of the positions, one for each joint.
        robot: the robot that was recorded.
    """
    if len(time) < 3 or not (np.diff(time) > 0.0).all() or any(robot.prismatic):
        return ""
    q = positions * length_factors(Quantity(unit=tuple(units)), robot)
    rates = np.gradient(q, time, axis=0)
    known = np.isfinite(rates) & np.isfinite(values)
    size = float(np.sqrt((rates[known] ** 2).sum()))
    for unit in RATES:
        own = values * length_factors(Quantity(unit=unit), robot, rate=True)
        if size > 0.0 and np.sqrt(((own - rates)[known] ** 2).sum()) <= RATE_ERROR * size:
            return unit
    return ""


def current_unit(values: FloatArray, robot: Robot) -> tuple[str, str]:
    """Determine the unit of recorded currents, "A" or "mA"; return it with a phrase that states the reason.

    Args:
        values: currents as recorded, (N, n).
        robot: the robot that was recorded, with its current limits.
    """
    largest = float(np.nanmax(np.abs(values)))
    limits = [one for one in (joint.current_limit_a for joint in robot.file.joints) if one is not None]
    unit = "mA" if limits and largest > MOST_LIMIT_RATIO * max(limits) else "A"
    return unit, f"currents are in {unit}, as they reach {largest:.4g}"
