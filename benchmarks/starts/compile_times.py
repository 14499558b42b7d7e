"""Compile time of each function, and the jobs that need it; each job runs in a process with empty caches."""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.children import child_environment
from dynid.codegen.cache import CACHE_VARIABLE
from dynid.errors import DataError
from dynid.rehearsal.compiling import FIRST_ROBOT, JOB_GROUPS
from dynid.rehearsal.job import JOBS
from dynid.robot import load_robot

NUMBA_VARIABLE = "NUMBA_CACHE_DIR"
LINE = "compiled: "


@dataclass(frozen=True)
class CompileTime:
    """One compiled function.

    Attributes:
        name: module and name, without `dynid.`.
        seconds: processor time of all its variants, without the functions that it calls [s].
        variants: number of signatures.
        users: jobs that need it.
    """

    name: str
    seconds: float
    variants: int
    users: tuple[str, ...]


def listen() -> None:
    """Print one line for each function that this process compiles from now on."""
    import numba.core.event as events

    stack: list[list[float]] = []  # for each function being compiled: its start, and the time of its callees [s]

    class Listener(events.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            stack.append([time.process_time(), 0.0])

        def on_end(self, event: Any) -> None:
            began, inner = stack.pop()
            whole = time.process_time() - began
            if stack:
                stack[-1][1] += whole
            function = event.data["dispatcher"].py_func
            name = f"{function.__module__}.{function.__qualname__}"
            print(LINE + json.dumps([name, whole - inner]), flush=True)

    events.register("numba:compile", Listener())


def measure(job: str) -> list[tuple[str, float]]:
    """Return (function, seconds) of everything that a job compiles in a new process with empty caches.

    Raises:
        DataError: the process failed; its last line says why.
    """
    with tempfile.TemporaryDirectory(prefix="dynid-compile-") as folder:
        caches = {CACHE_VARIABLE: folder, NUMBA_VARIABLE: f"{folder}/numba"}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.starts.compile_times", job],
            env={**os.environ, **child_environment(), **caches, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise DataError(f"job {job} failed: {(done.stderr.strip().splitlines() or ['it printed nothing'])[-1]}")
    lines = [line for line in done.stdout.splitlines() if line.startswith(LINE)]
    return [tuple(json.loads(line.removeprefix(LINE))) for line in lines]


def compile_times() -> list[CompileTime]:
    """Return every function that is compiled before a chain or an identification begins, the longest first."""
    found: dict[str, dict[str, list[float]]] = {}
    for job in (job for share in JOB_GROUPS for job in share):
        for name, seconds in measure(job):
            found.setdefault(name, {}).setdefault(job, []).append(seconds)
    times = [
        CompileTime(
            name.removeprefix("dynid."),
            max(sum(seconds) for seconds in users.values()),
            max(len(seconds) for seconds in users.values()),
            tuple(users),
        )
        for name, users in found.items()
    ]
    return sorted(times, key=lambda one: -one.seconds)


if __name__ == "__main__":
    Path(os.environ[CACHE_VARIABLE]).mkdir(exist_ok=True)
    listen()
    JOBS[sys.argv[1]](load_robot(FIRST_ROBOT), None)
