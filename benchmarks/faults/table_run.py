"""The fault benchmark: every fault several times, judged by the simulated arm, with one row of a table for each."""

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from benchmarks.faults.cases import LOCKSTEP_CASES, START_CASES, FaultCase, StartCase
from benchmarks.faults.claim_case import CLAIM_CASES
from benchmarks.faults.driver_cases import DRIVER_CASES, DriverCase
from benchmarks.faults.file_cases import DISK_CASES
from benchmarks.faults.follower_cases import FOLLOWER_CASES, FOLLOWER_STARTS
from benchmarks.faults.judge import ArmJudge
from benchmarks.faults.lockstep import (
    FALL_WINDOW_S,
    MOTION_WINDOW_S,
    STOP_WINDOW_S,
    Disturbed,
    LockstepChain,
    LockstepRun,
    run_start,
)
from benchmarks.faults.motion import random_piece
from benchmarks.faults.start_trials import START_TRIALS
from benchmarks.faults.trials import TRIAL_CASES
from dynid.errors import ConfigurationError, UnknownNameError
from dynid.hardware.loop.diagnostics import LINE, LOOP
from dynid.hardware.safety.guard import SafetyGuard
from dynid.parallel import in_processes
from dynid.robot import Robot, load_robot
from dynid.simulation.faults.script import CableCut, Unplugged
from dynid.simulation.servo.trace import ArmTrace

UNDISTURBED = Disturbed(window_s=MOTION_WINDOW_S)
INCOMPLETE = f"{LOOP}: incomplete"  # name of the counter of readings that missed a servo
FREE_FALL = Disturbed(faults=lambda at_s: (Unplugged(kind="unplugged", at_s=at_s),), window_s=FALL_WINDOW_S)
WITHOUT_POWER = Disturbed(
    faults=lambda at_s: (CableCut(kind="cable_cut", at_s=at_s, powered=False),), window_s=FALL_WINDOW_S
)
# runs for comparison: no fault; the watchdogs of all servos trip; all servos lose their power at once
REFERENCES = (UNDISTURBED, FREE_FALL, WITHOUT_POWER)
MOST_FINDINGS = 3
LONGEST_FINDING = 400
CUT = "cable_cut"
OTHERS_HELD = ("other joints stop", "reached joints stop")  # requirements of faults that leave some joints held
AnyCase = FaultCase | StartCase | DriverCase
EVERY_CASE: tuple[AnyCase, ...] = (
    *LOCKSTEP_CASES,
    *START_CASES,
    *TRIAL_CASES,
    *DRIVER_CASES,
    *CLAIM_CASES,
    *DISK_CASES,
    *FOLLOWER_CASES,
    *FOLLOWER_STARTS,
    *START_TRIALS,
)


@dataclass(frozen=True)
class Outcome:
    """Outcome of one injected fault: violations (empty if there are none) and time to stop [ms]."""

    fault: str
    seed: int
    violations: tuple[str, ...]
    stop_ms: float
    expectation: str = ""


@dataclass(frozen=True)
class FaultRow:
    """Row of the table of faults.

    Attributes:
        fault: name of the fault.
        runs: number of injections.
        violations: number of runs with a violation.
        worst_stop_ms: longest time from the fault to standstill [ms], or to zero current if that is required; 0 if
            nothing has to stop.
        expectation: required outcome.
        findings: some of the violations, with the seed.
    """

    fault: str
    runs: int
    violations: int
    worst_stop_ms: float
    expectation: str = ""
    findings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return the row's figures for JSON."""
        return {name: value for name, value in asdict(self).items() if name not in ("expectation", "findings")}


def case_names() -> tuple[str, ...]:
    """Return the names of all faults that are run in lock-step."""
    return tuple(case.name for case in EVERY_CASE)


def chosen_cases(names: Sequence[str]) -> tuple[AnyCase, ...]:
    """Return the cases of these names; all without names.

    Raises:
        UnknownNameError: no such fault.
    """
    every = {case.name: case for case in EVERY_CASE}
    for name in names:
        if name not in every:
            raise UnknownNameError("fault", name, tuple(every))
    return tuple(every[name] for name in names or every)


def needs_followers(case: AnyCase) -> bool:
    """Return whether a case applies only to joints with several servos."""
    return isinstance(case, FaultCase | StartCase) and case.followers_only


@dataclass(frozen=True)
class SeedJob:
    """Job of all faults of one seed."""

    robot: str
    seed: int
    names: tuple[str, ...] = ()


