"""Time of the refinement of one trajectory compared with the plain baselines, on the same data in one run.

The plain simulation around `pinocchio.aba`, which shares no code with the kernels, evaluates both end points.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.speed.baseline import PlainLoop, ScalarLoop, cost, lsqnonlin_like
from dynid.control.controller import ControllerSettings
from dynid.errors import DataError
from dynid.identification.closed_loop.clie import ClieOptions, ClieResult, refine
from dynid.identification.closed_loop.friction_history import KnownFriction
from dynid.identification.closed_loop.loop_data import ClosedLoopData
from dynid.identification.closed_loop.projection import project
from dynid.identification.closed_loop.recorded_loop import closed_loop_data, recorded_controller
from dynid.identification.closed_loop.simulation import ClosedLoop, LoopOptions
from dynid.identification.data.preprocessing import preprocess_recording
from dynid.identification.estimators.table import estimator
from dynid.identification.feasibility.audit import Auditor
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.recording.driver_recording import load_driver_recording
from dynid.robot import FloatArray, Robot

Progress = Callable[[str], None]
Value = TypeVar("Value")
REPEATS = 3
START_MARGIN_KG_M2 = 1e-4
WARM_CYCLES = 4000


@dataclass(frozen=True, eq=False)
class Case:
    """One experiment on the simulated arm, the start of its refinement, and the duration of the motion [s]."""

    robot: Robot
    model: ArmModel
    settings: ControllerSettings
    data: ClosedLoopData
    phi0: BaseParameters
    duration_s: float


def make_case(robot: Robot, bag: Path, interval_s: float = 0.04) -> Case:
    """Return one bag's refinement in the same way as a campaign: with known friction, weights and delay, after OLS.

    The case starts at rest, because the baselines' control law does; its bag begins with the arm held.
    """
    recording, identification = load_driver_recording(bag, robot), load_identification(robot)
    model, settings = ArmModel.of(robot, mount=recording.hardware.mount), recorded_controller(recording)
    samples = preprocess_recording(recording, robot, identification, interval_s=interval_s)
    estimate = estimator(identification.estimator).estimate(model, samples, identification.coulomb_friction)
    known = None if estimate.friction is None else KnownFriction(model, estimate.base, estimate.friction)
    data = closed_loop_data(recording, robot, identification, interval_s, known)
    assert data.initial_state is not None
    data = replace(data, initial_state=np.array([data.initial_state[0], np.zeros(robot.size)]))
    return Case(robot, model, settings, data, estimate.base, len(data.q_ref) * data.cycle_s)


def warm(case: Case) -> None:
    """Load or compile the refinement's and the scalar baseline's kernels on a short piece of the case."""
    data = case.data
    count = min(len(data.q_ref), WARM_CYCLES)
    keep = data.sample_times < (count - 1) * data.cycle_s
    short = replace(
        data,
        q_ref=data.q_ref[:count],
        dq_ref=data.dq_ref[:count],
        ddq_ref=data.ddq_ref[:count],
        sample_times=data.sample_times[keep],
        tau=data.tau[keep],
        load_deviation=None,
        external=None if data.external is None else data.external[:count],
        weights=None if data.weights is None else data.weights[keep],
    )
    loop = ClosedLoop(case.model, case.settings, short)
    simulation = loop.simulate(case.phi0)
    if simulation.completed:
        loop.normal_equations(loop.jacobian(simulation, case.phi0), simulation.tau)
    ScalarLoop(case.model, case.settings, short).commands(case.phi0.values)


def timed(function: Callable[[], Value]) -> tuple[float, Value]:
    """Call a function; return its time [s] and its result."""
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def _ours(case: Case, auditor: Auditor) -> tuple[float, ClieResult]:
    """Return the best time of a few complete refinements, and the result."""
    options = ClieOptions(eps=0.0)
    runs = [
        timed(lambda: refine(case.model, case.settings, case.data, case.phi0, options, auditor)) for _ in range(REPEATS)
    ]
    return min(seconds for seconds, _ in runs), runs[-1][1]


@dataclass(frozen=True, eq=False)
class _Baseline:
    """A baseline's end point, number of simulations, time, and time outside the simulations [s]."""

    phi: FloatArray
    simulations: int
    seconds: float
    outside_s: float


