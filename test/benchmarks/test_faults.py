"""The fault benchmark: its judge on arms that misbehave, and complete runs with correct and faulty drivers."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from benchmarks.cli import app
from benchmarks.faults.cases import LOCKSTEP_CASES, FaultCase, StartCase
from benchmarks.faults.driver_cases import DRIVER_CASES, DriverCase
from benchmarks.faults.judge import STANDS_S, ArmJudge, Published
from benchmarks.faults.lockstep import Disturbed
from benchmarks.faults.table import fault_document
from benchmarks.faults.table_run import (
    INCOMPLETE,
    FaultRow,
    Outcome,
    chosen_cases,
    must_go_on,
    rows,
    run_lockstep,
    start_outcome,
)
from typer.testing import CliRunner

from dynid.errors import DataError, OutputExistsError, UnknownNameError
from dynid.export.mjcf import default_stops
from dynid.hardware.arm.arming import Arming
from dynid.hardware.arm.servo_side_hold import ServoSideHold
from dynid.hardware.bus.slow_state import SlowState
from dynid.hardware.bus.state_cycle import StateCycle
from dynid.hardware.loop.diagnostics import LINE
from dynid.hardware.safety.guard import GuardResult, SafetyGuard
from dynid.hardware.safety.settings import load_safety
from dynid.robot import FloatArray, Robot
from dynid.simulation.faults.script import FaultScript, LineFault
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.servo.trace import ArmTrace

FAULT_S = 1.0


@pytest.fixture(scope="module")
def judge(robot: Robot) -> ArmJudge:
    return ArmJudge(robot, ArmPlant(robot).compiled.model)


def trace(robot: Robot, speed: Callable[[FloatArray], FloatArray], axis: int = 1) -> ArmTrace:
    """An arm of which one joint moves at a speed that is a function of the time since the fault [s]."""
    time_s = np.arange(0.0, 2.3, 0.001)
    dq, current = np.zeros((len(time_s), robot.size)), np.full((len(time_s), robot.size), 0.1)
    dq[:, axis] = speed(time_s - FAULT_S)
    q = robot.rest_posture + np.cumsum(dq, axis=0) * 0.001
    return ArmTrace(time_s, q, dq, current)


def changed(original: ArmTrace, **arrays: Any) -> ArmTrace:
    kept = {name: getattr(original, name) for name in ("time_s", "q", "dq", "current_a")}
    return ArmTrace(**(kept | arrays))


def braked(t: FloatArray) -> FloatArray:
    return np.where(t < 0.02, 1.0, np.exp(-(t - 0.02) / 0.05))


# -- the judge -------------------------------------------------------------------------------------------------


def test_an_arm_that_stops_in_time_has_no_violation(robot: Robot, judge: ArmJudge) -> None:
    good = trace(robot, braked)
    assert not judge.late_damping(good, FAULT_S) + judge.unstopped(good, FAULT_S) + judge.contact(good)
    assert not judge.excess_current(good)
    assert judge.stop_s(good, FAULT_S) == pytest.approx(0.02 + 0.05 * np.log(1 / 0.05), abs=0.002)


def test_an_arm_that_is_braked_late_is_found(robot: Robot, judge: ArmJudge) -> None:
    late = trace(robot, lambda t: np.where(t < 0.06, 1.0 + 4.0 * t, 1.24 * np.exp(-(t - 0.06) / 0.05)))
    (text,) = judge.late_damping(late, FAULT_S)
    assert "until 60 ms" in text and not judge.unstopped(late, FAULT_S)


@pytest.mark.parametrize("speed", [lambda t: np.full_like(t, 0.06), lambda t: np.where(t < 1.1, 0.0, 0.2)])
def test_an_arm_that_moves_too_late_is_found(robot: Robot, judge: ArmJudge, speed: Any) -> None:
    (text,) = judge.unstopped(trace(robot, speed), FAULT_S)
    assert robot.joint_names[1] in text
    assert not judge.unstopped(trace(robot, speed), FAULT_S, free=(1,))


def test_a_joint_that_is_only_pushed_by_another_is_held(robot: Robot, judge: ArmJudge) -> None:
    for speed, found in ((0.15, 0), (0.21, 1)):
        assert len(judge.unstopped(trace(robot, lambda t, v=speed: np.full_like(t, v)), FAULT_S, free=(3,))) == found


@pytest.mark.parametrize(("fall", "pushed_rad_s", "found"), [(4.0, 0.3, 0), (2.0, 0.3, 1), (8.0, 0.4, 1)])
def test_a_fast_fall_may_push_a_held_joint_at_a_tenth_of_its_velocity(
    robot: Robot, judge: ArmJudge, fall: float, pushed_rad_s: float, found: int
) -> None:
    pushed = trace(robot, lambda t: np.full_like(t, pushed_rad_s), axis=3)
    dq = pushed.dq.copy()
    dq[:, 1] = fall
    assert len(judge.unstopped(changed(pushed, dq=dq), FAULT_S, free=(1,))) == found
    assert (judge.stop_s(changed(pushed, dq=dq), FAULT_S, free=(1,)) > 1.0) == bool(found)


def test_touching_a_stop_is_found(robot: Robot, judge: ArmJudge) -> None:
    good = trace(robot, braked)
    q = good.q.copy()
    q[5, 3] = default_stops(robot)[0][3]
    assert judge.contact(changed(good, q=q)) == [f"{robot.joint_names[3]} touched its stop"]


def test_a_joint_that_drops_onto_its_stop_excuses_the_others_from_then_on(robot: Robot, judge: ArmJudge) -> None:
    good = trace(robot, braked)
    q = good.q.copy()
    q[1500:, 3] = default_stops(robot)[0][3]
    dropped = changed(good, q=q)
    assert judge.until_contact(dropped, (3,)).time_s[-1] == good.time_s[1499]
    assert judge.until_contact(dropped, (2,)) is dropped and judge.until_contact(dropped, ()) is dropped


def test_current_beyond_the_limit_is_found(robot: Robot, judge: ArmJudge) -> None:
    good = trace(robot, braked)
    for excess, found in ((0.0, 0), (0.0027, 1), (float("nan"), 1)):
        current = good.current_a.copy()
        current[7, 2] = -robot.current_limits[2] - excess
        assert len(judge.excess_current(changed(good, current_a=current))) == found


def test_current_that_stays_is_found(robot: Robot, judge: ArmJudge) -> None:
    good = trace(robot, braked)
    current = good.current_a.copy()
    current[good.time_s > FAULT_S + 0.119] = 0.0
    off = changed(good, current_a=current)
    assert not judge.current_left(off, FAULT_S, 0.1, range(robot.size))
    assert judge.current_off_s(off, FAULT_S, range(robot.size)) == pytest.approx(0.119, abs=0.001)
    assert len(judge.current_left(off, FAULT_S, 0.08, (2, 3))) == 2
    current = off.current_a.copy()
    current[-1, 2] = 0.01
    assert len(judge.current_left(changed(good, current_a=current), FAULT_S, 0.1, (2, 3))) == 1


def test_leaving_the_undisturbed_motion_is_found(robot: Robot, judge: ArmJudge) -> None:
    still, moved = trace(robot, braked), trace(robot, lambda t: braked(t) + 0.2 * (t > 0.0))
    assert not judge.disturbed(still, still, FAULT_S + 0.3)
    assert not judge.disturbed(moved, still, FAULT_S + 0.05)
    assert len(judge.disturbed(moved, still, FAULT_S + 0.3)) == 1


@pytest.mark.parametrize(("age_s", "found"), [(0.0, 0), (0.0025, 0), (0.010, 1)])
def test_old_and_wrong_published_states_are_found(robot: Robot, judge: ArmJudge, age_s: float, found: int) -> None:
    moving = trace(robot, lambda t: np.full_like(t, 1.5))
    rows = [200, 400]
    q = np.array([moving.q[rows[0]], moving.q[rows[1] - round(1000 * age_s)]])
    assert len(judge.garbage(moving, Published(moving.time_s[rows], q))) == found
    q[0, 4] = -3.14  # what a zero in the position register is
    assert len(judge.garbage(moving, Published(moving.time_s[rows], q))) == 1


# -- whole runs ------------------------------------------------------------------------------------------------


class DeafToAge(SafetyGuard):
    """A bad guard: follows the last command however old it is."""

    def filter(self, command_tau: Any, command_age_s: float, *others: Any, **named: Any) -> GuardResult:
        return super().filter(command_tau, 0.0, *others, **named)


class Slow(SafetyGuard):
    """A bad guard: notices the end of the commands a tenth of a second late."""

    def filter(self, command_tau: Any, command_age_s: float, *others: Any, **named: Any) -> GuardResult:
        return super().filter(command_tau, command_age_s - 0.1, *others, **named)


class Jumpy(SafetyGuard):
    """A bad guard: every incomplete reading is a fault."""

    def filter(self, *values: Any, **named: Any) -> GuardResult:
        if not values[4].all() and self.torque_needed:
            self.fault("a servo did not answer")
        return super().filter(*values, **named)


def lockstep(robot: Robot, names: list[str], seed: int, make_guard: Any = SafetyGuard) -> list[Outcome]:
    cases = [case for case in chosen_cases(names) if isinstance(case, FaultCase)]
    return run_lockstep(robot, cases, seed, make_guard)


@pytest.mark.slow
def test_the_driver_passes_harmless_faults(robot: Robot) -> None:
    names = ["missing reply of one servo", "command topic silent", "voltage alert"]
    found = lockstep(robot, names, seed=0)
    assert [(one.fault, one.violations) for one in found] == [(name, ()) for name in names]
    assert found[0].stop_ms == 0.0 < found[1].stop_ms < 1000.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make_guard", "words"),
    [
        ("command topic silent", DeafToAge, "moved at|gained speed|touched"),
        ("command topic silent", Slow, "gained speed"),
        ("missing reply of one servo", Jumpy, "no longer followed: a servo did not answer"),
    ],
)
def test_faulty_guards_are_detected(robot: Robot, name: str, make_guard: Any, words: str) -> None:
    found = lockstep(robot, [name], 1, make_guard)
    texts = " ".join(text for one in found for text in one.violations)
    assert np.any([word in texts for word in words.split("|")]), texts
    assert rows(found)[0].violations >= 1


@pytest.mark.slow
def test_a_driver_that_blames_every_silent_servo_is_found(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    """One servo that is silent silences all behind it: who blames them, too, brakes none of them."""
    name, seeds = "missing reply of one servo, for good", (9, 11)
    assert [one.violations for seed in seeds for one in lockstep(robot, [name], seed)] == [(), ()]

    class GivesUp(SafetyGuard):
        def fault(self, text: str) -> None:
            super().fault(text)
            if text.count("servo ") > 1:  # "nobody answers: torque off"
                self.abandon_stop()

    def blame_all(cycle: StateCycle, *_: object) -> None:
        cycle._leave_out(cycle._asked & ~cycle._answered())

    monkeypatch.setattr(StateCycle, "_read_without_silent", blame_all)
    monkeypatch.setattr(StateCycle, "_retry_one", lambda cycle, port: None)
    texts = " ".join(
        text for seed in seeds for one in lockstep(robot, [name], seed, GivesUp) for text in one.violations
    )
    assert "gained speed" in texts or "moved at" in texts, texts


@pytest.mark.slow
def test_a_driver_that_waits_for_good_replies_of_a_servo_that_sends_none_is_found(
    robot: Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In cycles of 9 ms the brake drives joints that are nearly coaxial: seed 11, 240 mJ after a third of a second."""

    def damaged(*_: object) -> Disturbed:
        line = LineFault(kind="wrong_crc", at_s=0.0, servo=9, for_s=60.0)
        return Disturbed(faults=lambda at_s: (line.model_copy(update={"at_s": at_s}),), axes=(7,))

    case = FaultCase("wrong CRC, for good", "other joints stop", "servo 9", damaged)
    (mended,) = run_lockstep(robot, [case], 11)
    assert mended.violations == () and mended.stop_ms < 150.0
    monkeypatch.setattr(StateCycle, "_ends_damaged", lambda *_: False)
    monkeypatch.setattr(StateCycle, "_all_arrived", lambda *_: False)
    (waiting,) = run_lockstep(robot, [case], 11)
    assert "gained speed" in " ".join(waiting.violations)