def run_seed(job: SeedJob) -> list[Outcome]:
    """Inject every fault of a job once and return the outcomes."""
    robot = load_robot(job.robot)
    cases = [case for case in chosen_cases(job.names) if robot.followers or not needs_followers(case)]
    outcomes = run_lockstep(robot, [case for case in cases if isinstance(case, FaultCase)], job.seed)
    starts = [case for case in cases if isinstance(case, StartCase)]
    outcomes += [start_outcome(robot, case, job.seed) for case in starts]
    alone = [case for case in cases if isinstance(case, DriverCase)]
    return outcomes + [
        Outcome(case.name, job.seed, tuple(case.check(robot, job.seed)), 0.0, case.expectation) for case in alone
    ]


def run_lockstep(
    robot: Robot, cases: Sequence[FaultCase], seed: int, make_guard: Callable[[Robot], SafetyGuard] = SafetyGuard
) -> list[Outcome]:
    """Run one motion up to a random moment, inject each fault from there, and return the outcomes.

    With every second seed the servos do not support the fast sync read.
    """
    if not cases:
        return []
    piece = random_piece(robot, np.random.default_rng(seed))
    chain = LockstepChain(robot, piece, seed, fast_read=seed % 2 == 0, make_guard=make_guard)
    disturbed = [case.make(np.random.default_rng([seed, index]), robot) for index, case in enumerate(cases)]
    plant = chain.arm.plant
    judge = ArmJudge(robot, plant.compiled.model, plant.nuisances.backlash)
    shared: list[ArmTrace] = []
    steps: list[tuple[FaultCase | None, Disturbed]] = [(None, one) for one in REFERENCES]
    for case, one in zip(cases, disturbed, strict=True):
        steps += [(None, held_still(one, robot.size))] if case.expectation in OTHERS_HELD else []
        steps.append((case, one))

    def conclude(index: int, run: LockstepRun) -> ArmTrace | Outcome:
        case, one = steps[index]
        if case is None:
            return run.trace
        falls = [shared[2] if one.unpowered else shared[1]]
        falls += shared[-1:] if case.expectation in OTHERS_HELD else []
        return outcome(judge, case, one, seed, run, shared[0], falls)

    def learn(result: ArmTrace | Outcome) -> None:
        if isinstance(result, ArmTrace):
            shared.append(result)

    found = chain.branch([one for _, one in steps], conclude, learn)
    return [one for one in found if isinstance(one, Outcome)]


def held_still(cut: Disturbed, size: int) -> Disturbed:
    """Return a disturbance for comparison: joints that the driver cannot hold fall, and the others are fixed."""
    fall = WITHOUT_POWER if cut.unpowered else FREE_FALL
    reached = tuple(axis for axis in range(size) if axis not in cut.not_held)
    return replace(fall, locked=reached, window_s=cut.window_s)


def outcome(
    judge: ArmJudge,
    case: FaultCase,
    disturbed: Disturbed,
    seed: int,
    run: LockstepRun,
    undisturbed: ArmTrace,
    falls: Sequence[ArmTrace],
) -> Outcome:
    """Judge one run by the arm's motion and by the driver's message about the fault.

    `undisturbed` is the arm's motion without the fault. `falls` are free falls of the whole arm, and of the joints that
    the driver does not reach or read.
    """
    trace, fault_s = run.trace, run.fault_s
    found = judge.excess_current(trace) + judge.garbage(trace, run.published)
    stop_s = 0.0
    every = tuple(range(judge.robot.size))
    match case.expectation:
        case "motion continues":
            found += must_go_on(judge, case, run, undisturbed)
        case "arm stops" | "other joints stop" | "reached joints stop":
            free = disturbed.not_held if case.expectation != "arm stops" else ()
            # for slowly read data, time counts from the driver's notice; after the window the arm is lowered
            noticed_s = min(run.noticed_s, fault_s + disturbed.noticed_s) if disturbed.noticed_s else fault_s
            watched = trace.between(-np.inf, noticed_s + STOP_WINDOW_S) if disturbed.noticed_s else trace
            seen = judge.until_contact(watched, free)
            dropped = falls[0] if free else None  # falling joints push the held ones
            found += judge.late_damping(seen, noticed_s, free, dropped) + judge.unstopped(seen, noticed_s, free)
            found += judge.contact(seen, free)
            stop_s = judge.stop_s(seen, fault_s, free)
        case "servo without current" | "arm without current":
            axes = disturbed.axes if case.expectation == "servo without current" else every
            found += judge.current_left(trace, fault_s, run.watchdog_s, axes)
            found += judge.share_left(trace, fault_s, run.watchdog_s, disturbed.halved)
            stop_s = judge.current_off_s(trace, fault_s, axes)
        case "no worse than free fall":
            stop_s = judge.stop_s(trace.between(-np.inf, fault_s + STOP_WINDOW_S), fault_s)
    if case.expectation in (*OTHERS_HELD, "no worse than free fall"):
        found += judge.worse_than_free_fall(trace, falls, fault_s)
    if CUT in run.injected:
        found += judge.current_left(trace, fault_s, run.watchdog_s, disturbed.axes)
    if case.expectation != "motion continues" and (run.following or not re.search(case.named, run.text)):
        found.append(f"the driver did not name it; its text: {run.text}")
    if run.reopened:
        found.append(f"the port did not come back: {run.reopened}")
    if disturbed.faults is not None and not run.injected:
        found.append("the fault did not take effect")
    return Outcome(case.name, seed, tuple(found), 1e3 * stop_s, case.expectation)


