"""Processes of one checkout's chain, and the processor time of each of them per control cycle.

Run as a module, in a process whose path chooses the checkout: `python -m benchmarks.chain.cost_chain ROBOT SECONDS HZ`;
the last line of its output is the result as JSON. With a folder as fourth argument the processes are started by
`benchmarks.chain.cost_node`, which also counts the time of each part, and so takes more time itself.
"""

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.chain.cost_node import PARTS_FILE, WAIT_S
from dynid.nodes.chain import Chain, ChainOptions
from dynid.nodes.collect import begin_recording
from dynid.nodes.processes import Process
from dynid.recording.completeness import DRIVER
from dynid.robot import load_robot

MOTION, PROFILE = "demo_identification", "limited"
NAMES = {"hardware": "driver", "executor": "executor", "recorder": "recorder", "simulated_arm": "simulated arm"}
APPROACH_S = 3.0  # time until the motion runs [s]
REPORT_S = 30.0


class CostChain(Chain):
    """Chain whose processes may count the time of their parts.

    Args:
        parts: folder for the counted times; None counts nothing.
    """

    def __init__(self, robot: str, rate_hz: int, logs: Path, parts: Path | None) -> None:
        options = ChainOptions(robot, identification=False, wire_time=True, paused_clock=False, rate_hz=rate_hz)
        super().__init__(load_robot(robot), options, logs)
        self._parts, self._plain_start = parts, self._group.start
        self._group.start = self._counting_start  # type: ignore[method-assign]

    def _counting_start(self, name: str, arguments: Sequence[str]) -> Process:
        if self._parts is None or name not in NAMES:
            return self._plain_start(name, arguments)
        os.environ[PARTS_FILE] = str(self._parts / name)
        try:
            return self._plain_start(name, ["-m", "benchmarks.chain.cost_node", *arguments[1:]])
        finally:
            del os.environ[PARTS_FILE]

    def __enter__(self) -> "CostChain":
        super().__enter__()
        return self

    def pids(self) -> dict[str, int]:
        """Return the process id of each process that is measured."""
        return {NAMES[one.name]: one.pid for one in self._group.processes if one.name in NAMES}


def processor_ns(pid: int) -> int:
    """Return the processor time of all living threads of a process so far [ns]."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((one / "schedstat").read_text(encoding="ascii").split()[0]) for one in threads)


def measure(robot: str, seconds: float, rate_hz: int, parts: Path | None = None) -> dict[str, Any]:
    """Return the processor time per cycle of each process [us], and of its parts, while a motion is executed.

    Raises:
        NodeError: a node refused, or ended.
    """
    with tempfile.TemporaryDirectory() as folder, CostChain(robot, rate_hz, Path(folder) / "logs", parts) as chain:
        chain.bring_up()
        begin_recording(chain.supervisor, MOTION, PROFILE, Path(folder) / "bag")
        chain.supervisor.trigger("executor/execute")
        began_s = time.monotonic()
        chain.supervisor.wait(lambda: time.monotonic() - began_s > APPROACH_S, REPORT_S, "the passing of time")
        first = _reading(chain, parts)
        end_s = time.monotonic() + seconds
        chain.supervisor.wait(lambda: time.monotonic() > end_s, seconds + REPORT_S, "the passing of time")
        last = _reading(chain, parts)
        chain.supervisor.set_enabled("hardware", False)
    cycles = last["cycles"] - first["cycles"]
    used = {name: (last["ns"][name] - first["ns"][name]) / cycles * 1e-3 for name in first["ns"]}
    return {
        "rate_hz": round(cycles / (last["at_s"] - first["at_s"]), 1),
        "us": used,
        "parts_us": {name: _per_cycle(first["parts"][name], last["parts"][name], cycles) for name in first["parts"]},
    }


def _per_cycle(first: Mapping[str, int], last: Mapping[str, int], cycles: int) -> dict[str, float]:
    return {part: (last[part] - first.get(part, 0)) / cycles * 1e-3 for part in last}


def _reading(chain: CostChain, parts: Path | None) -> dict[str, Any]:
    """Wait for the driver's next report; return its cycles and the processor time of every process at that moment."""
    call = chain.supervisor
    before = call.reports.get(DRIVER)
    call.wait(lambda: call.reports.get(DRIVER) is not before, REPORT_S, "a report of the driver")
    pids = chain.pids()
    found: dict[str, Any] = {"cycles": int(call.reported(DRIVER, "cycles")), "at_s": time.monotonic(), "parts": {}}
    found["ns"] = {name: processor_ns(pid) for name, pid in pids.items()}
    if parts is not None:
        found["parts"] = _read_parts(chain, parts)
    return found


def _read_parts(chain: CostChain, parts: Path) -> dict[str, dict[str, int]]:
    """Make each process write its counted times, and return them by process and part [ns]."""
    found = {}
    for name, label in NAMES.items():
        file = parts / name
        file.unlink(missing_ok=True)
        os.kill(chain.pids()[label], signal.SIGUSR2)
        end_s = time.monotonic() + WAIT_S
        while not file.exists() and time.monotonic() < end_s:
            time.sleep(0.01)
        found[label] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def main() -> None:
    """Measure, and print the result."""
    robot, seconds, rate_hz = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    parts = Path(sys.argv[4]) if len(sys.argv) > 4 else None
    print(json.dumps(measure(robot, seconds, rate_hz, parts)), flush=True)


if __name__ == "__main__":
    main()
