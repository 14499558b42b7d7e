"""Detection of encoders that fail during a motion and report a constant position afterwards."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dynid.errors import DataError
from dynid.robot import FloatArray, Robot

INTERVAL_S = 0.02  # interval over which the displacement before a stop is compared with the rest of the recording [s]
LEAST_STOP_S = 0.5  # minimum time of constant position at the end [s]
ABRUPT_RATIO = 2.0  # a stop is abrupt beyond this multiple of the joint's largest change of displacement elsewhere
REST_RATIO = 3.0  # a rest at the end is noted beyond this multiple of the joint's longest other rest


class Still(NamedTuple):
    """Joint whose position is constant from some row to the end of a recording, while other joints move.

    Attributes:
        joint: index of the joint.
        row: index of the row from which the position is constant.
        before: positions of the joint up to and including this row [rad or m].
    """

    joint: int
    row: int
    before: FloatArray


def _still(time: FloatArray, q: FloatArray, margin: FloatArray) -> Iterator[Still]:
    if len(time) < 10 or not np.isfinite(q).all():
        return
    for joint, values in enumerate(q.T):
        changes = np.flatnonzero(np.diff(values))
        row = int(changes[-1]) + 1 if len(changes) else 0
        others = np.delete(np.ptp(q[row:], axis=0) > margin, joint)
        if row and time[-1] - time[row] >= LEAST_STOP_S and others.any():
            yield Still(joint, row, values[: row + 1])


def refuse_frozen(time: FloatArray, q: FloatArray, margin: FloatArray, robot: Robot, name: str) -> None:
    """Raise DataError if a position changes, stops abruptly and stays constant to the end while other joints move.

    This is the sign of a failed encoder, because a joint with an intact encoder brakes gradually. Speeds are means over
    intervals of `INTERVAL_S`. A stop is abrupt if the speed just before it, which is also the change of speed at the
    stop, exceeds `ABRUPT_RATIO` times the largest earlier change of speed from one interval to the next. Joints outside
    the kinematic chain, such as grippers, are not checked, because they stop on objects.

    Args:
        time: increasing stamps, (N,) [s].
        q: positions, (N, n) [rad or m].
        margin: position range up to which a joint counts as not moving, (n,) [rad or m].
        robot: the recorded robot.
        name: name of the recording, for messages.
    """
    rows = max(1, round(INTERVAL_S / max(float(np.median(np.diff(time))), 1e-6))) if len(time) > 1 else 1
    for joint, row, before in _still(time, q, margin):
        if row < 4 * rows or joint >= robot.chain_size:  # a gripper that closes on an object stops abruptly
            continue
        usual = np.abs(before[2 * rows :] - 2.0 * before[rows:-rows] + before[: -2 * rows]).max()
        moved = abs(float(before[-1] - before[-1 - rows]))
        if moved > ABRUPT_RATIO * usual:
            unit, rest = robot.position_units[joint], time[-1] - time[row]
            speed, start = moved / (time[row] - time[row - rows]), time[row] - time[0]
            raise DataError(
                f"{name}: the position of {robot.joint_names[joint]} stops at once at {start:.3f} s after the start, "
                f"from {speed:.2g} {unit}/s, and stays {before[-1]:.4g} {unit} for the last {rest:.3g} s while other "
                "joints move, expected one that brakes: did its encoder stop, or the joint run into something? Cut the "
                "recording there, or record again"
            )


def still_notes(time: FloatArray, q: FloatArray, margin: FloatArray, robot: Robot) -> tuple[str, ...]:
    """Return a sentence for each joint whose rest at the end of a recording is far longer than its earlier rests.

    Only joints that rest while other joints move are mentioned.

    Args:
        time: increasing stamps, (N,) [s].
        q: positions, (N, n) [rad or m].
        margin: position range up to which a joint counts as not moving, (n,) [rad or m].
        robot: the recorded robot.
    """
    found = []
    for joint, row, before in _still(time, q, margin):
        changes = np.flatnonzero(np.diff(before))
        rests, last = np.diff(time[[0, *changes]]), float(time[-1] - time[row])
        if last > REST_RATIO * rests.max():
            found.append(
                f"the position of {robot.joint_names[joint]} stays the same for the last {last:.3g} s, while other "
                f"joints move, and never stayed longer than {rests.max():.2g} s before: did its encoder stop?"
            )
    return tuple(found)
