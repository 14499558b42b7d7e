"""Rows of the fault table about starts that fail: dynid passes, and each row detects a faulty driver."""

import pytest
from benchmarks.faults.driver_cases import DriverCase
from benchmarks.faults.start_trials import START_TRIALS, broken_start, other_servo
from benchmarks.faults.table_run import case_names

from dynid.hardware.startup import bring_up
from dynid.robot import Robot


@pytest.mark.parametrize("case", START_TRIALS, ids=lambda case: case.name)
def test_driver_passes_every_row(robot: Robot, case: DriverCase) -> None:
    assert case.name in case_names()
    assert [text for seed in range(6) for text in case.check(robot, seed)] == []


def test_driver_that_leaves_current_mode_is_found(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bring_up, "leave_position_mode", lambda *_: [])
    assert any("is left in mode 0" in text for seed in range(3) for text in broken_start(robot, seed))


def test_driver_that_ignores_other_servos_is_found(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bring_up, "_refuse_driven_others", lambda *_: None)
    assert [other_servo(robot, seed) for seed in range(4)] == [["the driver started"]] * 4