def _optimise(simulate_phi: Callable[[FloatArray], FloatArray], case: Case) -> _Baseline:
    """Run the baseline's optimiser on a simulation."""
    calls, inside = 0, 0.0

    def counted(phi: FloatArray) -> FloatArray:
        nonlocal calls, inside
        calls += 1
        seconds, command = timed(lambda: simulate_phi(phi))
        inside += seconds
        return np.asarray(command)

    total, result = timed(lambda: lsqnonlin_like(counted, case.data, case.phi0.values))
    return _Baseline(np.asarray(result.x), calls, total, total - inside)


@dataclass(frozen=True, eq=False)
class _Baselines:
    """End point of the baselines, and the times of the plain and of the compiled one [s]."""

    end: _Baseline
    plain_seconds: float
    compiled_seconds: float


def _complete(case: Case, plain: PlainLoop, scalar: ScalarLoop, progress: Progress) -> _Baselines:
    """Run both baselines to their end."""
    progress("running the compiled baseline")
    compiled = _optimise(scalar.commands, case)
    progress("running the plain baseline (takes hours)")
    end = _optimise(plain.commands, case)
    return _Baselines(end, end.seconds, compiled.seconds)


def _extrapolated(case: Case, plain: PlainLoop, scalar: ScalarLoop, progress: Progress) -> _Baselines:
    """Extrapolate the baselines' times from single simulations.

    The baselines' optimiser runs on the SIMD simulation in their own discretisation, which gives its end point and its
    number of simulations.
    """
    progress("counting the baselines' simulations")
    paper = ClosedLoop(case.model, case.settings, case.data, LoopOptions(integrator="trapezoid"))

    def simulated(phi: FloatArray) -> FloatArray:
        simulation = paper.simulate(phi)
        if not simulation.completed:
            raise DataError("the baseline's optimiser left the parameters that the closed loop can be simulated with")
        return np.asarray(simulation.motion[2])

    end = _optimise(simulated, case)
    progress("timing complete simulations of both baselines")
    plain_once, _ = timed(lambda: plain.commands(end.phi))
    scalar_once = min(timed(lambda: scalar.commands(end.phi))[0] for _ in range(REPEATS))
    plain_seconds, scalar_seconds = (end.simulations * once + end.outside_s for once in (plain_once, scalar_once))
    return _Baselines(end, plain_seconds, scalar_seconds)


def refinement_figures(case: Case, auditor: Auditor, *, quick: bool, progress: Progress) -> dict[str, Any]:
    """Return the times of dynid's refinement and of both baselines on one experiment.

    Args:
        case: the experiment; its start is projected to positive-definite models first.
        auditor: auditor of the robot's audit domain.
        quick: extrapolate the baselines' times from complete simulations.
        progress: function that is called with the name of each stage.
    """
    case = replace(case, phi0=project(auditor, case.phi0, START_MARGIN_KG_M2).base)
    warm(case)
    progress("refining")
    seconds, ours = _ours(case, auditor)
    plain = PlainLoop(case.robot, case.model, case.settings, case.data)
    scalar = ScalarLoop(case.model, case.settings, case.data)
    found = (_extrapolated if quick else _complete)(case, plain, scalar, progress)
    progress("judging both end points by the plain simulation")
    our_cost = cost(plain.commands(ours.base.values), case.data)
    their_cost = cost(plain.commands(found.end.phi), case.data)
    note = "one complete simulation of each baseline was timed and multiplied by the number of its simulations"
    return {
        "ag02_40ms_seconds": seconds,
        "ratio_plain": found.plain_seconds / seconds,
        "ratio_compiled": found.compiled_seconds / seconds,
        "cost_relative_difference": our_cost / their_cost - 1.0,
        "refinement_motion_seconds": case.duration_s,
        "refinement_samples": len(case.data.tau),
        "refinement_steps": len(ours.iterations),
        "refinement_end": ours.reason,
        "refinement_cost": our_cost,
        "baseline_cost": their_cost,
        "baseline_plain_seconds": found.plain_seconds,
        "baseline_compiled_seconds": found.compiled_seconds,
        "baseline_simulations": found.end.simulations,
        "baseline_extrapolated": quick,
        "baseline_note": note if quick else "both baselines ran to their end",
    }
