"""Findings from samples and slow data, without a bus."""

import numpy as np
import pytest

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus.slow_state import ARMED, UNKNOWN, SlowState
from dynid.hardware.safety.servo_watch import MIN_INCOMPLETE_READS, SUSPICIOUS_CYCLES, ServoWatch
from dynid.robot import Robot

MS = 1_000_000
ALL = np.ones(8, dtype=np.bool_)


def only(axis: int) -> np.ndarray:
    mask = np.zeros(8, dtype=np.bool_)
    mask[axis] = True
    return mask


@pytest.fixture
def watch(robot: Robot) -> ServoWatch:
    return ServoWatch(robot, 0.05, 78.0, 10.0)


@pytest.fixture
def slow() -> SlowState:
    return SlowState.of(8)


def test_silence_is_a_fault_after_its_time_and_some_reads(watch: ServoWatch, robot: Robot) -> None:
    for k in range(60):
        watch.note(~only(4), (k + 1) * MS)
        assert (watch.silence((k + 1) * MS) != "") == (k > 50)
    servo = f"servo 6 ({robot.joint_names[4]})"
    assert watch.silence(61 * MS) == f"no reply for 0.05 s from {servo}"
    watch.note(~ALL, 61 * MS)  # one read that brought nobody: the others answered only just now
    assert watch.silence(62 * MS) == f"no reply for 0.05 s from {servo}"
    watch.note(ALL, 62 * MS)
    assert watch.missing_s(63 * MS) == 0.0 and not watch.silence(900 * MS)


def test_servos_silent_in_turn_and_a_silent_line_are_named(watch: ServoWatch) -> None:
    watch.note(ALL, MS)
    for k in range(60):
        watch.note(~only(k % 8), (k + 2) * MS)
    assert "no complete reading of all servos for 0.05 s; the last ones missed servo 5" in watch.silence(62 * MS)
    for k in range(60):
        watch.note(~ALL, (k + 63) * MS)
    assert "from any servo: is the cable plugged in" in watch.silence(123 * MS)


def test_a_process_that_stalled_in_one_read_blames_no_servo(watch: ServoWatch) -> None:
    for k in range(MIN_INCOMPLETE_READS):
        assert watch.silence(500 * MS) == ""
        watch.note(~only(4), (k + 1) * MS)
    assert watch.silence(500 * MS) != ""


def test_a_single_lost_reply_is_waited_for(watch: ServoWatch) -> None:
    assert not watch.may_complete(5 * MS)
    watch.note(~only(4), 10 * MS)
    assert watch.may_complete(30 * MS)


def test_reads_missed_in_a_stall_are_waited_for_for_a_limited_time(watch: ServoWatch) -> None:
    for k in range(MIN_INCOMPLETE_READS):
        if k:
            assert watch.may_complete(500 * MS)
        watch.note(~only(4), (10 + k) * MS)
    assert watch.may_complete(30 * MS) and not watch.may_complete(500 * MS)
    watch.note(ALL, 501 * MS)
    assert not watch.may_complete(502 * MS)


def test_hardware_errors_are_named_as_far_as_they_were_read(watch: ServoWatch, slow: SlowState) -> None:
    assert watch.alerts(~ALL, slow) == ""
    slow.hardware_error[1] = 0b100100
    text = watch.alerts(only(1) | only(2), slow)
    assert text.startswith("hardware error at servo 3 (") and "): overheating, overload, servo 4 (" in text


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("watchdog", -1, "bus watchdog tripped at servo 5 ("),
        ("torque_enable", 0, "torque switched off by itself at servo 5 ("),
        ("temperature_deg_c", 78.0, "78 deg C reached at servo 5 ("),
        ("hardware_error", 1, "hardware error at servo 5 ("),
    ],
)
def test_slow_data_reveal_faults(watch: ServoWatch, slow: SlowState, name: str, value: float, words: str) -> None:
    assert watch.slow_fault(slow) == ""  # what was not read yet is no fault
    slow.torque_enable[:], slow.watchdog[:], slow.hardware_error[:], slow.temperature_deg_c[:] = 1, 5, 0, 77.0
    assert watch.slow_fault(slow) == ""
    getattr(slow, name)[3] = value
    assert watch.slow_fault(slow).startswith(words)


def test_a_setting_that_changed_is_a_fault_with_both_values(watch: ServoWatch, slow: SlowState) -> None:
    slow.armed[:] = slow.wanted[:] = [0, 0, 255, 885, 1193, 5, 885]
    slow.torque_enable[:] = 1
    assert watch.slow_fault(slow) == ""
    slow.armed[1, ARMED.index(table.BUS_WATCHDOG)], slow.armed[2, ARMED.index(table.OPERATING_MODE)] = 0, 3
    text = watch.slow_fault(slow)
    assert "servo 3 (" in text and "has bus watchdog 0 instead of 5; servo 4 (" in text
    assert "has operating mode 3 instead of 0: a setting changed" in text
    slow.armed[1:3] = UNKNOWN  # not read since
    assert watch.slow_fault(slow) == ""


def test_slow_data_that_are_too_old_are_a_fault_by_name(watch: ServoWatch) -> None:
    age_s = np.full(8, 10.0)
    assert watch.overdue(age_s) == ""
    age_s[4] = 10.1
    assert "were read for 10 s from servo 6 (" in watch.overdue(age_s)


def test_a_servo_that_does_not_carry_its_current_is_suspected(watch: ServoWatch) -> None:
    goal = np.array([1.0, -1.0, 0.1, 1.0, 0.0, 1.0, 1.0, 1.0])
    idle = np.array([1.0, 0.01, 0.0, 0.9, 0.0, 1.0, 1.0, 1.0])
    found = [watch.undriven(goal, idle) for _ in range(SUSPICIOUS_CYCLES)]
    assert found[:-1] == [None] * (SUSPICIOUS_CYCLES - 1)
    assert found[-1] is not None and found[-1].tolist() == only(1).tolist()
    assert watch.undriven(goal, idle) is None  # asked once, then anew
    for _ in range(SUSPICIOUS_CYCLES - 2):
        watch.undriven(goal, idle)
    assert watch.undriven(goal, goal) is None and watch.undriven(goal, idle) is None