@pytest.mark.slow
def test_silent_servos_hold_the_arm_themselves(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held by currents that nobody can correct, the arm of this seed had more energy than one that falls freely."""
    name = "missing reply of all servos, for good"
    (held,) = lockstep(robot, [name], 12)
    assert held.violations == () and 0.0 < held.stop_ms < 1e3 * STANDS_S
    monkeypatch.setattr(ServoSideHold, "begin", lambda *_: None)
    (driven,) = lockstep(robot, [name], 12)
    assert "in free fall" in " ".join(driven.violations)


@pytest.mark.slow
def test_the_blind_brake_does_not_drive_joints_the_other_way(robot: Robot) -> None:
    """A brake of unread joints lasts for long cycles: assumed for 0.1 s, it drives joint 3 of this seed backwards."""
    name = "missing reply of all servos, for good"
    (short,) = lockstep(robot, [name], 52)
    assert short.violations == ()
    settings = load_safety(robot).model_copy(update={"blind_alone_s": 0.1})
    (longer,) = lockstep(robot, [name], 52, lambda robot: SafetyGuard(robot, settings))
    assert "the limit is" in " ".join(longer.violations)


CUTS = [case.name for case in LOCKSTEP_CASES if "cable cut" in case.name]


@pytest.mark.slow
def test_a_forearm_that_drops_from_a_held_shoulder_is_compared_with_its_own_fall(
    robot: Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can have more energy than in the fall of the whole arm, which hits a stop on its way."""

    (cut,) = chosen_cases(["cable cut behind servo number 3"])
    assert isinstance(cut, FaultCase)
    fixed = FaultCase(cut.name, cut.expectation, cut.named, lambda *_: cut.make(np.random.default_rng([68, 28]), robot))
    judged = ArmJudge.worse_than_free_fall

    def seen(judge: ArmJudge, trace: ArmTrace, falls: Sequence[ArmTrace], fault_s: float) -> list[str]:
        runs = [one.between(fault_s, np.inf) for one in (trace, *falls)]
        moved = [np.abs(one.q - one.q[0]).max(axis=0) for one in runs]
        told = [f"{one[1] > 0.1} {one[3] > 0.5}" for one in moved]  # the shoulder; the elbow, behind the cut
        return told + judged(judge, trace, falls, fault_s)

    monkeypatch.setattr(ArmJudge, "worse_than_free_fall", seen)  # in a copy of this process, so it must answer in words
    (outcome,) = run_lockstep(robot, [fixed], 68)
    # ours, the whole arm, the forearm alone; and no violation beside
    assert outcome.violations == ("False True", "True True", "False True")


@pytest.mark.slow
def test_the_arm_stops_wherever_its_cable_is_cut(robot: Robot) -> None:
    found = lockstep(robot, CUTS, seed=1)
    assert [(one.fault, one.violations) for one in found] == [(name, ()) for name in CUTS]
    reached = [one for one in found if one.expectation == "reached joints stop"]  # nothing stops the others on the wire
    # a forearm that falls into its stop pushes on the shoulder that stood until then
    assert len(reached) == robot.size - 1 and max(one.stop_ms for one in reached) < 500.0


@pytest.mark.slow
def test_driver_that_retries_every_cut_off_servo_is_detected(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile the servos that are reached drive on: with 2 A for 0.1 s, seed 1 saw."""

    def search(cycle: StateCycle, port: Any, *_: object) -> None:
        asked = others = cycle._asked
        while (silent := np.flatnonzero(others & ~cycle._answered())).size > 1:
            others = others.copy()
            others[silent[0]] = False
            cycle._ask(others)
            cycle._wait_out_quarantine()
            cycle._exchange(port, False)
        cycle._ask(asked)

    monkeypatch.setattr(StateCycle, "_read_without_silent", search)
    (one,) = lockstep(robot, ["cable cut behind servo number 2"], 1)
    assert "gained speed" in " ".join(one.violations)


def named(name: str, kind: Any) -> Any:
    (case,) = chosen_cases([name])
    assert isinstance(case, kind)
    return case


@pytest.mark.parametrize("case", DRIVER_CASES, ids=[case.name for case in DRIVER_CASES])
def test_driver_cases_without_a_motion_pass(robot: Robot, case: DriverCase) -> None:
    assert case.check(robot, 3) == []


def test_driver_that_ignores_old_slow_data_is_detected(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SlowState, "age_s", lambda slow, _: np.zeros(len(slow.voltage_v)))
    text = "; ".join(named("temperature never read", DriverCase).check(robot, 3))
    assert "was not lowered within" in text and "no fault at" in text and "did not name it" in text
    assert "not refused by name" in named("temperature never read, torque off", DriverCase).check(robot, 3)[0]


def test_driver_that_loses_the_load_record_is_detected(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SafetyGuard, "restore_load", lambda guard, load: None)
    found = named("driver stopped or restarted near overload", DriverCase).check(robot, 3)
    assert [text.split(" the load")[0] for text in found] == ["after deactivate", "after a restart"]


def test_driver_without_read_back_is_detected(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    case = named("bus watchdog of one servo not armed", StartCase)
    assert start_outcome(robot, case, 0).violations == ()
    monkeypatch.setattr(Arming, "_read_back", lambda arming: [])
    assert "started anyway" in start_outcome(robot, case, 0).violations[0]


@pytest.mark.slow
def test_settings_that_change_in_motion_stop_the_arm(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["bus watchdog switched off in motion", "goal PWM lowered in motion"]
    assert [(one.fault, one.violations) for one in lockstep(robot, names, 1)] == [(name, ()) for name in names]
    monkeypatch.setattr(SlowState, "different", lambda slow: np.zeros(slow.armed.shape, dtype=np.bool_))
    assert all("did not name it" in " ".join(one.violations) for one in lockstep(robot, names, 1))


def test_more_energy_than_in_free_fall_is_found(robot: Robot, judge: ArmJudge) -> None:
    falling = trace(robot, lambda t: np.clip(t, 0.0, 1.0))
    for most, found in ((0.9, 0), (1.0, 0), (1.2, 1)):
        driven = trace(robot, lambda t, v=most: v * np.clip(t, 0.0, 1.0))
        assert len(judge.worse_than_free_fall(driven, [falling], FAULT_S)) == found
    dropping = trace(robot, lambda t: 4.0 * np.clip(t, 0.0, 1.0))
    for most, found in ((0.2, 0), (0.4, 1)):  # of what drops, 0.5 % may push the joints that are held
        pushed = trace(robot, lambda t, v=most: v * np.clip(t, 0.0, 1.0))
        assert len(judge.late_damping(pushed, FAULT_S, (), dropping)) == found
        assert len(judge.late_damping(pushed, FAULT_S)) == 1
    swinging = trace(robot, lambda t: 1.3 * np.clip(t, 0.0, 1.0))  # what is not reached, alone
    for most, found in ((1.3, 0), (1.5, 1)):
        driven = trace(robot, lambda t, v=most: v * np.clip(t, 0.0, 1.0))
        assert len(judge.worse_than_free_fall(driven, [falling, swinging], FAULT_S)) == found
    brief = trace(robot, lambda t: np.where((t > 0.0) & (t < 0.2), 2.0, 0.0))
    assert not judge.worse_than_free_fall(brief, [falling], FAULT_S)  # it stands


def test_failed_run_is_reported(robot: Robot) -> None:
    def broken(_: Robot) -> SafetyGuard:
        class Broken(SafetyGuard):
            def check_posture(self, q: FloatArray) -> None:
                raise RuntimeError("broken on purpose")

        return Broken(robot)

    with pytest.raises(DataError, match="broken on purpose"):
        lockstep(robot, ["command topic silent"], 0, broken)


def test_a_start_that_is_not_refused_by_its_cause_is_a_violation(robot: Robot) -> None:
    good = StartCase("fine", "anything", lambda random, robot: ())
    assert "started anyway" in start_outcome(robot, good, 0).violations[0]
    (wrong,) = chosen_cases(["baud mismatch at start"])
    assert isinstance(wrong, StartCase)
    assert start_outcome(robot, wrong, 0).violations == ()
    unnamed = StartCase("unnamed", "no such words", wrong.make)
    assert "did not name it" in start_outcome(robot, unnamed, 0).violations[0]


def test_rows_count_runs_violations_and_the_longest_stop() -> None:
    outcomes = [Outcome("a", 0, (), 12.3), Outcome("b", 0, (), 0.0), Outcome("a", 1, ("bad", "worse"), 45.67)]
    first, second = rows(outcomes)
    assert first.as_dict() == {"fault": "a", "runs": 2, "violations": 1, "worst_stop_ms": 45.7}
    assert first.findings == ("seed 1: bad; worse",) and second.violations == 0


def test_an_unknown_fault_is_named() -> None:
    with pytest.raises(UnknownNameError, match="no such fault"):
        chosen_cases(["no such fault"])


# -- the command -----------------------------------------------------------------------------------------------


def test_the_command_prints_writes_and_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = [Outcome("clock stepped", 0, (), 0.0, "motion continues"), Outcome("overload", 0, ("bad",), 12.0, "off")]

    def few(robot: str, runs: int, names: tuple[str, ...], seed: int, cores: int | None) -> list[list[Outcome]]:
        return [[one for one in outcomes if one.fault in names] for _ in range(runs)]

    monkeypatch.setattr("benchmarks.faults.table_run.lockstep_outcomes", few)
    call = ["benchmark", "faults", "--quick", "--json", "--fault", "clock stepped"]
    good = CliRunner().invoke(app, call)
    assert good.exit_code == 0
    row = {"schema_version": 1, "fault": "clock stepped", "runs": 3, "violations": 0, "worst_stop_ms": 0.0}
    assert json.loads(good.stdout) == [row | {"findings": []}]
    out = tmp_path / "faults.md"
    bad = CliRunner().invoke(app, [*call, "--fault", "overload", "--out", str(out)])
    assert bad.exit_code == 1 and json.loads(bad.stdout)[1]["violations"] == 3
    assert json.loads(bad.stdout)[1]["findings"][0] == "seed 0: bad"
    text = out.read_text()
    assert "| overload | off | 3 | 3 | 12 |" in text and "- overload, seed 0: bad" in text and "6 runs" in text
    assert isinstance(CliRunner().invoke(app, [*call, "--out", str(out)]).exception, OutputExistsError)
    assert isinstance(CliRunner().invoke(app, [*call, "--fault", "boredom"]).exception, UnknownNameError)


def test_the_fault_script_in_the_document_is_valid() -> None:
    text = fault_document([FaultRow("overload", 1, 0, 1.0)], [], [], "one", 1.0)
    script = FaultScript.model_validate(yaml.safe_load(text.split("```yaml\n")[1].split("```")[0]))
    assert len(script.faults) == 10 and script.random is not None


@pytest.mark.parametrize(
    ("named", "incomplete", "stale", "accepted"),
    [
        ("counted if felt", 0, 0, True),  # the driver waited long enough
        ("counted if felt", 1, 0, False),
        ("counted if felt", 1, 1, True),
        ("counted", 0, 0, False),
    ],
)
def test_fault_that_cost_a_reading_must_be_counted(named: str, incomplete: int, stale: int, accepted: bool) -> None:
    judge = SimpleNamespace(disturbed=lambda *_: [])
    before, after = ({INCOMPLETE: i, f"{LINE}: stale": s} for i, s in ((0, 0), (incomplete, stale)))
    run = SimpleNamespace(trace=None, fault_s=0.0, following=True, before=before, after=after, text="")
    case = FaultCase("late", "motion continues", named, lambda *_: Disturbed())
    assert (must_go_on(judge, case, run, None) == []) is accepted  # type: ignore[arg-type]
