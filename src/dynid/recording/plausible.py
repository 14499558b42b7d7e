"""Whether values of a recording can be those of the robot's joints: limits, jumps, units, angles that wrap round."""

import numpy as np

from dynid.errors import DataError
from dynid.recording.frozen import refuse_frozen
from dynid.recording.log import Log
from dynid.recording.quantity import CURRENTS, KG_CM
from dynid.robot import FloatArray, Robot

BEYOND_RAD = 0.2  # by so much a position may exceed the joint's limits; beyond it, the unit or the mapping is wrong
BEYOND_M = 0.02
FASTEST = 3.0  # times the velocity limit of robot.yaml: no joint is faster
TURN_RAD = 2.0 * np.pi
MOST_OF_LIMIT = 30.0  # a torque beyond it is in another unit; limits of robot.yaml may be far too low
SUSPECT_OF_LIMIT = 3.0  # a torque beyond it is refused before an identification
LEAST_OF_LIMIT = 0.02  # an arm whose joints all stay below it hardly carries itself
LIKELY = (0.05, 1.5)  # of the limits: where peaks are in the right unit


def position_margin(robot: Robot) -> FloatArray:
    """Return by how much positions may be off their limits, and what is no motion, (n,) [rad or m]."""
    return np.where(robot.prismatic, BEYOND_M, BEYOND_RAD)


def beyond_limits(q: FloatArray, robot: Robot, endless: tuple[str, ...] = ()) -> str:
    """Return which joint of positions (N, n) [rad or m] goes where it cannot be, in words; "" where none does.

    Joints that are `endless` turn on and on: limits say nothing of them.
    """
    margin = position_margin(robot)
    beyond = np.maximum(robot.lower - margin - q.min(axis=0), q.max(axis=0) - robot.upper - margin)
    beyond[[name in endless for name in robot.joint_names]] = 0.0
    joint = int(np.argmax(beyond))
    if beyond[joint] > 0:
        unit = "m" if robot.prismatic[joint] else "rad"
        return (
            f"joint {robot.joint_names[joint]} goes from {q[:, joint].min():.4g} to {q[:, joint].max():.4g} {unit}, "
            f"its limits in robot.yaml are {robot.lower[joint]:.4g} and {robot.upper[joint]:.4g}"
        )
    return ""


def refuse_beyond_limits(q: FloatArray, robot: Robot, name: str, cure: str, endless: tuple[str, ...] = ()) -> None:
    """Raise DataError where `beyond_limits` of positions (N, n) has words; `cure`: what to look at, as a question."""
    if words := beyond_limits(q, robot, endless):
        raise DataError(f"{name}: {words}: {cure}")


def refuse_jumps(time: FloatArray, q: FloatArray, robot: Robot, name: str) -> None:
    """Raise DataError where positions (N, n) [rad or m] at time (N,) [s] jump from one row to the next."""
    step = np.abs(np.diff(time))[:, None]  # stamps that are not sorted are refused elsewhere
    far = np.abs(np.diff(q, axis=0)) - FASTEST * robot.velocity_limits * step
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
    """Return positions without the jumps of whole turns, and how many there are of every axis, (n,).

    A jump is one of whole turns if no axis can be that fast, and if it could have moved by the rest.

    Args:
        time: stamps, (N,) [s].
        own: positions, (N, n) [rad or m].
        speeds: how fast each axis can be, (n,) [rad/s or m/s].
        turns: which axes turn, (n,).
    """
    steps = np.diff(own, axis=0)
    reach = FASTEST * speeds * np.abs(np.diff(time))[:, None] + BEYOND_RAD
    whole = np.where(np.isfinite(steps), np.rint(steps / TURN_RAD), 0.0) * np.array(turns)
    wraps = (whole != 0.0) & (np.abs(steps) > reach) & (np.abs(steps - TURN_RAD * whole) <= reach)
    if not wraps.any():
        return own, [0] * own.shape[1]
    back = np.cumsum(np.where(wraps, whole, 0.0), axis=0)
    found = own.copy()
    found[1:] -= TURN_RAD * back
    return found, wraps.sum(axis=0).tolist()


def within_limits(q: FloatArray, robot: Robot, wraps: list[int]) -> tuple[FloatArray, tuple[str, ...]]:
    """Return positions (N, n) of which those that wrapped are moved by whole turns to where the joint can be.

    Also returns the names of joints that turn on and on: what they do fits nowhere within their limits, which are a
    whole turn apart or more.
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
    """Return a sentence about positions that were unwrapped; none where none was."""
    told = [f"{name} ({count} times)" for name, count in zip(names, wraps, strict=True) if count]
    if not told:
        return ()
    return (f"positions jump by whole turns, as angles that wrap round do, and were unwrapped: {', '.join(told)}",)


# -- units of torques ------------------------------------------------------------------------------------------


def likely_units(tau: FloatArray, robot: Robot) -> str:
    """Return in which units numbers (N, n) that are said to be N m could be those of the joints, in words; "" if none.

    A unit is likely if all peaks that stand out are then within the joints' limits, and one comes near its own.
    """
    peaks = np.abs(tau).max(axis=0)
    found = []
    for unit, factors in _candidates(robot).items():
        shares = peaks * factors / robot.torque_limits
        if LIKELY[0] <= shares.max() <= LIKELY[1]:
            found.append(unit)
    return " or ".join(found)


def _candidates(robot: Robot) -> dict[str, FloatArray]:
    """Return N m at the joints per unit, (n,), of units that drivers publish, the usual ones first."""
    ones = np.ones(robot.size)
    found: dict[str, FloatArray] = {}
    if robot.has_torque_constants:
        found |= {unit: factor * robot.joint_constants for unit, factor in CURRENTS.items()}
    found |= {"% of a rated torque": 0.01 * robot.torque_limits, "mN m": 1e-3 * ones, "kg cm": KG_CM * ones}
    if (robot.gear_ratios != 1.0).any():
        found["N m at motor"] = np.abs(robot.gear_ratios) * ones
    return found


def unit_suspicion(tau: FloatArray, robot: Robot) -> str:
    """Return why torques (N, n) [N m] are probably in another unit, in words; "" where they are not."""
    shares = np.abs(tau).max(axis=0) / robot.torque_limits
    joint = int(np.argmax(shares))
    if LEAST_OF_LIMIT <= shares[joint] <= SUSPECT_OF_LIMIT or not tau.any():
        return ""
    units = likely_units(tau, robot)
    guess = f"they would be likely in {units}" if units else "is their unit right?"
    low = ", and no joint comes closer to its own" if shares[joint] < LEAST_OF_LIMIT else ""
    return (
        f"torques reach {np.abs(tau[:, joint]).max():.4g} N m at {robot.joint_names[joint]}, {shares[joint]:.3g} times "
        f"its limit in robot.yaml{low}: {guess}"
    )


def refuse_impossible(log: Log, robot: Robot, cure: str) -> None:
    """Raise DataError where a joint is or pulls as it cannot, or moves while its torque stays the same.

    cure: what to look at, as a question.
    """
    refuse_beyond_limits(log.q, robot, log.name, cure, log.endless)
    refuse_jumps(log.time, log.q, robot, log.name)
    refuse_frozen(log.time, log.q, position_margin(robot), robot, log.name)
    if log.tau is None:
        return
    ratio = np.abs(log.tau).max(axis=0) / robot.torque_limits
    joint = int(np.argmax(ratio))
    if ratio[joint] > MOST_OF_LIMIT:
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
