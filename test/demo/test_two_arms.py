"""`dynid demo --two-arms` as its command runs it, and runs that its checks reject."""

from dataclasses import replace
from pathlib import Path

import pytest

from dynid.demo import two_arms as demo
from dynid.recording.driver_recording import load_driver_recording
from dynid.robot import Robot
from dynid.simulation.lockstep.arm_pair import PairRun


@pytest.mark.slow
def test_the_two_arm_demo_is_accepted_and_its_checks_can_fail(
    tmp_path: Path, robot: Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks, runs = demo._checks, []

    def kept(run: PairRun, robot: Robot) -> list[demo.Check]:
        runs.append(run)
        return checks(run, robot)

    monkeypatch.setattr(demo, "_checks", kept)
    verdict = demo.run_two_arms(robot, tmp_path / "pair")
    assert verdict.accepted, verdict.as_dict()
    for side in demo.SIDES:
        recording = load_driver_recording(tmp_path / "pair" / "bags" / side, robot)
        assert recording.hardware.simulated and recording.time[-1] > demo.ALL_S - 0.1
    report = (tmp_path / "pair" / "report.html").read_text(encoding="utf-8")
    assert report.count("<svg") == 3 and "passed" in report and "FAILED" not in report
    (run,) = runs
    weak = replace(run, force=run.force * [[[0.7]], [[1.0]]])  # the hand feels three tenths less than it did
    failed = [one.id for one in checks(weak, robot) if not one.passed]
    assert failed == ["two_arms_force_error"]
    assert "two_arms_stopped" in [one.id for one in checks(replace(run, stopped="a joint"), robot) if not one.passed]
