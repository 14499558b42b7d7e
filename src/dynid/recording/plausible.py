"""Plausibility checks of recorded values against a robot: position limits, jumps, torque units, wrapped angles."""

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.recording.frozen import refuse_frozen
from dynid.recording.log import Log
from dynid.recording.quantity import CURRENTS, KG_CM
from dynid.robot import FloatArray, Robot

LIMIT_EXCESS_RAD = 0.2  # tolerated excess over a joint's position limits [rad]; more means a wrong unit or mapping
LIMIT_EXCESS_M = 0.02  # the same tolerance for sliding joints [m]
MOST_SPEED_RATIO = 3.0  # maximum plausible speed, relative to the velocity limit in robot.yaml
TURN_RAD = 2.0 * np.pi
MOST_LIMIT_RATIO = 30.0  # torque / limit beyond which the unit is wrong; limits in robot.yaml may be far too low
SUSPECT_LIMIT_RATIO = 3.0  # torque / limit beyond which data are refused before an identification
LEAST_LIMIT_RATIO = 0.02  # torque / limit that at least one joint reaches, since the arm carries its own weight
LIKELY_RATIOS = (0.05, 1.5)  # range of peak torque / limit in the right unit


def position_margin(robot: Robot) -> FloatArray:
    """Return the distance by which positions may exceed each joint's limits, (n,) [rad or m].

    A joint whose positions vary by no more than this distance also counts as not moving.
    """
    return np.where(robot.prismatic, LIMIT_EXCESS_M, LIMIT_EXCESS_RAD)


def beyond_limits(q: FloatArray, robot: Robot, endless: tuple[str, ...] = ()) -> str:
    """Return a sentence on the joint whose positions exceed its limits most; "" if all positions are within limits.

    Args:
        q: positions, (N, n) [rad or m].
        robot: the recorded robot.
        endless: names of joints that turn without end, so that their limits do not apply.
    """
    margin = position_margin(robot)
    beyond = np.maximum(robot.lower - margin - q.min(axis=0), q.max(axis=0) - robot.upper - margin)
    beyond[[name in endless for name in robot.joint_names]] = 0.0
    joint = int(np.argmax(beyond))
    if beyond[joint] > 0:
        unit = robot.position_units[joint]
        return (
            f"joint {robot.joint_names[joint]} goes from {q[:, joint].min():.4g} to {q[:, joint].max():.4g} {unit}, "
            f"its limits in robot.yaml are {robot.lower[joint]:.4g} and {robot.upper[joint]:.4g}"
        )
    return ""


def refuse_beyond_limits(q: FloatArray, robot: Robot, name: str, cure: str, endless: tuple[str, ...] = ()) -> None:
    """Raise DataError if positions (N, n) [rad or m] exceed the joints' limits.

    Args:
        q: positions, (N, n) [rad or m].
        robot: the recorded robot.
        name: name of the recording, for the message.
        cure: question at the end of the error message, which suggests what to check.
        endless: names of joints that turn without end.
    """
    if words := beyond_limits(q, robot, endless):
        raise DataError(f"{name}: {words}: {cure}")


def refuse_jumps(time: FloatArray, q: FloatArray, robot: Robot, name: str) -> None:
    """Raise DataError if a position changes between two successive times by more than the joint can move.

    Args:
        time: times, (N,) [s].
        q: positions, (N, n) [rad or m].
        robot: the recorded robot.
        name: name of the recording, for the message.
    """
    step = np.abs(np.diff(time))[:, None]  # unsorted stamps are refused elsewhere
    far = np.abs(np.diff(q, axis=0)) - MOST_SPEED_RATIO * robot.velocity_limits * step
    jumps = far > position_margin(robot)
    if jumps.any():
        row, joint = np.argwhere(jumps)[0]
        before, after = q[row : row + 2, joint]
        raise DataError(
            f"{name}: {robot.joint_names[joint]} jumps from {before:.4g} to {after:.4g} within {step[row, 0]:.3g} s at "
            f"{time[row] - time[0]:.3f} s after the start ({int(jumps.any(axis=1).sum())} such rows): an encoder that "
            "stood still, two publishers on one topic, or two recordings in one?"
        )