def must_go_on(judge: ArmJudge, case: FaultCase, run: LockstepRun, undisturbed: ArmTrace) -> list[str]:
    """Judge a run whose motion the fault must not disturb."""
    found = judge.disturbed(run.trace, undisturbed, run.fault_s + MOTION_WINDOW_S)
    if not run.following:
        found.append(f"commands are no longer followed: {run.text}")
    counted = [name for name, count in run.after.items() if name.startswith(LINE) and count > run.before.get(name, 0)]
    felt = run.after.get(INCOMPLETE, 0) > run.before.get(INCOMPLETE, 0)
    if not counted and (case.named == "counted" or (case.named == "counted if felt" and felt)):
        found.append("the fault was not counted")
    return found


def start_outcome(robot: Robot, case: StartCase, seed: int) -> Outcome:
    """Judge a start that must be refused: the message names the cause, and there is no torque or current."""
    run = run_start(robot, case.make(np.random.default_rng([seed, 0]), robot), seed, enables=case.enables)
    found = []
    if run.refused is None:
        found.append("the driver started anyway")
    elif not re.search(case.named, run.refused):
        found.append(f"the driver did not name it; its text: {run.refused}")
    if run.torque_was_enabled or run.max_abs_current_a > 0.0:
        found.append(f"torque was on, {run.max_abs_current_a:.3f} A flowed")
    return Outcome(case.name, seed, tuple(found), 0.0, "start refused")


def rows(outcomes: Sequence[Outcome]) -> list[FaultRow]:
    """Return the table, in the order in which the faults first appear."""
    names = dict.fromkeys(one.fault for one in outcomes)
    table = []
    for name in names:
        mine = [one for one in outcomes if one.fault == name]
        bad = [one for one in mine if one.violations]
        texts = [f"seed {one.seed}: {'; '.join(one.violations)}" for one in bad[:MOST_FINDINGS]]
        findings = tuple(textwrap.shorten(text, LONGEST_FINDING, placeholder=" ...") for text in texts)
        worst_ms = round(max(one.stop_ms for one in mine), 1)
        table.append(FaultRow(name, len(mine), len(bad), worst_ms, mine[0].expectation, findings))
    return table


def lockstep_outcomes(
    robot: str, runs: int, names: tuple[str, ...] = (), first_seed: int = 0, processes: int | None = None
) -> Iterator[list[Outcome]]:
    """Run all faults `runs` times and yield one list of outcomes per finished seed.

    Args:
        robot: robot name or folder.
        runs: seeds.
        names: names of the faults; all without names.
        first_seed: first seed.
        processes: None is one per core.

    Raises:
        UnknownNameError: no such fault.
        ConfigurationError: a named fault is one of joints with several servos, and the robot has none.
    """
    second = [case.name for case in chosen_cases(names) if needs_followers(case)] if names else []
    if second and not load_robot(robot).followers:
        raise ConfigurationError(
            f"robot '{robot}' has no joint with several servos, so '{second[0]}' cannot be injected: choose a robot "
            "whose robot.yaml has shadow_ids or paired, such as viperx_300s"
        )
    jobs = [SeedJob(robot, first_seed + index, names) for index in range(runs)]
    yield from (found for _, found in in_processes(run_seed, jobs, processes))
