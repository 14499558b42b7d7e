"""Judge of faults of processes, by the simulated arm's record, the diagnostics, and the bag."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.faults.judge import DAMPING_BEGINS_S, ArmJudge
from benchmarks.faults.table_run import Outcome
from dynid.errors import DynidError
from dynid.recording.completeness import completeness
from dynid.simulation.servo.trace import ArmTrace

WATCHDOG_S = 0.1
MOVING_RAD = 0.02
BEFORE_FAULT_S = 0.5


@dataclass(frozen=True)
class ProcessCase:
    """Row of the table of process faults.

    Attributes:
        name: name of the fault.
        expectation: required outcome.
        reporter: node whose diagnostics must name it.
        named: pattern of its message; '' if nothing is named.
    """

    name: str
    expectation: Literal["motion continues", "arm stops", "arm without current"]
    reporter: str
    named: str


EXECUTOR_KILLED = ProcessCase("executor killed", "arm stops", "hardware", "command")
HARDWARE_KILLED = ProcessCase("hardware process killed", "arm without current", "executor", "joint_states")
SUSPENDED = ProcessCase(
    "host suspended for 500 ms, processes", "arm without current", "hardware", "watchdog|stalled|suspended"
)
UNPLUGGED = ProcessCase("cable pulled and plugged again, processes", "arm without current", "hardware", "lost|cable")
CLOCK_STEPPED = ProcessCase("clock stepped, processes", "motion continues", "hardware", "")
PROCESS_CASES = (EXECUTOR_KILLED, HARDWARE_KILLED, SUSPENDED, UNPLUGGED, CLOCK_STEPPED)


@dataclass(frozen=True, eq=False)
class ProcessRun:
    """Record of a run.

    Attributes:
        trace: motion of the arm, on the monotonic clock.
        fault_s: time of the fault on that clock [s].
        end_s: end of the record [s].
        text: message of the reporter about the fault.
        bag: recorded bag.
        commanding: whether the executor still executed the motion at the end.
        reopened: why the port was not reopened; '' if it was, or did not need to be.
        injection_s: time from `fault_s` until the fault was injected [s].
    """

    trace: ArmTrace
    fault_s: float
    end_s: float
    text: str
    bag: Path
    commanding: bool
    reopened: str
    injection_s: float = 0.0

    @property
    def longest_standstill_s(self) -> float:
        """Longest stall of this process or of the simulated arm's, from just before the fault on [s]."""
        watched = self.trace.between(self.fault_s - BEFORE_FAULT_S, self.end_s)
        return max(self.injection_s, float(np.diff(watched.time_s).max(initial=0.0)))


def process_outcome(judge: ArmJudge, case: ProcessCase, run: ProcessRun, seed: int) -> Outcome:
    """Return the judged outcome of one run."""
    trace, fault_s = run.trace.between(0.0, run.end_s), run.fault_s
    found, stop_s = judge.excess_current(trace) + bag_findings(run.bag), 0.0
    match case.expectation:
        case "motion continues":
            after = trace.between(fault_s + DAMPING_BEGINS_S, run.end_s)
            moved = (after.q.max(axis=0) - after.q.min(axis=0)).max() if len(after.time_s) else 0.0
            if moved < MOVING_RAD or not run.commanding:
                found.append(f"the motion did not continue: no joint moved farther than {moved:.3f} rad afterwards")
        case "arm stops":
            found += judge.late_damping(trace, fault_s) + judge.unstopped(trace, fault_s)
            found += judge.contact(trace.between(fault_s, run.end_s))
            stop_s = judge.stop_s(trace, fault_s)
        case "arm without current":
            every = range(judge.robot.size)
            found += judge.current_left(trace, fault_s, WATCHDOG_S, every)
            stop_s = judge.current_off_s(trace, fault_s, every)
    if case.named and not re.search(case.named, run.text):
        found.append(f"{case.reporter} did not name it in its diagnostics, which read: {run.text}")
    if run.reopened:
        found.append(f"the port did not come back: {run.reopened}")
    return Outcome(case.name, seed, tuple(found), 1e3 * stop_s, case.expectation)


def bag_findings(bag: Path) -> list[str]:
    """Return sentences about defects of a bag that was being recorded during a fault."""
    try:
        found = completeness(bag)
    except DynidError as error:
        return [f"the bag cannot be read: {error}"]
    return [f"{found.lost} published states are missing in the bag"] if found.lost > 0 else []
