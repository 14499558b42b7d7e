"""Attacks of hostile peers on the running chain: motion of the arm, ended nodes and readable bags are checked."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.children import child_environment
from benchmarks.hostile.files import FILE_CASES, FileCase, harm
from benchmarks.hostile.peers import BROKE, KINDS
from benchmarks.hostile.plain_node import PLAIN, plain_node_reachable
from benchmarks.hostile.sockets import reachable
from benchmarks.traces import load_trace
from dynid.control.control_model import ControlModel
from dynid.errors import DynidError, NodeError
from dynid.hardware.loop.paused_clock import ClockPage
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.standard import from_file
from dynid.nodes.chain import Chain, ChainOptions
from dynid.nodes.model_parameters import as_values
from dynid.nodes.supervisor import Supervisor
from dynid.parent import PARENT_VARIABLE
from dynid.recording.bag_reader import read_bag
from dynid.recording.series import joint_series
from dynid.robot import Robot, load_robot
from dynid.simulation.plant.arm import plant_standard
from dynid.simulation.servo.trace import ArmTrace

ATTACK_S, AFTER_S, PEER_TIMEOUT_S = 4.0, 1.0, 60.0
FASTEST_RAD_S = 1.2  # largest velocity of a lowered arm [rad/s]
# displacement beyond which the arm counts as moved [rad]; the second law permits hand guiding
LAWS = {"ff_pd": 0.03, "gravity_compensation": 0.2}
MOST_LEFT_OUT = 0.5  # largest share of omitted states in a bag, which include the peer's


@dataclass(frozen=True)
class Attacked:
    """Findings of a run in words; '' for each aspect without a finding."""

    kind: str
    seed: int
    motion: str
    deaths: tuple[str, ...]
    bag: str
    stopped: str
    broke: str = ""
    reachable: tuple[str, ...] = ()
    harm: str = ""

    @property
    def found(self) -> str:
        """All findings in one text; '' if there are none."""
        every = (*self.deaths, self.motion, self.bag, self.broke, *self.reachable, self.harm)
        return "; ".join(text for text in every if text)

    def __str__(self) -> str:
        return f"{self.kind}, seed {self.seed}: {self.found}"


def figures(runs: list[Attacked]) -> dict[str, Any]:
    """Return the counts over all runs, and each run with a finding."""
    return {
        "runs": len(runs),
        "uncommanded_motion": sum(bool(run.motion) for run in runs),
        "node_deaths": sum(len(run.deaths) for run in runs),
        "bags_unreadable": sum(bool(run.bag) for run in runs),
        "interlocks_broken": sum(bool(run.broke) for run in runs),
        "nodes_on_the_network": sum(len(run.reachable) for run in runs),
        "harmful_files": sum(bool(run.harm) for run in runs),
        "arms_stopped": sum(bool(run.stopped) for run in runs),
        "rows": _rows(runs),
        "findings": [str(run) for run in runs if run.found],
    }


def _rows(runs: list[Attacked]) -> dict[str, dict[str, int]]:
    """Return the number of attacks and of runs with findings by kind of attack, in the order of the runs."""
    kinds = dict.fromkeys(run.kind for run in runs)
    return {
        kind: {
            "runs": sum(run.kind == kind for run in runs),
            "found": sum(run.kind == kind and bool(run.found) for run in runs),
        }
        for kind in kinds
    }


def attacked_by_files(runs: int, seed: int, cases: Sequence[FileCase] = FILE_CASES) -> Iterator[Attacked]:
    """Give the program every hostile file, each `runs` times with another seed, and yield the findings."""
    for k in range(runs):
        for case in cases:
            with tempfile.TemporaryDirectory(prefix="dynid-attack-", ignore_cleanup_errors=True) as name:
                yield Attacked(case.name, seed + k, "", (), "", "", harm=harm(case, seed + k, Path(name)))


def attacked_from_network() -> Attacked:
    """Start a plain node in the environment of dynid's launch files, and return on which addresses it listens."""
    return Attacked(PLAIN, 0, "", (), "", "", reachable=plain_node_reachable())


def attacked(robot: str, runs: int, seed: int, keep: Path | None = None) -> Iterator[Attacked]:
    """Attack one chain after the other by every kind of peer in turn, each with another seed, and yield the findings.

    Args:
        robot: robot name or folder.
        runs: number of attacks of each kind.
        seed: first seed.
        keep: folder for logs, bag and the arm's record of each run with a finding; None keeps none.
    """
    loaded = load_robot(robot)
    for k in range(runs):
        with tempfile.TemporaryDirectory(prefix="dynid-attack-", ignore_cleanup_errors=True) as name:
            run = attack(loaded, robot, KINDS[k % len(KINDS)], seed + k, Path(name))
            if keep is not None and run.found:
                shutil.copytree(name, keep / f"{run.kind}-{run.seed}")
            yield run


