"""Faults of processes: the whole chain in real time, with one of its processes killed, stopped or unplugged."""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.chain.stepped_clock import VARIABLE
from benchmarks.children import child_environment
from benchmarks.faults.judge import HOLD_S, STANDSTILL_S, ArmJudge
from benchmarks.faults.processes import (
    CLOCK_STEPPED,
    EXECUTOR_KILLED,
    HARDWARE_KILLED,
    SUSPENDED,
    UNPLUGGED,
    ProcessCase,
    ProcessRun,
    process_outcome,
)
from benchmarks.faults.table_run import Outcome
from benchmarks.traces import load_trace
from dynid.control.safe_box import NO_SCENE
from dynid.errors import NodeError
from dynid.nodes.chain import Chain, ChainOptions
from dynid.nodes.collect import begin_recording
from dynid.nodes.processes import Process
from dynid.robot import Robot, load_robot
from dynid.simulation.plant.arm import ArmPlant
from dynid.trajectory.families import load_excitation

PROFILE = "limited"
SUSPENDED_S = 0.5
UNPLUGGED_S = 0.5
FIRST_FAULT_S, LAST_FAULT_S = 3.5, 8.5  # time of a fault from the start of the motion, when the bag can be judged [s]
ATTEMPTS = 5
LONGEST_STANDSTILL_S = 0.02
WATCHED_S = STANDSTILL_S + HOLD_S + 0.3
REPORT_S = 2.5  # longest wait for diagnostics, which are published once per second [s]
STEPPED_MODULE = "benchmarks.chain.stepped_clock"

Inject = Callable[[Chain], float]
"""Makes the fault happen, and says when it had happened on the monotonic clock [s]."""


def _processes(*found: Process | None) -> list[Process]:
    return [process for process in found if process is not None]


def _kill_executor(chain: Chain) -> float:
    return _kill(chain, chain.executor)


def _kill_hardware(chain: Chain) -> float:
    return _kill(chain, chain.hardware)


def _kill(chain: Chain, *found: Process | None) -> float:
    for process in _processes(*found):
        os.kill(process.pid, signal.SIGKILL)
    happened_s = time.monotonic()
    for process in _processes(*found):
        chain.kill(process)  # which also waits for its end
    return happened_s


def _suspend(chain: Chain) -> float:
    """Suspend every process of the host except the simulated arm, which is no part of the host."""
    ours = _processes(chain.hardware, chain.executor, chain.recorder)
    for process in ours:
        os.kill(process.pid, signal.SIGSTOP)
    happened_s = time.monotonic()
    try:
        time.sleep(SUSPENDED_S)
    finally:
        for process in ours:
            os.kill(process.pid, signal.SIGCONT)
    return happened_s


def _pull_cable(chain: Chain) -> float:
    """Make the simulated arm remove its port when its process runs next, which a busy host may delay."""
    port = chain.options.link
    for process in _processes(chain.arm):
        os.kill(process.pid, signal.SIGUSR1)
    while port is not None and port.is_symlink():
        time.sleep(1e-3)
    return time.monotonic()


def _step_clock(chain: Chain) -> float:
    for process in _processes(chain.hardware):
        os.kill(process.pid, signal.SIGUSR1)
    return time.monotonic()


def _plug_and_reopen(chain: Chain) -> str:
    """Plug the cable in and reopen the port, as a user would; return '' on success, else the reason."""
    for process in _processes(chain.arm):
        os.kill(process.pid, signal.SIGUSR2)
    port = chain.options.link
    chain.supervisor.wait(lambda: port is None or port.is_symlink(), 5.0, "the return of the port")
    published = int(chain.supervisor.reported("hardware", "states_published"))
    try:
        chain.supervisor.trigger("hardware/reopen")
        chain.supervisor.wait(
            lambda: int(chain.supervisor.reported("hardware", "states_published")) > published, 10.0, "a state"
        )
    except NodeError as error:
        return str(error)
    return ""


INJECTIONS: dict[ProcessCase, Inject] = {
    EXECUTOR_KILLED: _kill_executor,
    HARDWARE_KILLED: _kill_hardware,
    SUSPENDED: _suspend,
    UNPLUGGED: _pull_cable,
    CLOCK_STEPPED: _step_clock,
}


