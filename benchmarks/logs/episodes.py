"""Identification from many short recordings, as in teleoperation, by one process, two, and a local Dask cluster.

Episodes are computed by inverse dynamics of a randomly drawn arm: hand-like motions through quintic splines, and
torques of links, rotors and gear friction, delayed, noisy and rounded as by the servos, in one CSV file each. The
result must not depend on how they were reduced, and the memory must not grow with the number of episodes.
"""

import importlib.util
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import make_interp_spline

from benchmarks.logs.benchmark import delay_of, determined_errors, gravity_error
from benchmarks.logs.teleoperation import hand_motion
from benchmarks.resident import peak_mib, peak_of_children_mib
from benchmarks.studies.drawn_arms import DrawnArm, draw_arm
from dynid.hardware.bus.control_table import POSITION_RAD_PER_COUNT
from dynid.identification.many.spread import LOCAL
from dynid.identification.methods import identify
from dynid.identification.result import Identification
from dynid.model.dynamics import ArmModel
from dynid.parallel import in_processes, process_map
from dynid.recording.csv_mapping import CsvMapping
from dynid.robot import FloatArray, Robot

RATE_HZ, LATE_S, JITTER_S, NOISE_COUNTS = 50.0, 0.06, 0.001, 2.0
TENTH = 10
SAME = 1e-9  # largest relative difference between results of the reductions
MEMORY_GROWTH = 1.2  # largest memory over that of a tenth of the episodes: only names and digests may accumulate


@dataclass(frozen=True)
class _Episodes:
    """Part of the episodes, as a task for a process that writes them."""

    robot: Robot
    arm: DrawnArm
    folder: Path
    numbers: tuple[int, ...]
    seconds: float
    seed: int


@dataclass(frozen=True)
class _Reduction:
    """Way of reducing a folder of episodes, as a task for a process of its own."""

    robot: Robot
    folder: Path
    processes: int
    dask: str | None = None


@dataclass(frozen=True, eq=False)
class _Reduced:
    result: Identification
    seconds: float
    peak_mib: float
    peak_of_a_child_mib: float


def columns(robot: Robot) -> CsvMapping:
    """Return the mapping of the columns of an episode's file."""
    count = range(robot.size)
    return CsvMapping.model_validate(
        {
            "schema_version": 1,
            "time": {"column": "t"},
            "position": {"columns": [f"q{k}" for k in count], "unit": "rad"},
            "torque": {"columns": [f"tau{k}" for k in count], "unit": "N m"},
        }
    )


def episode(robot: Robot, arm: DrawnArm, seconds: float, seed: int) -> FloatArray:
    """Return the rows (N, 1 + 2 n) of one episode: timestamps [s], positions [rad], torques [N m]."""
    random = np.random.default_rng([seed, 11])
    knots = np.arange(round((seconds + 2.0) * RATE_HZ)) / RATE_HZ
    curve = make_interp_spline(knots, hand_motion(robot, seconds + 2.0, RATE_HZ, seed), k=5)
    stamps = np.arange(0.5, seconds + 0.5, 1.0 / RATE_HZ)
    stamps = stamps + np.clip(JITTER_S * random.standard_normal(len(stamps)), -0.4 / RATE_HZ, 0.4 / RATE_HZ)
    tau = _torques(robot, arm, *(curve(stamps - LATE_S, nu) for nu in range(3)))
    amperes = tau / robot.drive_constants
    counts = np.rint(amperes / robot.current_units + NOISE_COUNTS * random.standard_normal(amperes.shape))
    q = np.rint(curve(stamps) / POSITION_RAD_PER_COUNT) * POSITION_RAD_PER_COUNT
    return np.asarray(np.c_[stamps, q, counts * robot.current_units * robot.drive_constants])


