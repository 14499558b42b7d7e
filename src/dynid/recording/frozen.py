"""Encoders that stop while their joint moves, and report the same position from then on."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dynid.errors import DataError
from dynid.robot import FloatArray, Robot

LOOK_S = 0.02  # over which a joint's motion is looked at before it stops, and elsewhere
STOPPED_S = 0.5  # so long a position stays the same at the end, at least
ABRUPT = 2.0  # times what the joint's motion changes by elsewhere
LONGER = 3.0  # times the joint's other rests


class Still(NamedTuple):
    """A joint that stays where it is from a row on to the end, while others move; its positions until then."""

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
        if row and time[-1] - time[row] >= STOPPED_S and others.any():
            yield Still(joint, row, values[: row + 1])


def refuse_frozen(time: FloatArray, q: FloatArray, margin: FloatArray, robot: Robot, name: str) -> None:
    """Raise DataError where a position stops abruptly and stays the same to the end, while other joints move on.

    A drive that brakes needs its time, and has braked before: by how much the motion within `LOOK_S` changes from one
    such time to the next is known from the rest of the recording. Decoupled joints are not looked at: grippers close on
    objects.

    Args:
        time: increasing, (N,) [s].
        q: positions, (N, n) [rad or m].
        margin: what is no motion of a joint, (n,) [rad or m].
        robot: whose joints they are.
        name: of the recording.
    """
    rows = max(1, round(LOOK_S / max(float(np.median(np.diff(time))), 1e-6))) if len(time) > 1 else 1
    for joint, row, before in _still(time, q, margin):
        if row < 4 * rows or joint >= robot.chain_size:  # a gripper that closes on something stops like this
            continue
        usual = np.abs(before[2 * rows :] - 2.0 * before[rows:-rows] + before[: -2 * rows]).max()
        moved = abs(float(before[-1] - before[-1 - rows]))
        if moved > ABRUPT * usual:
            unit, rest = "m" if robot.prismatic[joint] else "rad", time[-1] - time[row]
            speed, start = moved / (time[row] - time[row - rows]), time[row] - time[0]
            raise DataError(
                f"{name}: the position of {robot.joint_names[joint]} stops at once at {start:.3f} s after the start, "
                f"from {speed:.2g} {unit}/s, and stays {before[-1]:.4g} {unit} for the last {rest:.3g} s while other "
                "joints move, expected one that brakes: did its encoder stop, or the joint run into something? Cut the "
                "recording there, or record again"
            )


def still_notes(time: FloatArray, q: FloatArray, margin: FloatArray, robot: Robot) -> tuple[str, ...]:
    """Which joints stay where they are to the end, far longer than they rest before, in words.

    Args:
        time, q, margin, robot: as of `refuse_frozen`, (N,), (N, n) and (n,).
    """
    found = []
    for joint, row, before in _still(time, q, margin):
        changes = np.flatnonzero(np.diff(before))
        rests, last = np.diff(time[[0, *changes]]), float(time[-1] - time[row])
        if last > LONGER * rests.max():
            found.append(
                f"the position of {robot.joint_names[joint]} stays the same for the last {last:.3g} s, while other "
                f"joints move, and never stayed longer than {rests.max():.2g} s before: did its encoder stop?"
            )
    return tuple(found)