# -- angles that wrap round ------------------------------------------------------------------------------------


def unwrapped(time: FloatArray, own: FloatArray, speeds: FloatArray, turns: list[bool]) -> tuple[FloatArray, list[int]]:
    """Remove jumps by whole turns from positions; return positions (N, n) and the number of jumps per axis, (n,).

    A jump is a change of position between successive rows that is too large for the speed of the axis. It counts as a
    wrap-around if the change is possible after subtracting the nearest number of whole turns.

    Args:
        time: stamps, (N,) [s].
        own: recorded positions, (N, n) [rad or m].
        speeds: maximum speed of each axis, (n,) [rad/s or m/s].
        turns: whether each axis is revolute, (n,).
    """
    steps = np.diff(own, axis=0)
    reach = MOST_SPEED_RATIO * speeds * np.abs(np.diff(time))[:, None] + LIMIT_EXCESS_RAD
    whole = np.where(np.isfinite(steps), np.rint(steps / TURN_RAD), 0.0) * np.array(turns)
    wraps = (whole != 0.0) & (np.abs(steps) > reach) & (np.abs(steps - TURN_RAD * whole) <= reach)
    if not wraps.any():
        return own, [0] * own.shape[1]
    back = np.cumsum(np.where(wraps, whole, 0.0), axis=0)
    found = own.copy()
    found[1:] -= TURN_RAD * back
    return found, wraps.sum(axis=0).tolist()


def may_wrap(ends: FloatArray, speeds: FloatArray, step_s: float) -> NDArray[np.bool_]:
    """Return whether each angle may have wrapped round, (n,): its extremes are about one turn apart.

    `unwrapped` finds a wrap-around only in a jump that is too large for the speed and differs from a turn by at most
    the same distance; so the extremes are at least as far apart as such a jump.

    Args:
        ends: smallest and largest recorded positions, (2, n) [rad or m].
        speeds: maximum speed of each axis, (n,) [rad/s or m/s].
        step_s: time between rows [s].
    """
    span = np.ptp(ends, axis=0)
    reach = MOST_SPEED_RATIO * speeds * step_s + LIMIT_EXCESS_RAD
    return np.asarray((span > reach) & (span >= TURN_RAD - reach) & (span <= TURN_RAD + LIMIT_EXCESS_RAD))


def within_limits(q: FloatArray, robot: Robot, wraps: list[int]) -> tuple[FloatArray, tuple[str, ...]]:
    """Shift positions by whole turns into the joints' limits, if possible, for joints whose angles wrapped around.

    Args:
        q: unwrapped positions, (N, n) [rad or m].
        robot: the recorded robot.
        wraps: number of wrap-arounds of each joint, (n,); joints without any are not shifted.

    Returns:
        The positions (N, n), and the names of joints that turn without end. The limits of such a joint are at least a
        whole turn apart, but no shift brings all its positions within them.
    """
    found, endless, margin = q, [], position_margin(robot)
    for k, count in enumerate(wraps):
        if not count:
            continue
        least = np.ceil((robot.lower[k] - margin[k] - q[:, k].min()) / TURN_RAD)
        most = np.floor((robot.upper[k] + margin[k] - q[:, k].max()) / TURN_RAD)
        if least <= most:
            found = found.copy() if found is q else found
            found[:, k] = q[:, k] + TURN_RAD * float(np.clip(0.0, least, most))
        elif robot.upper[k] - robot.lower[k] + 2.0 * margin[k] >= TURN_RAD:
            endless.append(robot.joint_names[k])
    return found, tuple(endless)


def wrap_notes(names: tuple[str, ...], wraps: list[int]) -> tuple[str, ...]:
    """Return a sentence about the joints whose positions were unwrapped, as a tuple; () if there are none.

    Args:
        names: names of the joints, (n,).
        wraps: number of wrap-arounds of each joint, (n,).
    """
    jumps = [f"{name} ({count} times)" for name, count in zip(names, wraps, strict=True) if count]
    if not jumps:
        return ()
    return (f"positions jump by whole turns, as angles that wrap round do, and were unwrapped: {', '.join(jumps)}",)


