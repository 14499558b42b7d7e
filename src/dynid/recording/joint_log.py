"""One log from raw numbers, whatever they were read from: units, wraps, gears, what cannot be, rows that repeat."""

from dataclasses import dataclass, replace

import numpy as np

from dynid.recording.frozen import still_notes
from dynid.recording.log import Log
from dynid.recording.plausible import (
    TURN_RAD,
    position_margin,
    refuse_impossible,
    unit_suspicion,
    unwrapped,
    within_limits,
    wrap_notes,
)
from dynid.recording.quantity import Conversion
from dynid.recording.repeated_rows import Rows, without_repeats
from dynid.robot import FloatArray


@dataclass(frozen=True, eq=False)
class Measured:
    """Rows of all axes in SI units on the side where they were measured, angles unwrapped.

    Attributes:
        name: of the log.
        time: stamps, (N,) [s].
        q: positions, (N, n) [rad or m].
        wraps: how often each axis wrapped round, (n,).
        tau: torques, (N, n) [N m or N]; None if nobody measured them.
        goal: positions that were asked for, (N, n) [rad or m]; None if nobody logged them.
        dq: velocities at the joints, (N, n) [rad/s or m/s]; None if nobody measured them.
        notes: what its reader did, that a reader of the result should know.
    """

    name: str
    time: FloatArray
    q: FloatArray
    wraps: list[int]
    tau: FloatArray | None = None
    goal: FloatArray | None = None
    dq: FloatArray | None = None
    notes: tuple[str, ...] = ()


def measured(
    name: str,
    conversion: Conversion,
    time: FloatArray,
    position: FloatArray,
    torque: FloatArray | None = None,
    goal: FloatArray | None = None,
    dq: FloatArray | None = None,
    notes: tuple[str, ...] = (),
) -> Measured:
    """Return rows of raw numbers (N, n) of all axes; `dq` is converted already."""
    factors, turns = conversion.position_factors, [not slides for slides in conversion.robot.prismatic]
    q, wraps = unwrapped(time, position * factors, conversion.speed_limits(), turns)
    tau = None if torque is None else torque * conversion.torque_factors
    return Measured(name, time, q, wraps, tau, None if goal is None else goal * factors, dq, notes)


def joint_log(
    own: Measured,
    conversion: Conversion,
    cure: str,
    *,
    mount: str | None = None,
    torque_delay_s: float = 0.0,
    sha256: str = "",
) -> Log:
    """Return the log of rows: values at the joints, without rows that repeat the row before.

    Args:
        own: the rows.
        conversion: from the side where they were measured to the joints.
        cure: what to look at where values cannot be, as a question.
        mount, torque_delay_s, sha256: see `Log`.

    Raises:
        DataError: a joint is or pulls as it cannot; stamps that do not increase; too few rows.
        UnknownNameError: the mount.
    """
    robot = conversion.robot
    robot.gravity(mount)
    at_joints = own.wraps if conversion.positions_at_joints else [0] * robot.size
    q, endless = within_limits(conversion.joint_positions(own.q), robot, at_joints)
    log = Log(
        own.name,
        robot.joint_names,
        own.time,
        q,
        None if own.tau is None else conversion.joint_torques(own.tau),
        None if own.goal is None else _near(conversion.joint_positions(own.goal), q, at_joints),
        dq=own.dq,
        mount=mount,
        torque_delay_s=torque_delay_s,
        torque_constants=() if own.tau is None else conversion.torque_constants,
        sha256=sha256,
        endless=endless,
    )
    refuse_impossible(log, robot, cure)
    rows = without_repeats(Rows(log.time, log.q, log.tau, log.dq, log.goal))
    suspicion = "" if log.tau is None else unit_suspicion(log.tau, robot)
    told = *own.notes, *wrap_notes(robot.joint_names, own.wraps), rows.words, suspicion
    still = still_notes(log.time, log.q, position_margin(robot), robot)
    notes = (*(one for one in told if one), *still)
    if not rows.words:
        return replace(log, notes=notes)
    return replace(log, time=rows.time, q=rows.q, tau=rows.tau, goal=rows.goal, dq=rows.dq, notes=notes)


def _near(goal: FloatArray, q: FloatArray, wraps: list[int]) -> FloatArray:
    """Return goals (N, n) moved by whole turns next to positions (N, n), of joints that wrap."""
    turns = np.rint((q - goal) / TURN_RAD) * (np.array(wraps) > 0)
    return np.asarray(goal + TURN_RAD * turns)
