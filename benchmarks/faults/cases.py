"""Faults that the benchmark injects: the event, the required outcome, and the words that must name the cause."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from benchmarks.faults.lockstep import FALL_WINDOW_S, MOTION_WINDOW_S, STOP_WINDOW_S, Disturbed
from benchmarks.faults.motion import Disturbance, JointCommand
from dynid.hardware.arm.cycle_rate import SLOW_POLL_S
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.control_table import Register
from dynid.hardware.bus.slow_state import ROUND
from dynid.robot import FloatArray, Robot
from dynid.simulation.faults.line import LineFaultKind
from dynid.simulation.faults.script import (
    CableCut,
    Fault,
    HardwareError,
    LineFault,
    MissedWrite,
    OtherBaudRate,
    OtherValue,
    SameId,
    ServoError,
    ServoReboot,
    Unplugged,
)

Random = np.random.Generator
Expectation = Literal[
    "motion continues",
    "arm stops",
    "other joints stop",
    "reached joints stop",
    "no worse than free fall",
    "servo without current",
    "arm without current",
]
SERVO_WINDOW_S = 0.4  # the watchdog's time plus a margin [s]
REBOOT_WINDOW_S = 0.7  # slow values are read once in half a second [s]
NOTICE_MARGIN_S = 0.15  # time that the driver may take beyond a round of slow values [s]
SUSPENDED_S = 0.5
LASTING_S = 60.0  # longer than any run [s]
LONGEST_CHAIN = 8  # number of servos; in a shorter chain some cuts are at the same place


@dataclass(frozen=True)
class FaultCase:
    """One row of the table.

    Attributes:
        name: name of the fault.
        expectation: required outcome.
        named: if the arm stops, pattern that the driver's message must match. If the motion continues, "counted" for a
            fault that the driver must count, "counted if felt" if it must count only a fault that cost a reading, and
            "" if it need not count the fault.
        make: function that draws the fault for a robot.
        followers_only: whether the fault exists only for joints with several servos; other robots skip it.
    """

    name: str
    expectation: Expectation
    named: str
    make: Callable[[Random, Robot], Disturbed]
    followers_only: bool = False


@dataclass(frozen=True)
class StartCase:
    """A row of the table in which the driver must refuse to start, or to switch torque on if it `enables`.

    `named` is the pattern that its message must match; `followers_only` is that of `FaultCase`.
    """

    name: str
    named: str
    make: Callable[[Random, Robot], tuple[Fault, ...]]
    enables: bool = False
    followers_only: bool = False


def _line(kind: LineFaultKind, one: bool, lasting: bool, random: Random, robot: Robot) -> Disturbed:
    """Return a fault that damages replies: one reply or all from now on, of one servo or of any."""
    axis = int(random.integers(robot.size))
    options: dict[str, Any] = {"kind": kind, "delay_s": float(random.uniform(0.001, 0.016))}
    options |= {"servo": robot.servo_ids[axis]} if one else {}
    options |= {"for_s": LASTING_S} if lasting else {}
    return Disturbed(
        faults=lambda at_s: (LineFault(at_s=at_s, **options),),
        axes=(axis,) if one else (),
        window_s=(STOP_WINDOW_S if one else FALL_WINDOW_S) if lasting else MOTION_WINDOW_S,
    )


def _brief(name: str, kind: LineFaultKind, one: bool = False) -> FaultCase:
    named = "counted if felt" if kind == "late_reply" else "counted"  # the driver may still accept a late reply
    return FaultCase(name, "motion continues", named, partial(_line, kind, one, False))


def _lasting(name: str, kind: LineFaultKind, one: bool = False) -> FaultCase:
    """Return a case of a lasting fault; an unread joint cannot be braked, but its current must keep its limit."""
    expectation: Expectation = "other joints stop" if one else "no worse than free fall"
    return FaultCase(f"{name}, for good", expectation, "servo|reply|answer", partial(_line, kind, one, True))


def _without_first_servo(axis: int, robot: Robot, disturbed: Disturbed) -> Disturbed:
    """Return a fault of the first servo of an axis, which then loses its torque, or a part of it."""
    shared = any(one.axis == axis for one in robot.followers)
    return replace(disturbed, halved=(axis,)) if shared else replace(disturbed, axes=(axis,))


def _alert(error: HardwareError, random: Random, robot: Robot) -> Disturbed:
    """Return a servo's hardware error; with the factory's shutdown register only the voltage error keeps torque on."""
    axis = int(random.integers(robot.size))
    stops = error == "input voltage"
    disturbed = Disturbed(
        faults=lambda at_s: (ServoError(kind="hardware_error", at_s=at_s, servo=robot.servo_ids[axis], error=error),),
        window_s=STOP_WINDOW_S if stops else SERVO_WINDOW_S,
    )
    return _without_first_servo(axis, robot, disturbed)


def _reboot(random: Random, robot: Robot) -> Disturbed:
    axis, absent_s = int(random.integers(robot.size)), float(random.uniform(0.0, 0.3))
    disturbed = Disturbed(
        faults=lambda at_s: (ServoReboot(kind="reboot", at_s=at_s, servo=robot.servo_ids[axis], absent_s=absent_s),),
        window_s=REBOOT_WINDOW_S,
    )
    return _without_first_servo(axis, robot, disturbed)


def _unplug(random: Random, _: Robot) -> Disturbed:
    out_s = float(random.uniform(0.05, 0.5))
    return Disturbed(
        faults=lambda at_s: (Unplugged(kind="unplugged", at_s=at_s, for_s=out_s),),
        window_s=out_s + SERVO_WINDOW_S,
        reopen_s=out_s + 0.1,
    )


def _cut(reached: int, random: Random, robot: Robot) -> Disturbed:
    """Return a cut of the chain: only the first servos are reached; the others keep or lose their power."""
    left, powered = reached % robot.size, bool(random.integers(2))
    last = robot.servo_ids[left - 1] if left else None
    halved = {one.axis for one in robot.followers} & {left - 1}  # its other servos are behind the cut
    return Disturbed(
        faults=lambda at_s: (CableCut(kind="cable_cut", at_s=at_s, servo=last, powered=powered),),
        axes=tuple(range(left, robot.size)),
        halved=tuple(halved),
        unpowered=not powered,
        window_s=STOP_WINDOW_S if left else FALL_WINDOW_S,
    )


def _cable_cut(reached: int) -> FaultCase:
    if not reached:
        return FaultCase("cable cut before all servos", "no worse than free fall", "servo", partial(_cut, 0))
    name = f"cable cut behind servo number {reached}"
    return FaultCase(name, "reached joints stop", "servo", partial(_cut, reached))


def _clock_step(random: Random, _: Robot) -> Disturbed:
    """Return a step of the wall clock by 0.1 s to a day, forward or back."""
    step_s = float(random.choice((-1.0, 1.0)) * 10.0 ** random.uniform(-1.0, 5.0))
    return Disturbed(world=lambda clock: clock.step_realtime(step_s), window_s=MOTION_WINDOW_S)


def _suspend(_: Random, __: Robot) -> Disturbed:
    """Return a stall of the host: the servos' watchdogs stop them, and the arm drops."""
    return Disturbed(
        world=lambda clock: clock.stand_still(SUSPENDED_S), driver_gone_s=SUSPENDED_S, window_s=STOP_WINDOW_S
    )