# -- units of torques ------------------------------------------------------------------------------------------


def likely_units(tau: FloatArray, robot: Robot) -> str:
    """Return the units other than N m with which `tau` (N, n) is plausible, joined by "or"; "" if there are none.

    For each unit that drivers usually publish, the numbers in `tau` are assumed to be in this unit. The peak of every
    joint is then converted to N m and divided by the joint's torque limit. The unit is plausible if the largest of
    these ratios is within `LIKELY_RATIOS`.
    """
    peaks = np.abs(tau).max(axis=0)
    found = []
    for unit, factors in _candidates(robot).items():
        shares = peaks * factors / robot.torque_limits
        if LIKELY_RATIOS[0] <= shares.max() <= LIKELY_RATIOS[1]:
            found.append(unit)
    return " or ".join(found)


def _candidates(robot: Robot) -> dict[str, FloatArray]:
    """Return the units in which drivers usually publish efforts, with the size of each unit at every joint, (n,) [N m].

    The most usual units come first. N m at the joints is not included.
    """
    ones = np.ones(robot.size)
    found: dict[str, FloatArray] = {}
    if robot.has_torque_constants:
        found |= {unit: factor * robot.joint_constants for unit, factor in CURRENTS.items()}
    found |= {"% of a rated torque": 0.01 * robot.torque_limits, "mN m": 1e-3 * ones, "kg cm": KG_CM * ones}
    if (robot.gear_ratios != 1.0).any():
        found["N m at motor"] = np.abs(robot.gear_ratios) * ones
    return found


def unit_suspicion(tau: FloatArray, robot: Robot) -> str:
    """Return a phrase with the reason why torques are probably not in N m; "" if they are plausible.

    Args:
        tau: torques, (N, n) [N m].
        robot: the recorded robot.
    """
    shares = np.abs(tau).max(axis=0) / robot.torque_limits
    joint = int(np.argmax(shares))
    if LEAST_LIMIT_RATIO <= shares[joint] <= SUSPECT_LIMIT_RATIO or not tau.any():
        return ""
    units = likely_units(tau, robot)
    guess = f"they would be likely in {units}" if units else "is their unit right?"
    low = ", and no joint comes closer to its own" if shares[joint] < LEAST_LIMIT_RATIO else ""
    return (
        f"torques reach {np.abs(tau[:, joint]).max():.4g} N m at {robot.joint_names[joint]}, {shares[joint]:.3g} times "
        f"its limit in robot.yaml{low}: {guess}"
    )


def refuse_impossible(log: Log, robot: Robot, cure: str) -> None:
    """Raise DataError if a log has impossible positions or torques, or a joint that moves while its torque is constant.

    Args:
        log: log to check.
        robot: the recorded robot.
        cure: question at the end of the error message, which suggests what to check.
    """
    refuse_beyond_limits(log.q, robot, log.name, cure, log.endless)
    refuse_jumps(log.time, log.q, robot, log.name)
    refuse_frozen(log.time, log.q, position_margin(robot), robot, log.name)
    if log.tau is None:
        return
    ratio = np.abs(log.tau).max(axis=0) / robot.torque_limits
    joint = int(np.argmax(ratio))
    if ratio[joint] > MOST_LIMIT_RATIO:
        units = likely_units(log.tau, robot)
        raise DataError(
            f"{log.name}: the torque of {log.joint_names[joint]} reaches {np.abs(log.tau[:, joint]).max():.4g} N m, "
            f"its limit in robot.yaml is {robot.torque_limits[joint]:.4g}: {cure}"
            + (f" The peaks would be likely in {units}" if units else "")
        )
    moved = np.ptp(log.q, axis=0) > position_margin(robot)
    silent = (np.ptp(log.tau, axis=0) == 0.0) & moved
    if silent.any():
        names = ", ".join(name for name, one in zip(log.joint_names, silent, strict=True) if one)
        raise DataError(
            f"{log.name}: {names} moved, but the torque is the same in every row ({log.tau[0, silent.argmax()]:.4g} "
            "N m): its effort was not measured"
        )
