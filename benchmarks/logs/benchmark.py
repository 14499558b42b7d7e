"""Identification of the simulated arm from logs of position control, against its truth and a model from 1 kHz.

An arm that is drawn anew (`draw_arm`) is moved by hand-made goals for half an hour in two sessions; its servos' own
position loop follows them. The last fifth of each session, at 1 kHz, judges every model; the rest is logged at 50 and
at 15 Hz by a logger with a clock of its own, torques and goals being late by unknown times.
"""

import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.logs.judge import LogErrors, log_errors
from benchmarks.logs.position_servos import FACTORY, Gains
from benchmarks.logs.session import Logger, Session, SessionJob, log_at_1_khz, log_of, run_session
from benchmarks.resident import peak_mib
from benchmarks.studies.drawn_arms import DrawnArm, draw_arm
from dynid.errors import DataError
from dynid.identification.data.recordings import recording_of_log
from dynid.identification.pipeline import identify
from dynid.identification.result import Identification
from dynid.identification.setup import SetupEstimate
from dynid.model.dynamics import ArmModel
from dynid.parallel import in_processes
from dynid.recording.log import Log
from dynid.robot import Robot

SESSIONS, FITTED = 2, 0.8
RATES_HZ = (1000.0, 50.0, 15.0)
DELAYS_S = (0.0, 0.3)  # range of random delays [s]
DRAWS = 23
BARS = {
    "delay_error_ms_50hz": 5.0,
    "gravity_error_50hz": 0.05,
    "torque_ratio_50hz": 1.5,
    "worst_determined_error_15hz": 0.1,
    "seconds": 60.0,
    "peak_mib": 2048.0,
}


@dataclass(frozen=True)
class _Simulation:
    job: SessionJob
    file: Path


@dataclass(frozen=True)
class _Identification:
    robot: Robot
    files: tuple[Path, ...]
    rate_hz: float
    delays_s: tuple[float, float]


@dataclass(frozen=True, eq=False)
class _Found:
    result: Identification
    errors: LogErrors
    seconds: float
    peak_mib: float


def _simulate(task: _Simulation) -> float:
    session = run_session(task.job)
    with task.file.open("wb") as stream:
        np.savez(stream, position=session.position, goal=session.goal, current=session.current)
    return peak_mib()


def _sessions(files: tuple[Path, ...]) -> list[Session]:
    found = []
    for file in files:
        with np.load(file) as arrays:
            found.append(Session(arrays["position"], arrays["goal"], arrays["current"]))
    return found


def _identify(task: _Identification) -> _Found:
    robot, fitted, held = task.robot, [], []
    for k, session in enumerate(_sessions(task.files)):
        cut = int(FITTED * len(session.position))
        held.append(log_at_1_khz(session, robot, slice(cut, None), f"held {k}"))
        if task.rate_hz >= 1000.0:
            fitted.append(log_at_1_khz(session, robot, slice(0, cut), f"session {k}"))
        else:
            torque, goal = task.delays_s
            logger = Logger(task.rate_hz, torque_delay_s=torque, goal_delay_s=goal)
            fitted.append(log_of(session.rows(slice(0, cut)), robot, logger, f"session {k}", seed=k))
    begin = time.monotonic()
    sources = [recording_of_log(log, Path(log.name), robot) for log in fitted]
    unknown = ("delay",) if task.rate_hz < 1000.0 else ()  # a logger's stamps are late
    result = identify(robot, sources, setup=unknown)
    seconds = time.monotonic() - begin
    return _Found(result, _pooled(result, held), seconds, peak_mib())


def _pooled(result: Identification, held: list[Log]) -> LogErrors:
    """Return the errors of all held-out logs together, as they have similar lengths and torques."""
    model = result.as_model()
    each = [log_errors(model, one) for one in held]
    squares = np.mean([one.per_joint**2 for one in each], axis=0)
    return LogErrors(float(np.sqrt(np.mean([one.relative**2 for one in each]))), np.sqrt(squares))


def gravity_error(robot: Robot, result: Identification, arm: DrawnArm, q: Any) -> float:
    """Return || g_hat - g || / || g || over postures q (N, n)."""
    model = ArmModel.of(robot)
    still = np.zeros_like(q)
    G = model.regressor(q, still, still)
    return float(np.linalg.norm(G @ (result.base.values - arm.base)) / np.linalg.norm(G @ arm.base))