def _commands(change: Callable[[Random, Robot], Disturbance], random: Random, robot: Robot) -> Disturbed:
    return Disturbed(commands=change(random, robot))


def _silent(_: Random, __: Robot) -> Disturbance:
    return lambda command: []


def _one_value(value: float, random: Random, robot: Robot) -> Disturbance:
    """Return a disturbance that sets the torque of one joint, or of every joint, to a value [N m]."""
    axes = slice(None) if random.integers(2) else int(random.integers(robot.size))

    def change(command: JointCommand) -> list[JointCommand]:
        tau = command.tau.copy()
        tau[axes] = value
        return [JointCommand(command.stamp_ns, tau)]

    return change


def _too_large(random: Random, robot: Robot) -> Disturbance:
    """Return a disturbance with torques far beyond the motors' limits, as of an unstable controller."""
    limits: FloatArray = robot.current_limits * robot.joint_constants
    factor = 10.0 ** random.uniform(1.0, 6.0) * random.choice((-1.0, 1.0), robot.size)
    return lambda command: [JointCommand(command.stamp_ns, factor * limits)]


def _too_few(random: Random, robot: Robot) -> Disturbance:
    count = int(random.integers(robot.size))
    return lambda command: [JointCommand(command.stamp_ns, command.tau[:count])]


def _past(random: Random, _: Robot) -> Disturbance:
    age_ns = int(10.0 ** random.uniform(-1.5, 2.0) * 1e9)
    return lambda command: [JointCommand(command.stamp_ns - age_ns, command.tau)]


def _two_publishers(random: Random, robot: Robot) -> Disturbance:
    """Return a second executor that answers the same states with other torques."""
    other: FloatArray = random.uniform(-0.2, 0.2, robot.size) * robot.current_limits * robot.joint_constants
    return lambda command: [command, JointCommand(command.stamp_ns, other)]


