"""Repeated starts of the chain under the conditions of new users: empty caches, other load, one processor."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.children import child_environment
from dynid.codegen.cache import CACHE_VARIABLE

BUSY = "while True: pass"
MOST_MISSED = 0.01  # share of cycles, from which on a rate counts as not kept
TIMEOUT_S = 600.0
NUMBA_VARIABLE = "NUMBA_CACHE_DIR"


@dataclass(frozen=True)
class Condition:
    """Condition of a start.

    Attributes:
        name: name of the table's row.
        cold: whether all caches of compiled functions are empty.
        busy: number of other processes that compute meanwhile.
        one_processor: whether all of its processes share one processor.
    """

    name: str
    cold: bool
    busy: int = 0
    one_processor: bool = False


CONDITIONS = (
    *(
        Condition(f"{'empty' if cold else 'full'} caches, {beside}", cold, busy, one)
        for cold in (True, False)
        for beside, busy, one in (("two busy processes beside", 2, False), ("one processor", 0, True))
    ),
    Condition("full caches, one busy process beside", cold=False, busy=1),
    Condition("full caches, nothing beside", cold=False),
)


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep some processes computing while the block runs."""
    children = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def started(condition: Condition, seconds: float, full: Path) -> dict[str, Any]:
    """Start the chain once in processes of its own.

    Args:
        condition: condition of the start.
        seconds: time in which cycles are counted [s].
        full: folder of full caches, for starts that are not cold.

    Returns:
        The report of `one_start.start_once`, and `kept`: whether less than 1 % of the cycles were missed.
    """
    with tempfile.TemporaryDirectory(prefix="dynid-start-") as folder, busy_processes(condition.busy):
        cache = Path(folder) / "cache" if condition.cold else full
        environment = {
            **os.environ,
            **child_environment(),
            CACHE_VARIABLE: str(cache),
            NUMBA_VARIABLE: str(cache / "numba"),
        }
        command = [sys.executable, "-m", "benchmarks.starts.one_start", f"{folder}/logs", str(seconds)]
        if condition.one_processor:
            command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"condition": condition.name, "up": False, "why": reason, "kept": False}
    result: dict[str, Any] = {"condition": condition.name, **json.loads(lines[-1])}
    result["kept"] = result["up"] and result["missed_share"] <= MOST_MISSED
    return result
