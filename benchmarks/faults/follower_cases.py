"""Faults of a joint's second servo: a shadow that obeys the first one by its secondary ID, or a paired servo.

Only robots that have such a servo run them. The driver commands the joint by its first servo, whose position it reads
in every cycle; a shadow's values are read one block at a time. A servo without current leaves its joint half of the
torque, which may not hold the arm, so that only the other joints must stop.
"""

from functools import partial

import numpy as np

from benchmarks.faults.cases import LASTING_S, FaultCase, StartCase, noticed_s
from benchmarks.faults.lockstep import STOP_WINDOW_S, Disturbed
from dynid.hardware.bus import control_table as table
from dynid.robot import Robot
from dynid.robot.servo_fields import WiredServo
from dynid.simulation.faults.script import Fault, LineFault, OtherValue, ServoError, ServoReboot

Random = np.random.Generator
SILENCE_S = 1.0  # time without a reply after which the driver names a servo [s]
HOT_DEG_C = 95  # beyond the limit of every servo
SLIPPED_COUNTS = (80, 600)  # 7 to 53 deg, in either direction


def _second(random: Random, robot: Robot) -> WiredServo:
    return robot.followers[int(random.integers(len(robot.followers)))]


def _disturbed(fault: Fault, axis: int, seen_s: float) -> Disturbed:
    """Return a disturbance by a fault of a joint's second servo that the driver notices by its slow values."""
    return Disturbed(
        faults=lambda at_s: (fault.model_copy(update={"at_s": at_s}),),
        halved=(axis,),
        noticed_s=seen_s,
        window_s=seen_s + STOP_WINDOW_S,
    )


def _silent(random: Random, robot: Robot) -> Disturbed:
    """Return a second servo that obeys and does not answer."""
    servo = _second(random, robot)
    return _disturbed(
        LineFault(kind="missing_reply", servo=servo.servo_id, for_s=LASTING_S), servo.axis, SILENCE_S + noticed_s(robot)
    )


def _unplugged(random: Random, robot: Robot) -> Disturbed:
    """Return a second servo that has lost its plug, and its power with it."""
    servo = _second(random, robot)
    return _disturbed(
        ServoReboot(kind="reboot", servo=servo.servo_id, absent_s=LASTING_S), servo.axis, SILENCE_S + noticed_s(robot)
    )


def _shut_down(random: Random, robot: Robot) -> Disturbed:
    servo = _second(random, robot)
    return _disturbed(
        ServoError(kind="hardware_error", servo=servo.servo_id, error="overload"), servo.axis, noticed_s(robot)
    )


def _hot(random: Random, robot: Robot) -> Disturbed:
    servo = _second(random, robot)
    register = table.PRESENT_TEMPERATURE.name
    hot = OtherValue(kind="register", servo=servo.servo_id, register_name=register, value=HOT_DEG_C)
    return _disturbed(hot, servo.axis, noticed_s(robot))


def _slipped(random: Random, robot: Robot) -> Disturbed:
    """Return a second servo whose horn has slipped, so that both servos disagree about the joint's angle."""
    servo = _second(random, robot)
    counts = int(random.integers(*SLIPPED_COUNTS)) * int(random.choice((-1, 1)))
    register = table.HOMING_OFFSET.name
    slipped = OtherValue(kind="register", servo=servo.servo_id, register_name=register, value=counts)
    return _disturbed(slipped, servo.axis, noticed_s(robot))


def _reversed(random: Random, robot: Robot) -> tuple[Fault, ...]:
    """Return a second servo that would pull against the first one."""
    servo = _second(random, robot)
    wrong = 0 if servo.reverse_mode else 1
    return (OtherValue(kind="register", servo=servo.servo_id, register_name=table.DRIVE_MODE.name, value=wrong),)


_case = partial(FaultCase, followers_only=True)
FOLLOWER_CASES: tuple[FaultCase, ...] = (
    _case("second servo of a joint silent", "arm stops", "no reply|does not answer", _silent),
    _case("second servo of a joint unplugged", "other joints stop", "no reply|does not answer", _unplugged),
    _case("second servo of a joint shut down", "other joints stop", "hardware error", _shut_down),
    _case("second servo of a joint hot", "arm stops", "deg C", _hot),
    _case("second servo of a joint slipped", "arm stops", "of the same joint", _slipped),
)
FOLLOWER_STARTS: tuple[StartCase, ...] = (
    StartCase(
        "second servo of a joint wired the wrong way round", "pull against each other", _reversed, followers_only=True
    ),
)