def process_outcomes(robot: str, runs: int, names: tuple[str, ...] = (), first_seed: int = 0) -> Iterator[Outcome]:
    """Yield the outcomes of all faults, `runs` of each; one chain runs at a time, since it needs the whole machine.

    A chain that does not start, or a host that stalls repeatedly, is a violation of that run.

    Args:
        robot: robot name or folder.
        runs: number of runs per fault.
        names: names of the faults; all if empty.
        first_seed: first of the consecutive seeds.
    """
    loaded = load_robot(robot)
    plant = ArmPlant(loaded)
    judge = ArmJudge(loaded, plant.compiled.model, plant.nuisances.backlash)
    for case in INJECTIONS:
        for seed in range(first_seed, first_seed + runs if not names or case.name in names else first_seed):
            try:
                yield _undisturbed(loaded, robot, case, seed, judge)
            except NodeError as error:  # counts as a finding; the other runs continue
                yield Outcome(case.name, seed, (f"the run failed: {error}",), 0.0, case.expectation)


def _undisturbed(robot: Robot, name: str, case: ProcessCase, seed: int, judge: ArmJudge) -> Outcome:
    """Return the outcome of one run; it is repeated if the host did not run the simulated arm for some time."""
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory(prefix="dynid-fault-", ignore_cleanup_errors=True) as folder:
            run = run_process_case(robot, name, case, Path(folder), seed)
            skipped_s = run.longest_standstill_s
            if skipped_s <= LONGEST_STANDSTILL_S:
                return process_outcome(judge, case, run, seed)
    raise NodeError(
        f"{case.name}: in {ATTEMPTS} runs the host stalled the simulated arm, in the last one for {skipped_s:.3f} s; "
        "run these faults on an idle machine"
    )


def run_process_case(robot: Robot, name: str, case: ProcessCase, folder: Path, seed: int) -> ProcessRun:
    """Start the chain, move and record, inject the fault, watch, and end the chain.

    Args:
        robot: the robot, whose name or folder is `name`.
        name: name or folder of the robot.
        case: the injected fault.
        folder: folder for all files.
        seed: seed of all random numbers.
    """
    random = np.random.default_rng(seed)
    motions = [motion for motion in load_excitation(robot).names if not motion.startswith("demo")]
    motion, moment_s = str(random.choice(motions)), float(random.uniform(FIRST_FAULT_S, LAST_FAULT_S))
    options = ChainOptions(
        name,
        seed=seed,
        link=folder / "ttyARM",
        trace=folder / "trace.npz",
        paused_clock=False,
        identification=False,
        rate_hz=1000,  # same rate for all cases, also on a busy machine
        driver=STEPPED_MODULE if case is CLOCK_STEPPED else ChainOptions.driver,
    )
    os.environ |= child_environment()
    os.environ[VARIABLE] = str(random.choice((-1.0, 1.0)) * 10.0 ** random.uniform(-1.0, 5.0))
    bag = folder / "bag"
    with Chain(robot, options, folder / "logs") as chain:
        chain.bring_up()
        _begin_motion(chain, motion, bag)
        _spin_for(chain, moment_s)
        fault_s = time.monotonic()
        injection_s = INJECTIONS[case](chain) - fault_s
        _spin_for(chain, fault_s + WATCHED_S - time.monotonic())
        end_s = time.monotonic()
        text = _report(chain, case)
        chain.supervisor.trigger("recorder/stop")
        reopened = _plug_and_reopen(chain) if case is UNPLUGGED else ""
        moving = chain.supervisor.reported("executor", "phase") not in ("", "idle")
    trace = load_trace(folder / "trace.npz")
    return ProcessRun(trace, fault_s, end_s, text, bag, moving, reopened, injection_s)


def _begin_motion(chain: Chain, motion: str, bag: Path) -> None:
    # the recorder is stopped within a motion
    chain.supervisor.set_parameters("recorder", {"completion_timeout_s": 0.0})
    chain.supervisor.set_parameters("executor", {"scene": NO_SCENE})  # some motions pass the table of the robot's scene
    begin_recording(chain.supervisor, motion, PROFILE, bag)
    chain.supervisor.trigger("executor/execute")


def _spin_for(chain: Chain, seconds: float) -> None:
    end_s = time.monotonic() + seconds
    chain.supervisor.wait(lambda: time.monotonic() >= end_s, seconds + 5.0, "the passing of time")


def _report(chain: Chain, case: ProcessCase) -> str:
    """Return the newest diagnostics of the node that must name the fault."""
    _spin_for(chain, REPORT_S)
    report = chain.supervisor.reports.get(case.reporter)
    return "" if report is None else str(report.message)
