"""Conversion of raw numbers from any source to a log with values in SI units at the joints.

Units are converted, wrapped angles unwrapped and gears applied. Impossible values are refused, and repeated rows are
removed.
"""

from dataclasses import dataclass, replace

import numpy as np

from dynid.recording.frozen import still_notes
from dynid.recording.held_efforts import without_held_efforts
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
from dynid.recording.repeated_rows import Rows
from dynid.robot import FloatArray


@dataclass(frozen=True, eq=False)
class Measured:
    """Measured values of all axes in SI units.

    Positions and torques refer to the side of the gears where they were measured. Angles are unwrapped.

    Attributes:
        name: name of the log.
        time: stamps, (N,) [s].
        q: positions, (N, n) [rad or m].
        wraps: number of wrap-arounds of each axis's angle, (n,).
        tau: torques, (N, n) [N m or N]; None if they were not measured.
        goal: commanded positions, (N, n) [rad or m]; None if they were not logged.
        dq: velocities at the joints, (N, n) [rad/s or m/s]; None if they were not measured.
        notes: remarks on data that the reader changed or left out.
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
    """Convert raw numbers of all axes to SI units, and unwrap angles.

    Args:
        name: name of the log.
        conversion: conversion from raw numbers to SI units.
        time: stamps, (N,) [s].
        position: raw positions, (N, n).
        torque: raw torques or currents, (N, n); None if they were not measured.
        goal: raw commanded positions, (N, n); None if they were not logged.
        dq: velocities at the joints, in SI units already, (N, n); None if they were not measured.
        notes: remarks of the log's reader.
    """
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
    """Convert measured values to a log of values at the joints, and remove or replace repeated rows.

    A row contains the values of all joints at one time. A row is repeated if it equals the previous row although the
    arm moves, or has the same efforts because the driver updates them less often, see `without_held_efforts`.

    Args:
        own: measured values, on the side of the gears where they were measured.
        conversion: conversion from that side of the gears to the joints.
        cure: end of error messages about impossible values: a question that suggests what to check, such as "are the
            units right?".
        mount: mount of the arm, see `Log`.
        torque_delay_s: delay of the torques [s], see `Log`.
        sha256: hash of the files, see `Log`.

    Raises:
        DataError: a position or torque is impossible, stamps do not increase, or there are too few rows.
        UnknownNameError: the mount is unknown.
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
    rows = without_held_efforts(Rows(log.time, log.q, log.tau, log.dq, log.goal))
    suspicion = "" if log.tau is None else unit_suspicion(log.tau, robot)
    all_notes = *own.notes, *wrap_notes(robot.joint_names, own.wraps), rows.words, suspicion
    still = still_notes(log.time, log.q, position_margin(robot), robot)
    notes = (*(one for one in all_notes if one), *still)
    if not rows.words:
        return replace(log, notes=notes)
    return replace(log, time=rows.time, q=rows.q, tau=rows.tau, goal=rows.goal, dq=rows.dq, notes=notes)


def _near(goal: FloatArray, q: FloatArray, wraps: list[int]) -> FloatArray:
    """Shift commanded positions by whole turns towards measured positions, for joints whose angles wrapped around.

    Args:
        goal: commanded positions, (N, n) [rad or m].
        q: measured positions, (N, n) [rad or m].
        wraps: number of wrap-arounds of each joint, (n,); joints without any are not shifted.
    """
    turns = np.rint((q - goal) / TURN_RAD) * (np.array(wraps) > 0)
    return np.asarray(goal + TURN_RAD * turns)
