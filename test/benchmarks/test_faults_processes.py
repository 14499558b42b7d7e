"""Faults of processes: the judge on arms that misbehave, missing diagnostics and damaged bags."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.faults import processes as faults_processes
from benchmarks.faults.judge import ArmJudge
from benchmarks.faults.processes import (
    CLOCK_STEPPED,
    EXECUTOR_KILLED,
    HARDWARE_KILLED,
    UNPLUGGED,
    ProcessCase,
    ProcessRun,
    bag_findings,
    process_outcome,
)
from benchmarks.faults.table_run import Outcome

from dynid.errors import NodeError
from dynid.recording.completeness import Completeness
from dynid.robot import Robot
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.servo.trace import ArmTrace

FAULT_S, END_S = 100.0, 101.5


@pytest.fixture(scope="module")
def judge(robot: Robot) -> ArmJudge:
    return ArmJudge(robot, ArmPlant(robot).compiled.model)


@pytest.fixture(autouse=True)
def whole_bag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults_processes, "completeness", lambda _: Completeness(1000, 1000, 2))


def run(robot: Robot, text: str = "", *, stop_s: float = 0.2, current_s: float = 9.0, moves: float = 1.0) -> ProcessRun:
    """One joint moves until `stop_s` after the fault, and current flows until `current_s` after it."""
    time_s = np.arange(99.0, 103.0, 0.001)
    dq, current = np.zeros((len(time_s), robot.size)), np.zeros((len(time_s), robot.size))
    dq[:, 0] = np.where(time_s < FAULT_S + 0.02, moves, moves * np.exp(-8.0 * (time_s - FAULT_S - 0.02) / stop_s))
    dq[time_s > FAULT_S + stop_s, 0] = 0.0
    current[time_s < FAULT_S + current_s] = 0.2
    q = robot.rest_posture + np.cumsum(dq, axis=0) * 0.001
    return ProcessRun(ArmTrace(time_s, q, dq, current), FAULT_S, END_S, text, Path("bag"), True, "")


def test_correct_arms_pass_the_judge(robot: Robot, judge: ArmJudge) -> None:
    stopped = process_outcome(judge, EXECUTOR_KILLED, run(robot, "no usable command for 1.0 s"), 3)
    assert (stopped.violations, stopped.seed, stopped.expectation) == ((), 3, "arm stops")
    assert 50.0 < stopped.stop_ms < 200.0
    dropped = process_outcome(judge, HARDWARE_KILLED, run(robot, "no joint_states for 2 s", current_s=0.11), 0)
    assert dropped.violations == () and dropped.stop_ms == pytest.approx(110.0, abs=1.5)
    assert process_outcome(judge, CLOCK_STEPPED, run(robot, stop_s=3.0), 0).violations == ()


def test_violations_after_killed_processes_are_reported(robot: Robot, judge: ArmJudge) -> None:
    (late,) = process_outcome(judge, HARDWARE_KILLED, run(robot, "joint_states", current_s=0.13), 0).violations[:1]
    assert "still carried 0.200 A" in late
    (moving,) = process_outcome(judge, EXECUTOR_KILLED, run(robot, "command", stop_s=9.0), 0).violations
    assert robot.joint_names[0] in moving
    (unnamed,) = process_outcome(judge, EXECUTOR_KILLED, run(robot, "all is well"), 0).violations
    assert "hardware did not name it in its diagnostics, which read: all is well" in unnamed
    (gone,) = process_outcome(
        judge, UNPLUGGED, replace(run(robot, "port lost", current_s=0.1), reopened="busy"), 0
    ).violations
    assert "the port did not come back: busy" in gone
    (still,) = process_outcome(judge, CLOCK_STEPPED, run(robot, moves=0.01), 0).violations
    (given_up,) = process_outcome(judge, CLOCK_STEPPED, replace(run(robot, stop_s=3.0), commanding=False), 0).violations
    assert "did not continue" in still and "did not continue" in given_up


def test_events_after_the_watched_time_are_ignored(robot: Robot, judge: ArmJudge) -> None:
    watched = run(robot, "command")
    dq = watched.trace.dq.copy()
    dq[watched.trace.time_s > END_S + 0.1] = 1.0  # the arm is let down at the end
    later = replace(watched, trace=replace(watched.trace, dq=dq))
    assert process_outcome(judge, EXECUTOR_KILLED, later, 0).violations == ()


def test_a_simulated_arm_that_stood_still_is_noticed(robot: Robot) -> None:
    good = run(robot)
    assert good.longest_standstill_s == pytest.approx(0.001)
    kept = (good.trace.time_s < 100.4) | (good.trace.time_s > 100.46)
    gap = ArmTrace(good.trace.time_s[kept], good.trace.q[kept], good.trace.dq[kept], good.trace.current_a[kept])
    assert replace(good, trace=gap).longest_standstill_s == pytest.approx(0.061, abs=0.002)
    assert replace(good, injection_s=0.05).longest_standstill_s == 0.05


def test_a_run_that_fails_is_a_violation_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    fault_chain = pytest.importorskip("benchmarks.chain.fault_chain")

    def second_fails(robot: Robot, name: str, case: ProcessCase, seed: int, judge: ArmJudge) -> Outcome:
        if seed == 1:
            raise NodeError("the chain did not come up")
        return Outcome(case.name, seed, (), 0.0)

    monkeypatch.setattr(fault_chain, "_undisturbed", second_fails)
    found = list(fault_chain.process_outcomes("crane_x7", 3, ("executor killed",)))
    failed = ("the run failed: the chain did not come up",)
    assert [(one.seed, one.violations) for one in found] == [(0, ()), (1, failed), (2, ())]


def test_bags_that_lost_states_or_cannot_be_read_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert bag_findings(tmp_path) == []
    monkeypatch.setattr(faults_processes, "completeness", lambda _: Completeness(990, 1000, 2))
    assert bag_findings(tmp_path) == ["10 published states are missing in the bag"]
    monkeypatch.undo()
    (text,) = bag_findings(tmp_path / "no such bag")
    assert text.startswith("the bag cannot be read: ")