def _bad_commands(name: str, change: Callable[[Random, Robot], Disturbance], named: str = "command") -> FaultCase:
    return FaultCase(name, "arm stops", named, partial(_commands, change))


def _wrong_baud(random: Random, robot: Robot) -> tuple[Fault, ...]:
    """Return faults that set one or all servos to another baud rate."""
    rate = random.choice(
        [rate for rate in (57_600, 1_000_000, 2_000_000, 4_000_000) if rate != robot.file.bus.baudrate]
    )
    servo = None if random.integers(2) else int(random.choice(robot.servo_ids))
    return (OtherBaudRate(kind="baud_rate", servo=servo, baudrate=int(rate)),)


def _same_id(random: Random, robot: Robot) -> tuple[Fault, ...]:
    """Return a servo with the ID of another, or an additional servo."""
    first, other = (int(servo) for servo in random.choice(robot.servo_ids, 2, replace=False))
    return (SameId(kind="same_id", servo=None if random.integers(2) else first, of=other),)


def noticed_s(robot: Robot) -> float:
    """Return the longest time until the driver notices a change that only its slow values show [s]."""
    turns = len(ROUND) * len(robot.wired_servos) + 1
    return SLOW_POLL_S * turns * (2 if robot.followers else 1) + NOTICE_MARGIN_S


def _changed(register: Register, value: int, random: Random, robot: Robot) -> Disturbed:
    """Return a setting of one servo that changes while torque is on."""
    servo = int(random.choice(robot.servo_ids))

    def faults(at_s: float) -> tuple[Fault, ...]:
        return (OtherValue(kind="register", at_s=at_s, servo=servo, register_name=register.name, value=value),)

    seen_s = noticed_s(robot)
    return Disturbed(faults=faults, noticed_s=seen_s, window_s=seen_s + STOP_WINDOW_S)


def _not_armed(random: Random, robot: Robot) -> tuple[Fault, ...]:
    """Return a servo that misses every group write that arms its bus watchdog."""
    servo = int(random.choice(robot.servo_ids))
    return (MissedWrite(kind="missed_write", servo=servo, register_name=table.BUS_WATCHDOG.name),)


LOCKSTEP_CASES: tuple[FaultCase, ...] = (
    _brief("missing reply of one servo", "missing_reply", one=True),
    _brief("missing reply of all servos", "missing_reply"),
    _brief("wrong CRC", "wrong_crc"),
    _brief("truncated packet", "truncated"),
    _brief("garbage between packets", "garbage"),
    _brief("late reply", "late_reply"),
    _brief("reply from a wrong id", "wrong_id"),
    _brief("duplicated reply", "duplicated"),
    _lasting("missing reply of one servo", "missing_reply", one=True),
    _lasting("missing reply of all servos", "missing_reply"),
    _lasting("wrong CRC", "wrong_crc", one=True),
    FaultCase("overheating", "servo without current", "servo", partial(_alert, "overheating")),
    FaultCase("overload", "servo without current", "servo", partial(_alert, "overload")),
    FaultCase("voltage alert", "arm stops", "servo", partial(_alert, "input voltage")),
    FaultCase("servo rebooted by itself", "servo without current", "servo", _reboot),
    FaultCase("cable pulled and plugged again", "arm without current", "lost|cable", _unplug),
    _bad_commands("command topic silent", _silent),
    _bad_commands("commands NaN", partial(_one_value, float("nan"))),
    _bad_commands("commands infinite", partial(_one_value, float("inf"))),
    _bad_commands("commands too large", _too_large),
    _bad_commands("commands too few", _too_few),
    _bad_commands("commands from the past", _past),
    _bad_commands("commands from two publishers", _two_publishers, "publisher|two"),
    FaultCase("host suspended for 500 ms", "arm without current", "watchdog|suspended|stood still", _suspend),
    FaultCase("clock stepped", "motion continues", "", _clock_step),
    *(_cable_cut(reached) for reached in range(LONGEST_CHAIN)),
    FaultCase(
        "bus watchdog switched off in motion", "arm stops", "bus watchdog 0", partial(_changed, table.BUS_WATCHDOG, 0)
    ),
    FaultCase("goal PWM lowered in motion", "arm stops", "goal PWM", partial(_changed, table.GOAL_PWM, 600)),
)
START_CASES: tuple[StartCase, ...] = (
    StartCase("baud mismatch at start", "baud rate|missing servo", _wrong_baud),
    StartCase("two servos with one id", r"same id|one id|two servos|missing", _same_id),
    StartCase("bus watchdog of one servo not armed", "bus watchdog 0 instead of", _not_armed, enables=True),
)