def _torques(robot: Robot, arm: DrawnArm, q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
    """Return the motor torques at the joints, (N, n) [N m], of links, rotors and gear friction."""
    model = ArmModel.of(robot)
    rigid = np.where([name.startswith("FV") for name in arm.names], 0.0, arm.base)
    wanted = (model.regressor(q, dq, ddq) @ rigid).reshape(q.shape)
    load = -(model.regressor(q, dq, np.zeros_like(q)) @ rigid).reshape(q.shape)
    return np.asarray(arm.friction.motor_torque(dq, wanted, load))


def _write(task: _Episodes) -> int:
    header = ",".join(["t", *(f"{name}{k}" for name in ("q", "tau") for k in range(task.robot.size))])
    for number in task.numbers:
        rows = episode(task.robot, task.arm, task.seconds, 1000 * task.seed + number)
        path = task.folder / f"episode_{number:04d}.csv"
        np.savetxt(path, rows, delimiter=",", header=header, comments="", fmt="%.7f")
    return len(task.numbers)


def _reduce(task: _Reduction) -> _Reduced:
    begin = time.monotonic()
    mapping = columns(task.robot)
    result = identify(task.robot, [task.folder], mapping=mapping, processes=task.processes, dask=task.dask)
    return _Reduced(result, time.monotonic() - begin, peak_mib(), peak_of_children_mib())


def _alone(task: _Reduction) -> _Reduced:
    """Run a reduction in a new process, so that its memory can be measured."""
    with process_map(2) as spread:
        (found,) = spread(_reduce, [task])
    assert isinstance(found, _Reduced)
    return found


def _difference(one: Identification, other: Identification) -> float:
    """Return the largest difference of base parameters, friction and delay, relative to the size of each kind."""
    pairs = [
        (one.estimate.base.values, other.estimate.base.values),
        (one.base.values, other.base.values),
        (np.array([delay_of(one).value]), np.array([delay_of(other).value])),
    ]
    if one.friction is not None and other.friction is not None:
        pairs.append((one.friction.values, other.friction.values))
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in pairs)


def benchmark_episodes(
    robot: Robot,
    episodes: int = 1000,
    seconds: float = 36.0,
    seed: int = 0,
    progress: Callable[[str], None] = lambda stage: None,
) -> dict[str, Any]:
    """Return all figures; those of Dask are None if it is not installed.

    Args:
        robot: the robot.
        episodes: number of episodes, at least ten; a tenth of them shows how memory grows.
        seconds: length of each episode [s].
        seed: seed of the arm and the motions.
        progress: function that is called with the name of each stage.
    """
    arm = draw_arm(robot, seed, "M6")
    with tempfile.TemporaryDirectory(prefix="dynid-episodes-") as name:
        whole, tenth = Path(name) / "all", Path(name) / "tenth"
        for folder in (whole, tenth):
            folder.mkdir()
        progress(f"making {episodes} episodes")
        begin = time.monotonic()
        jobs = [
            _Episodes(robot, arm, whole, tuple(range(first, min(first + 20, episodes))), seconds, seed)
            for first in range(0, episodes, 20)
        ]
        made = sum(count for _, count in in_processes(_write, jobs))
        making_s = time.monotonic() - begin
        for number in range(episodes // TENTH):
            (tenth / f"episode_{number:04d}.csv").symlink_to(whole / f"episode_{number:04d}.csv")
        ways = {"one": _Reduction(robot, whole, 1), "two": _Reduction(robot, whole, 2)}
        ways["tenth"] = _Reduction(robot, tenth, 1)
        if importlib.util.find_spec("distributed") is not None:
            ways["dask"] = _Reduction(robot, whole, 2, LOCAL)
        found = {}
        for way, job in ways.items():
            progress(f"reducing, {way}")
            found[way] = _alone(job)
    one, errors = found["one"], determined_errors(found["one"].result, arm)
    q = np.concatenate([episode(robot, arm, seconds, 1000 * seed + k)[::10, 1 : 1 + robot.size] for k in range(5)])
    dask = found.get("dask")
    return {
        "episodes": made,
        "hours": made * seconds / 3600.0,
        "rows": round(made * seconds * RATE_HZ),
        "seconds_one": one.seconds,
        "seconds_two": found["two"].seconds,
        "seconds_dask": None if dask is None else dask.seconds,
        "difference_two": _difference(one.result, found["two"].result),
        "difference_dask": None if dask is None else _difference(one.result, dask.result),
        "peak_mib": one.peak_mib,
        "peak_mib_of_a_tenth": found["tenth"].peak_mib,
        "peak_mib_of_a_child_of_two": found["two"].peak_of_a_child_mib,
        "seconds_making": making_s,
        "delay_error_ms": 1e3 * (delay_of(one.result).value - LATE_S),
        "gravity_error": gravity_error(robot, one.result, arm, q),
        "accepted": one.result.verdict.accepted,
        "determined": len(errors),
        "worst_determined_error": max(map(abs, errors.values()), default=float("nan")),
    }