def attack(robot: Robot, name: str, kind: str, seed: int, folder: Path) -> Attacked:
    """Start a chain whose arm is held by a control law, attack it before and during the hold, and return the findings.

    Raises:
        NodeError: the chain did not come up.
    """
    options = ChainOptions(name, seed=seed, trace=folder / "trace.npz", identification=False)
    law = list(LAWS)[seed % len(LAWS)]
    with Chain(robot, options, folder / "logs") as chain:
        call = chain.supervisor
        chain.bring_up()
        call.set_parameters("executor", as_values(nominal_model(robot)))
        call.set_parameters("executor", {"controller": law})
        call.set_parameters("recorder", {"output": str(folder / "bag"), "completion_timeout_s": 0.0})
        call.trigger("recorder/start")
        assert chain.options.paused_clock and chain._clock is not None
        page = ClockPage(chain._clock)
        begin_s = 1e-9 * page.monotonic_ns()
        laws, broke = {law}, ""
        for held in (False, True):
            if held:
                _try(call, "executor/hold")
            broke = _be_attacked(call, kind, seed, name) or broke
            laws |= _law(call)
        stopped = _stopped(call)
        deaths = tuple(f"{one.name} ended: {one.last_error()}" for one in chain._group.processes if not one.running)
        heard = tuple(
            f"{one.name} listens on {', '.join(sorted(reachable(one.pid)))}"
            for one in chain._group.processes
            if one.running and reachable(one.pid)
        )
        end_s = 1e-9 * page.monotonic_ns()
        page.close()
        if not deaths:
            _try(call, "recorder/stop")
    trace = load_trace(folder / "trace.npz").between(begin_s, end_s)
    held_within = max(LAWS.get(one, 0.0) for one in laws)  # a peer may choose another law
    motion, bag = uncommanded(robot, trace, stopped, held_within), unreadable(folder / "bag")
    return Attacked(kind, seed, motion, deaths, bag, stopped, broke, heard)


def nominal_model(robot: Robot) -> ControlModel:
    """Return a model of the simulated arm from its own parameters, instead of an identified one."""
    arm = ArmModel.of(robot)
    phi = arm.base_parameters(from_file(plant_standard(robot), arm.mdh))
    return ControlModel(robot.name, arm.structure_hash, phi, FrictionLaw.of(robot.size, {}), True)


def uncommanded(robot: Robot, trace: ArmTrace, stopped: str, held_within: float) -> str:
    """Return a finding if a held arm moved [rad], or if a stopped arm was lowered too fast; '' if neither."""
    if not len(trace.time_s):
        return "the arm's record is empty"
    speed, moved = np.abs(trace.dq).max(axis=0), np.abs(trace.q - trace.q[0]).max(axis=0)
    fastest, farthest = int(speed.argmax()), int(moved.argmax())
    if speed[fastest] > FASTEST_RAD_S:
        row = int(np.abs(trace.dq[:, fastest]).argmax())
        current, after_s = trace.current_a[row, fastest], trace.time_s[row] - trace.time_s[0]
        name = robot.joint_names[fastest]
        return f"{name} moved at {speed[fastest]:.2f} rad/s with {current:.2f} A, {after_s:.2f} s after the start"
    if not stopped and moved[farthest] > held_within:
        return f"{robot.joint_names[farthest]} moved by {moved[farthest]:.3f} rad"
    return ""


def unreadable(bag: Path) -> str:
    """Return why the arm's states cannot be read from a bag; '' if they can."""
    try:
        content = read_bag(bag)
        states = joint_series(content["/joint_states"])
    except DynidError as error:
        return f"the bag cannot be read: {error}"
    if states.left_out > MOST_LEFT_OUT * content.counts["/joint_states"]:
        return f"{states.left_out} states of {content.counts['/joint_states']} cannot be read"
    return "; ".join(content.findings)


def _try(call: Supervisor, service: str) -> None:
    """Call a service and ignore a refusal, which the attack may cause."""
    try:
        call.trigger(service)
    except NodeError:
        call._watch()  # without the check for ended processes


def _law(call: Supervisor) -> set[str]:
    """Return the law that commands the arm as a set; empty if the executor does not answer."""
    try:
        return {call.get_parameters("executor", ["controller"])[0].string_value}
    except NodeError:
        return set()


def _be_attacked(call: Supervisor, kind: str, seed: int, robot: str) -> str:
    """Run a hostile peer; return the forbidden effect that it achieved, '' if there is none."""
    command = [sys.executable, "-m", "benchmarks.hostile.peers", kind, str(seed), str(ATTACK_S), robot]
    environment = {**os.environ, **child_environment(), PARENT_VARIABLE: str(os.getpid())}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    watch, call._watch = call._watch, lambda: None  # ended processes are counted instead of raising an error
    try:
        call.wait(lambda: process.poll() is not None, PEER_TIMEOUT_S, "the end of a hostile peer")
        end_s = time.monotonic() + AFTER_S
        call.wait(lambda: time.monotonic() >= end_s, PEER_TIMEOUT_S, "the passing of time")
    finally:
        call._watch = watch
        process.kill()
        process.wait()
        said = process.stdout.read() if process.stdout is not None else ""
    if process.returncode == BROKE:
        return said.strip()
    if process.returncode not in (0, -9):
        raise NodeError(f"the hostile peer {kind} ended with code {process.returncode}")
    return ""


def _stopped(call: Supervisor) -> str:
    """Return the driver's reason for a stop; '' for an arm that is held."""
    report = call.reports.get("hardware")
    text = "" if report is None else str(report.message)
    return "" if text.startswith("enabled") else text
