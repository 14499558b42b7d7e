"""Recordings made from NumPy arrays in memory."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from dynid.errors import ConfigurationError, DataError, refuse_other_kind
from dynid.identification.data.deferred_signals import SignalsInMemory
from dynid.identification.data.recordings import Recording, signals_of_rows
from dynid.recording.frozen import refuse_frozen, still_notes
from dynid.recording.held_efforts import without_held_efforts
from dynid.recording.joint_log import Measured, measured
from dynid.recording.plausible import (
    beyond_limits,
    position_margin,
    refuse_jumps,
    unit_suspicion,
    within_limits,
    wrap_notes,
)
from dynid.recording.quantity import Conversion, Quantity, joint_rates, quantity_of
from dynid.recording.repeated_rows import Rows
from dynid.robot import FloatArray, Robot

UnitText = str | Sequence[str] | None


def recording_from_arrays(
    robot: Robot,
    time: ArrayLike,
    q: ArrayLike,
    tau: ArrayLike,
    *,
    dq: ArrayLike | None = None,
    joint_names: Sequence[str] = (),
    q_unit: UnitText = None,
    tau_unit: UnitText = None,
    mount: str | None = None,
    torque_constants: Sequence[float] = (),
    name: str = "arrays",
) -> Recording:
    """Return a recording made from arrays of timestamps (N,) [s], positions (N, n) and torques (N, n).

    Args:
        robot: the robot that was recorded.
        time: timestamps (N,) [s], increasing, with any start time. The recording's own times begin at 0, as those of
            bags and CSV files do.
        q: joint positions (N, n), in `q_unit`.
        tau: joint torques (N, n), or the quantity that `tau_unit` names.
        dq: joint velocities (N, n), in `q_unit` per second, which are used only to check the units; None if not
            measured.
        joint_names: name of the joint of each column, (n,); () means the robot's joint order.
        q_unit: unit of all columns or of each column, such as "deg"; None means rad, or m for prismatic joints. The
            suffix " at motor" marks positions of the motors.
        tau_unit: unit of all columns or of each column, such as "mA" (motor current) or "% of 1.27 N m at motor"; None
            means N m at the joints, or N for prismatic joints.
        mount: name of the arm's mount (orientation of its base); None means the robot's default mount.
        torque_constants: constants by which `tau` was computed from currents, (n,) [N m/A]; () if torques were
            measured.
        name: name of the recording in reports and messages; must be unique among recordings that are used together.

    Raises:
        DataError: an array has the wrong shape, a timestamp is not finite, the joints are not those of the robot, or
            positions jump.
        UnknownNameError: the robot does not have this mount.
        ConfigurationError: robot or name has the wrong type; a unit is unknown or does not fit its joint; or torque
            constants were given together with currents.
    """
    refuse_other_kind(robot, Robot, "the robot", "load it with dynid.load_robot first")
    refuse_other_kind(name, str, "the name of the recording", "give it a word such as 'run', or leave it out")
    own = robot.joint_names
    names = tuple(joint_names) or own
    if sorted(names) != sorted(own):
        raise DataError(f"{name} names the joints {', '.join(names)}; robot '{robot.name}' has {', '.join(own)}")
    columns, stamps = [names.index(joint) for joint in own], _stamps(name, time)
    given = {"q": q, "tau": tau} | ({} if dq is None else {"dq": dq})
    arrays = {key: _columns(name, key, value, len(stamps), columns) for key, value in given.items()}
    if torque_constants and len(torque_constants) != len(own):
        raise DataError(f"{name} gives {len(torque_constants)} torque constants, expected one for each of {len(own)}")
    chosen = mount or robot.file.default_mount
    robot.gravity(chosen)
    factors = _numbers(name, "torque_constants", torque_constants)
    constants = tuple(factors[columns].tolist()) if len(factors) else ()
    digest = hashlib.sha256(b"".join(one.tobytes() for one in (stamps, *arrays.values()))).hexdigest()
    position, torque = _quantity(q_unit, columns), _quantity(tau_unit, columns)
    conversion = Conversion(robot, position, torque)
    if conversion.torque_constants and constants:
        raise ConfigurationError(
            f"{name} gives torque_constants beside currents in {tau_unit}: currents become torques with those of "
            "robot.yaml; give one of the two"
        )
    rates = arrays.get("dq")
    if rates is not None and position is not None:
        rates = joint_rates(rates, _per_second(position), robot)
    # from 0, since a time that is no later than the one before marks the next recording where samples are joined
    since_start = stamps - stamps[:1]
    rows = measured(name, conversion, since_start, arrays["q"], arrays["tau"], dq=rates)
    return _source(rows, conversion, chosen, constants or conversion.torque_constants, digest)


def _source(rows: Measured, conversion: Conversion, mount: str, constants: tuple[float, ...], digest: str) -> Recording:
    """Return a recording made from arrays; positions beyond the joint limits cause a note, not an error.

    Args:
        rows: measured positions and torques in the units of the arrays.
        conversion: conversion to joint positions and torques in SI units.
        mount: name of the arm's mount.
        constants: torque constants, (n,) [N m/A]; () if torques were measured.
        digest: hash of the arrays, which identifies the recording.
    """
    robot, time, name = conversion.robot, rows.time, rows.name
    at_joints = rows.wraps if conversion.positions_at_joints else [0] * robot.size
    q, endless = within_limits(conversion.joint_positions(rows.q), robot, at_joints) if len(time) else (rows.q, ())
    assert rows.tau is not None, "it was given"
    tau = conversion.joint_torques(rows.tau)
    beyond = beyond_limits(q, robot, endless) if len(time) else ""
    if not beyond:  # if beyond, a wrong unit may cause the jumps: the note mentions it
        refuse_jumps(time, q, robot, name)
        refuse_frozen(time, q, position_margin(robot), robot, name)
    kept = without_held_efforts(Rows(time, q, tau, rows.dq))
    assert kept.tau is not None, "it was given"
    signals, moved = signals_of_rows(robot, kept.time, kept.q, kept.tau, kept.dq, endless)
    told = (
        f"{beyond}: are limits, unit and zero right?" if beyond else "",
        *wrap_notes(robot.joint_names, rows.wraps),
        kept.words,
        unit_suspicion(tau, robot) if len(time) else "",
        *moved,
        *still_notes(time, q, position_margin(robot), robot),
    )
    notes = tuple(one for one in told if one)
    known = Path(name), digest, mount, constants, notes
    names = robot.joint_names
    return Recording(*known, SignalsInMemory(signals), joint_names=names, rows=signals, content=signals.digest())


def _quantity(unit: UnitText, columns: list[int]) -> Quantity | None:
    """Return the physical quantity that a unit describes; None if no unit is given.

    Args:
        unit: one unit for all columns, or one for each column.
        columns: index of each joint's column in the arrays, in the robot's joint order.
    """
    if unit is None:
        return None
    found = quantity_of(unit if isinstance(unit, str) else ", ".join(unit))
    if isinstance(found.unit, str) or len(found.unit) != len(columns):
        return found  # Conversion raises the error about a wrong number of units, with the robot's name
    return found.model_copy(update={"unit": tuple(found.unit[k] for k in columns)})


def _per_second(position: Quantity) -> Quantity:
    """Return the description of a velocity whose unit is the unit of the given position, per second."""
    units = position.unit
    return position.model_copy(
        update={"unit": f"{units}/s" if isinstance(units, str) else tuple(f"{unit}/s" for unit in units)}
    )


def _stamps(name: str, time: ArrayLike) -> FloatArray:
    """Return a copy of the timestamps, (N,) [s].

    Args:
        name: name of the recording, for messages.
        time: the given timestamps.

    Raises:
        DataError: the timestamps have another shape, or one is not finite.
    """
    stamps = _numbers(name, "time", time)
    if stamps.ndim != 1:
        raise DataError(f"time of {name} has shape {stamps.shape}, expected (N,)")
    wrong = np.flatnonzero(~np.isfinite(stamps))
    if len(wrong):
        raise DataError(
            f"time of {name} is {stamps[wrong[0]]} in row {wrong[0]} (the first is 0), expected a finite number of "
            "seconds: leave such rows out of all arrays"
        )
    return stamps


def _columns(name: str, key: str, values: ArrayLike, count: int, columns: list[int]) -> FloatArray:
    """Return a copy of one array (N, n) with its columns in the robot's joint order.

    Args:
        name: name of the recording, for messages.
        key: name of the array, for messages.
        values: the given array.
        count: expected number N of rows.
        columns: index of each joint's column in the arrays, in the robot's joint order.
    """
    array = _numbers(name, key, values)
    if array.shape != (count, len(columns)):
        raise DataError(f"{key} of {name} has shape {array.shape}, expected ({count}, {len(columns)}): one per joint")
    return array[:, columns]


def _numbers(name: str, key: str, values: ArrayLike) -> FloatArray:
    """Return a copy of an array of any shape; raise DataError if it does not contain numbers.

    Args:
        name: name of the recording, for the message.
        key: name of the array, for the message.
        values: the given array.
    """
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{key} of {name} is no array of numbers: {error}") from None
