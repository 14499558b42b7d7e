"""Rows of the fault table about joints with several servos: what the driver must do, and drivers that do not."""

import pytest
from benchmarks.faults.follower_cases import FOLLOWER_CASES, FOLLOWER_STARTS
from benchmarks.faults.table_run import SeedJob, lockstep_outcomes, run_seed

from dynid.errors import ConfigurationError
from dynid.hardware.safety.servo_watch import ServoWatch

pytestmark = pytest.mark.slow
NAMES = tuple(case.name for case in (*FOLLOWER_CASES, *FOLLOWER_STARTS))
SLIPPED = "second servo of a joint slipped"


def test_faults_of_a_second_servo_stop_the_arm() -> None:
    found = run_seed(SeedJob("viperx_300s", 3, NAMES))
    assert {one.fault: one.violations for one in found} == dict.fromkeys(NAMES, ())


def test_driver_that_does_not_compare_the_servos_of_a_joint_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServoWatch, "disagreement", lambda *_: "")
    (found,) = run_seed(SeedJob("viperx_300s", 3, (SLIPPED,)))
    assert "the driver did not name it" in " ".join(found.violations)


def test_robots_without_second_servos_leave_these_rows_out() -> None:
    assert run_seed(SeedJob("crane_x7", 3, NAMES[-1:])) == []
    with pytest.raises(ConfigurationError, match=f"robot 'crane_x7' has no joint with several servos, so '{SLIPPED}'"):
        next(lockstep_outcomes("crane_x7", 1, (SLIPPED,)))
