"""The refinement of one trajectory timed against the plain baselines, on the same data in one run.

Both end points are judged by the plain simulation around `pinocchio.aba`, which shares no code with the kernels.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid.benchmarking.baseline import PlainLoop, ScalarLoop, cost, lsqnonlin_like
from dynid.control.controller import ControllerSettings, load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.identification.audit import Auditor
from dynid.identification.clie import ClieOptions, ClieResult, refine
from dynid.identification.closed_loop import ClosedLoop, LoopOptions
from dynid.identification.loop_data import ClosedLoopData
from dynid.identification.preprocessing import LowPass
from dynid.identification.projection import project
from dynid.identification.sampling import impulse_response
from dynid.identification.settings import load_identification
from dynid.model.compile import compile_pivots
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import FloatArray, Robot, load_robot
from dynid.simulation.lockstep import simulate
from dynid.trajectory.families import load_excitation
from dynid.trajectory.trajectory import Trajectory

Progress = Callable[[str], None]
REPEATS = 3
AUDITED_POSES = 1_000_000
STOPS_MARGIN_RAD = 0.2
SEED = 1
START_MARGIN_KG_M2 = 1e-4


@dataclass(frozen=True, eq=False)
class Case:
    """One experiment on the simulated arm, where its refinement starts, and what the simulation took [s]."""

    robot: Robot
    model: ArmModel
    settings: ControllerSettings
    data: ClosedLoopData
    phi0: BaseParameters
    duration_s: float
    simulate_seconds: float = 0.0


def make_case(robot: Robot, trajectory: Trajectory, interval_s: float = 0.04, mount: str | None = None) -> Case:
    """Run a trajectory on the simulated arm, all nuisances on, and start from least squares on its reference motion."""
    model, settings = ArmModel.of(robot, mount=mount), load_controller(robot)
    lower, upper = trajectory.waypoints.min(axis=0), trajectory.waypoints.max(axis=0)
    stops = np.minimum(lower, robot.lower) - STOPS_MARGIN_RAD, np.maximum(upper, robot.upper) + STOPS_MARGIN_RAD
    begin = time.perf_counter()
    run = simulate(
        robot, trajectory, FeedforwardPd(settings), mount=mount, seed=SEED, q0=trajectory.start, stops=stops,
        to_rest=False,
    )  # fmt: skip
    simulated_in = time.perf_counter() - begin
    cycle = robot.file.bus.cycle_s
    low_pass = LowPass(load_identification(robot).filter, interval_s, cycle)
    margin = 0.5 * interval_s * np.ceil(2.0 * low_pass.settling_s / interval_s)
    times = np.arange(margin, len(run.q) * cycle - margin, interval_s)
    response = impulse_response(low_pass.apply, round(3 * low_pass.settling_s / cycle))
    measured = low_pass.apply(run.torque_command)[np.rint(times / cycle).astype(int)]
    initial = np.array([run.q[0], np.zeros(robot.size)])
    data = ClosedLoopData(run.q_ref, run.dq_ref, run.ddq_ref, times, measured, initial, response, cycle)
    at = np.rint(times / cycle).astype(int)
    q, dq, ddq = (low_pass.apply(x)[at] for x in (run.q_ref, run.dq_ref, run.ddq_ref))
    W = model.regressor(q, dq, ddq).reshape(-1, len(model.names))
    start = np.linalg.lstsq(W, measured.ravel(), rcond=None)[0]
    rotors = np.array([name.startswith("IA") for name in model.names])
    phi0 = BaseParameters(model.names, np.asarray(np.where(rotors, np.maximum(start, 1e-4), start)))
    return Case(robot, model, settings, data, phi0, len(run.q) * cycle, simulated_in)


def warm(case: Case, auditor: Auditor) -> None:
    """Load or compile every kernel on a short piece of the case."""
    data = case.data
    count = min(len(data.q_ref), 4000)
    keep = data.sample_times < (count - 1) * data.cycle_s
    short = replace(
        data, q_ref=data.q_ref[:count], dq_ref=data.dq_ref[:count], ddq_ref=data.ddq_ref[:count],
        sample_times=data.sample_times[keep], tau=data.tau[keep],
    )  # fmt: skip
    loop = ClosedLoop(case.model, case.settings, short)
    simulation = loop.simulate(case.phi0)
    if simulation.completed:
        jacobian = loop.jacobian(simulation, case.phi0)
        loop.normal_equations(jacobian, simulation.tau)
    compile_pivots(case.model)(np.zeros((1, case.model.axes)), case.phi0, 0.0)
    auditor.audit(case.phi0, searches=1)
    ScalarLoop(case.model, case.settings, short).commands(case.phi0.values)


def compile_seconds(robot: Robot) -> float:
    """Time in which a process with an empty cache has every kernel ready, start of the interpreter included [s]."""
    code = (
        "import sys; from dynid.benchmarking.clie import compile_everything; compile_everything(sys.argv[1])"
    )
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        command = [sys.executable, "-c", code, str(robot.folder)]
        subprocess.run(command, env={**os.environ, "DYNID_CACHE": folder}, check=True)  # noqa: S603 - own code
        return time.perf_counter() - begin


def compile_everything(folder: str) -> None:
    """Compile every kernel of a robot; the work of `compile_seconds`."""
    robot = load_robot(Path(folder))
    model, axes = ArmModel.of(robot), robot.size
    t = 0.001 * np.arange(64)[:, None] * np.ones(axes)
    data = ClosedLoopData(0.1 * t**2, 0.2 * t, 0.2 + 0 * t, np.array([0.01, 0.03]), np.zeros((2, axes)))
    phi0 = BaseParameters(model.names, np.full(len(model.names), 1e-3))
    case = Case(robot, model, load_controller(robot), replace(data, initial_state=np.zeros((2, axes))), phi0, 0.064)
    warm(case, Auditor(model, robot.audit_lower, robot.audit_upper))


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def _ours(case: Case, auditor: Auditor, options: ClieOptions) -> tuple[float, ClieResult]:
    """Best time of a few complete refinements, and the result."""
    runs = [
        _timed(lambda: refine(case.model, case.settings, case.data, case.phi0, options, auditor))
        for _ in range(REPEATS)
    ]
    return min(seconds for seconds, _ in runs), runs[-1][1]


@dataclass(frozen=True, eq=False)
class _Baseline:
    """A baseline's end point, how many simulations it took, and the time (extrapolated or not)."""

    phi: FloatArray
    simulations: int
    seconds: float


