"""Processor time of a control cycle by process and part, compared with another checkout and with a minimum."""

import json
import os
import statistics
import subprocess  # nosec - a fixed argument list, no shell
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.chain.cost_chain import NAMES
from benchmarks.chain.cost_floor import bus_floor, node_floor
from benchmarks.children import CHECKOUT
from dynid.codegen.cache import CACHE_VARIABLE, cache_folder
from dynid.errors import DynidError

HERE, BESIDE = "here", "beside"
STARTS_S = 240.0  # longest start, with empty caches [s]
Said = Callable[[str], None]


@dataclass(frozen=True)
class CostFigures:
    """Processor time per control cycle [us]; medians over the runs of each checkout.

    Attributes:
        rate_hz: rate of the cycle.
        seconds: measured time of each run [s].
        processes: processor time by checkout ("here", "beside") and process.
        runs: the same for every run, in their order.
        parts: processor time by process and part, of this checkout; counting the parts makes a cycle more expensive.
        ratio: ratio of this checkout to the other one for each process; empty without another checkout.
        floor: processor time on this machine for the bytes of the bus, and for nodes that only receive and publish.
    """

    rate_hz: int
    seconds: float
    processes: dict[str, dict[str, float]]
    runs: dict[str, list[dict[str, float]]]
    parts: dict[str, dict[str, float]]
    ratio: dict[str, float]
    floor: dict[str, float]


def measure(robot: str, seconds: float, rate_hz: int, runs: int, beside: Path | None, said: Said) -> CostFigures:
    """Run the chain of each checkout in turn, then with its parts counted, then measure the minimum.

    Args:
        robot: robot name or folder.
        seconds: measured time of each run [s].
        rate_hz: rate of the control cycle.
        runs: number of runs of each checkout.
        beside: another checkout; None measures this one alone.
        said: function that gets a line of text before each run.

    Raises:
        DynidError: there is no checkout, or a run failed.
    """
    sources = {HERE: CHECKOUT / "src"} | ({} if beside is None else {BESIDE: beside / "src"})
    for folder in sources.values():
        if not (folder / "dynid").is_dir():
            raise DynidError(f"{folder.parent} is no checkout: it has no folder src/dynid")
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
    for number in range(runs):
        for name, folder in sources.items():
            said(f"run {number + 1} of {runs}, {name}")
            found[name].append(_run(folder, robot, seconds, rate_hz)["us"])
    said("parts")
    with tempfile.TemporaryDirectory() as parts:
        by_part = _run(sources[HERE], robot, seconds, rate_hz, Path(parts))
    said("floor")
    floor = {"bus": bus_floor(seconds, rate_hz)} | node_floor(seconds, rate_hz)
    medians = {name: medians_of(of) for name, of in found.items()}
    ratio = {one: medians[HERE][one] / medians[BESIDE][one] for one in medians[HERE]} if beside is not None else {}
    return CostFigures(rate_hz, seconds, medians, found, with_rest(by_part["parts_us"], by_part["us"]), ratio, floor)


def medians_of(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each process over its runs."""
    return {name: statistics.median(one[name] for one in runs) for name in runs[0]}


def with_rest(parts: Mapping[str, Mapping[str, float]], whole: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return the parts of each process, the largest first, and the rest of the whole, without empty parts."""
    found = {}
    for name, times in parts.items():
        counted = {part: us for part, us in times.items() if us > 0.0}
        counted["middleware and the rest"] = whole[name] - sum(counted.values())
        found[name] = dict(sorted(counted.items(), key=lambda one: -one[1]))
    return found


def _run(sources: Path, robot: str, seconds: float, rate_hz: int, parts: Path | None = None) -> dict[str, Any]:
    """Measure the chain of these sources in a process of its own; each checkout compiles into a cache of its own."""
    cache = cache_folder() if sources == CHECKOUT / "src" else cache_folder() / "beside"
    environment = {**os.environ, "PYTHONPATH": f"{sources}{os.pathsep}{CHECKOUT}", CACHE_VARIABLE: str(cache)}
    command = [sys.executable, "-m", "benchmarks.chain.cost_chain", robot, str(seconds), str(rate_hz)]
    ended = subprocess.run(
        command + ([str(parts)] if parts is not None else []),
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds + STARTS_S,
        check=False,
    )
    if ended.returncode:
        last = next(iter(ended.stderr.strip().splitlines()[-1:]), "it printed nothing")
        raise DynidError(f"the chain of {sources.parent} could not be measured: {last}")
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    if set(found["us"]) != set(NAMES.values()):
        raise DynidError(f"the chain of {sources.parent} lacks a process: it has {', '.join(found['us'])}")
    return found
