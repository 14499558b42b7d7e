"""Rows of the fault table about consent and robot files: dynid passes, and each row detects a faulty driver."""

import pytest
from benchmarks.faults.driver_cases import DriverCase
from benchmarks.faults.servo_lockstep import SimulatedPort
from benchmarks.faults.table_run import SeedJob as Job
from benchmarks.faults.table_run import case_names, run_seed
from benchmarks.faults.trials import (
    TRIAL_CASES,
    _RelayedPort,
    gear,
    relay_without_consent,
    relay_without_eeprom,
    wide_limits,
)

from dynid.hardware.arm import dynamixel_arm
from dynid.model.transmission import Transmission
from dynid.robot import Robot


@pytest.mark.parametrize("case", TRIAL_CASES, ids=lambda case: case.name)
def test_driver_passes_every_row(robot: Robot, case: DriverCase) -> None:
    assert [text for seed in range(2) for text in case.check(robot, seed)] == []


def test_the_rows_are_part_of_the_table() -> None:
    names = tuple(case.name for case in TRIAL_CASES)
    assert set(names) <= set(case_names())
    outcomes = run_seed(Job("crane_x7", 0, names[:1]))
    assert [(one.fault, one.violations, one.expectation) for one in outcomes] == [(names[0], (), "start refused")]


def test_a_driver_that_takes_a_relay_for_simulated_is_found(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_RelayedPort, "simulated", SimulatedPort.simulated)
    assert relay_without_consent(robot, 0)[0] == "the driver opened it"
    found = "; ".join(relay_without_eeprom(robot, 0))
    assert "the line counts as simulated" in found and "EEPROM written: servo 2: address 9" in found


def test_a_driver_that_ignores_limits_is_found(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamixel_arm, "refuse_undrivable", lambda robot: None)
    found = [text for seed in range(6) for text in wide_limits(robot, seed)]
    assert any("may be driven with" in text for text in found)


def test_a_driver_that_ignores_the_gear_is_found(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Transmission.motor_currents
    monkeypatch.setattr(Transmission, "motor_currents", lambda self, joint_a: abs(own(self, joint_a)))
    assert any(gear(robot, seed) for seed in range(4))