def determined_errors(result: Identification, arm: DrawnArm) -> dict[str, float]:
    """Return the relative errors of determined parameters by name."""
    values = dict(zip(result.base.names, result.base.values.tolist(), strict=True))
    true = dict(zip(arm.names, arm.base.tolist(), strict=True))
    return {name: values[name] / true[name] - 1.0 for name in determined(result)}


def determined(result: Identification) -> tuple[str, ...]:
    """Return the names of the base parameters that the data determine, according to a result."""
    found = result.determined
    assert found is not None, "an identification states deviations"
    return found.determined


def delay_of(result: Identification) -> SetupEstimate:
    """Return the estimated delay of torques.

    Raises:
        DataError: it was not estimated, or the motion does not show it.
    """
    for one in result.setup:
        if one.kind == "delay":
            return one
    raise DataError("no delay of torques was estimated")


def benchmark_logs(
    robot: Robot,
    minutes: float = 30.0,
    seed: int = 0,
    gains: Gains = FACTORY,
    progress: Callable[[str], None] = lambda stage: None,
) -> dict[str, Any]:
    """Return all figures; `BARS` contains their limits."""
    begin, arm = time.monotonic(), draw_arm(robot, seed, "M6")
    delays = tuple(np.random.default_rng([seed, DRAWS]).uniform(*DELAYS_S, 2).tolist())
    length = 60.0 * minutes / SESSIONS
    with tempfile.TemporaryDirectory() as name:
        files = tuple(Path(name) / f"session_{k}.npz" for k in range(SESSIONS))
        progress("simulating")
        jobs = [
            _Simulation(SessionJob(robot, length, 100 * seed + k, gains, arm.friction, arm.standard), file)
            for k, file in enumerate(files)
        ]
        peaks = [peak for _, peak in in_processes(_simulate, jobs)]
        simulated = time.monotonic() - begin
        progress("identifying")
        tasks = [_Identification(robot, files, rate, (delays[0], delays[1])) for rate in RATES_HZ]
        found = {RATES_HZ[k]: one for k, one in in_processes(_identify, tasks)}
        q = np.concatenate([log_at_1_khz(one, robot, slice(None, None, 500), "all").q for one in _sessions(files)])
    fast, fifty, fifteen = (found[rate] for rate in RATES_HZ)
    errors = determined_errors(fifteen.result, arm)
    delay, goals = delay_of(fifty.result), fifty.result.goals
    assert goals is not None
    return {
        "delay_error_ms_50hz": 1e3 * abs(delay.value - delays[0]),
        "gravity_error_50hz": gravity_error(robot, fifty.result, arm, q),
        "torque_ratio_50hz": fifty.errors.relative / fast.errors.relative,
        "worst_determined_error_15hz": max(map(abs, errors.values()), default=float("nan")),
        "seconds": time.monotonic() - begin,
        "peak_mib": max(*peaks, *(one.peak_mib for one in found.values())),
        "seconds_simulating": simulated,
        "processor_seconds": sum(
            one.ru_utime + one.ru_stime
            for one in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        ),
        "delay_deviation_ms_50hz": 1e3 * delay.deviation,
        "goal_delay_error_ms_50hz": 1e3 * (goals.delay_s - delays[1]),
        "true_delays_ms": [1e3 * one for one in delays],
        "rates": {f"{rate:g} Hz": _row(robot, one, arm, q) for rate, one in found.items()},
        "determined_15hz": errors,
        "open_15hz": list(fifteen.result.determined.others) if fifteen.result.determined else [],
        "gains_50hz": goals.gains.tolist(),
    }


def _row(robot: Robot, found: _Found, arm: DrawnArm, q: Any) -> dict[str, Any]:
    errors = determined_errors(found.result, arm)
    return {
        "held_out_error": found.errors.relative,
        "held_out_error_per_joint": found.errors.per_joint.tolist(),
        "gravity_error": gravity_error(robot, found.result, arm, q),
        "accepted": found.result.verdict.accepted,
        "determined": len(errors),
        "worst_determined_error": max(map(abs, errors.values()), default=float("nan")),
        "seconds": found.seconds,
        "peak_mib": found.peak_mib,
    }