def _counted(simulate_phi: Callable[[FloatArray], FloatArray], case: Case) -> tuple[_Baseline, float]:
    """Run the baseline's optimiser on a simulation, counting; and the time outside of the simulations [s]."""
    calls, inside = 0, 0.0

    def counted(phi: FloatArray) -> FloatArray:
        nonlocal calls, inside
        calls += 1
        seconds, command = _timed(lambda: simulate_phi(phi))
        inside += seconds
        return np.asarray(command)

    total, result = _timed(lambda: lsqnonlin_like(counted, case.data, case.phi0.values))
    return _Baseline(np.asarray(result.x), calls, total), total - inside


def benchmark_clie(
    robot_name: str = "crane_x7", trajectory: str = "AG02", profile: str = "paper", interval_s: float = 0.04,
    quick: bool = True, progress: Progress = lambda text: None,
) -> dict[str, Any]:  # fmt: skip
    """Time our refinement and both baselines on one experiment.

    Args:
        robot_name: a robot by name or folder.
        trajectory, profile: which motion.
        interval_s: sampling interval.
        quick: the baselines' optimiser runs on the SIMD simulation in their own discretisation, only to count its
            simulations and to find its end point; one complete simulation of each baseline is timed and multiplied.
        progress: called with what is being done.
    """
    robot = load_robot(robot_name)
    progress("compiling every kernel in a fresh process")
    compiled_in = compile_seconds(robot)
    progress(f"simulating {trajectory} ({profile})")
    case = make_case(robot, load_excitation(robot).trajectory(trajectory, profile), interval_s)
    auditor = Auditor(case.model, robot.audit_lower, robot.audit_upper)
    case = replace(case, phi0=project(auditor, case.phi0, START_MARGIN_KG_M2).base)
    warm(case, auditor)
    progress("refining")
    seconds, ours = _ours(case, auditor, ClieOptions(eps=0.0))
    plain = PlainLoop(case.robot, case.model, case.settings, case.data)
    scalar = ScalarLoop(case.model, case.settings, case.data)
    if quick:
        progress("counting the baseline's simulations")
        paper = ClosedLoop(case.model, case.settings, case.data, LoopOptions(integrator="trapezoid"))
        counted, overhead = _counted(lambda phi: np.asarray(paper.simulate(phi).motion[2]), case)
        progress("timing one complete simulation of each baseline")
        plain_once, _ = _timed(lambda: plain.commands(counted.phi))
        scalar_once = min(_timed(lambda: scalar.commands(counted.phi))[0] for _ in range(REPEATS))
        plain_seconds = counted.simulations * plain_once + overhead
        scalar_seconds = counted.simulations * scalar_once + overhead
        end = counted
    else:
        progress("running the compiled baseline")
        end = _counted(scalar.commands, case)[0]
        scalar_seconds = end.seconds
        progress("running the plain baseline; this takes hours")
        end = _counted(plain.commands, case)[0]
        plain_seconds = end.seconds
    progress("auditing")
    audit_seconds, audit = _timed(lambda: auditor.audit(ours.base, poses=AUDITED_POSES, searches=0))
    progress("judging both end points by the plain simulation")
    our_cost, their_cost = cost(plain.commands(ours.base.values), case.data), cost(plain.commands(end.phi), case.data)
    return {
        "trajectory": trajectory, "profile": profile, "duration_s": case.duration_s, "interval_s": interval_s,
        "samples": len(case.data.tau), "ag02_40ms_seconds": seconds, "refinement": ours.reason,
        "refinement_steps": len(ours.iterations), "plain_seconds": plain_seconds, "compiled_seconds": scalar_seconds,
        "baseline_simulations": end.simulations, "ratio_plain": plain_seconds / seconds,
        "ratio_compiled": scalar_seconds / seconds, "cost": our_cost, "baseline_cost": their_cost,
        "cost_relative_difference": our_cost / their_cost - 1.0, "compile_seconds": compiled_in,
        "audit_poses_per_second": audit.poses_checked / audit_seconds,
        "simulate_realtime_factor": case.duration_s / case.simulate_seconds,
        "extrapolated": quick,
        "note": "baseline times are one complete simulation times the number of simulations" if quick else "",
    }  # fmt: skip
