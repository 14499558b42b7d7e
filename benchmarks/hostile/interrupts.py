"""`dynid demo` interrupted at random moments: what is left of it, and how soon is the arm at rest?"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.children import child_environment
from dynid.nodes.domain import CHOSEN
from dynid.parent import PARENT_VARIABLE

SIGNALS = (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # most are a user's Ctrl-C
EARLIEST_S = 0.2  # before that, it is Python that starts: none of this package's code runs
START_S = 15.0  # half of the interrupts come while the chain starts
TIMEOUT_S, LOOK_S = 120.0, 0.05
TRACE = "Traceback (most recent call last)"
CLOCKS = "dynid-clock-*"


@dataclass(frozen=True)
class Ended:
    """What an interrupted demo left.

    Attributes:
        number: the signal.
        after_s: when it came [s].
        seconds: from then on until the last process had ended [s].
        code: exit code.
        texts: what the processes printed and logged, by name.
        left: processes and files that were left behind, in words.
    """

    number: int
    after_s: float
    seconds: float
    code: int
    texts: dict[str, str]
    left: tuple[str, ...]

    @property
    def traces(self) -> int:
        """How many of its processes printed a traceback."""
        return len(self.traced)

    @property
    def traced(self) -> list[str]:
        """Which ones, with the last line that each printed."""
        return [f"{name}: {text.strip().splitlines()[-1]}" for name, text in self.texts.items() if TRACE in text]

    @property
    def torque_on(self) -> bool:
        """Whether a servo was left with torque on, or current; also where the arm does not say so."""
        lines = self.texts.get("simulated_arm", "").strip().splitlines()
        if not lines:
            return False  # it was not started, or its servos were not touched yet
        try:
            summary = json.loads(lines[-1])
            return any(summary["torque_enabled"]) or any(summary["drive_current_a"])
        except (ValueError, KeyError, TypeError):
            return len(lines) > 1 or not self._without_port

    @property
    def _without_port(self) -> bool:
        """Whether nobody had opened the arm's port yet."""
        return "cycle rate" not in self.texts.get("hardware", "")


def figures(runs: list[Ended]) -> dict[str, Any]:
    """The counts over all runs, and each run that is worth a look."""
    poor = [run for run in runs if run.left or run.traces or run.torque_on]
    return {
        "runs": len(runs),
        "left_behind": sum(len(run.left) for run in runs),
        "tracebacks": sum(run.traces for run in runs),
        "torque_on_at_end": sum(run.torque_on for run in runs),
        "slowest_s": round(max((run.seconds for run in runs), default=0.0), 2),
        "findings": [
            f"{signal.Signals(run.number).name} after {run.after_s:.2f} s: {', '.join(run.left) or 'nothing left'}, "
            f"tracebacks: {', '.join(run.traced) or 'none'}, torque {'on' if run.torque_on else 'off'}, "
            f"exit code {run.code}"
            for run in poor
        ],
    }


def interrupted(runs: int, latest_s: float, seed: int) -> Iterator[Ended]:
    """Run the demo so often and interrupt each one, half of them in its start, the others up to `latest_s`."""
    rng = random.Random(seed)
    for k in range(runs):
        most = min(START_S, latest_s) if k % 2 == 0 else latest_s
        yield interrupt([sys.executable, "-m", "dynid", "demo"], rng.uniform(EARLIEST_S, most), rng.choice(SIGNALS))


def interrupt(command: list[str], after_s: float, number: int) -> Ended:
    """Start one demo with a folder for its output, send it a signal, and look at what it leaves."""
    before = _clocks()
    with tempfile.TemporaryDirectory(prefix="dynid-interrupt-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        environment = {key: value for key, value in os.environ.items() if key != CHOSEN} | child_environment()
        with (folder / "output.txt").open("wb") as stream:
            process = subprocess.Popen(
                [*command, "--out", str(folder / "run")], stdout=stream, stderr=subprocess.STDOUT, env=environment
            )
        _wait(lambda: process.poll() is not None, after_s)
        process.send_signal(number)
        begin = time.monotonic()
        _wait(lambda: process.poll() is not None and not children(process.pid), TIMEOUT_S)
        seconds = time.monotonic() - begin
        left = [f"process {pid}" for pid in children(process.pid)]
        left += [str(path) for path in sorted(_clocks() - before)]
        if process.poll() is None:
            left.append(f"process {process.pid}")
            process.kill()
        code = process.wait()
        _end(process.pid)
        texts = {path.stem: path.read_text(encoding="utf-8", errors="replace") for path in folder.rglob("*.log")}
        texts["demo"] = (folder / "output.txt").read_text(encoding="utf-8", errors="replace")
    return Ended(number, after_s, seconds, code, texts, tuple(left))


def children(parent: int) -> set[int]:
    """Processes that were started to end with another one."""
    marker, found = f"{PARENT_VARIABLE}={parent}".encode(), set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            if marker in path.read_bytes().split(b"\0"):
                found.add(int(path.parts[2]))
    return found


def _end(parent: int) -> None:
    for pid in children(parent):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _clocks() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob(CLOCKS))


def _wait(condition: Callable[[], bool], longest_s: float) -> None:
    end_s = time.monotonic() + longest_s
    while not condition() and time.monotonic() < end_s:
        time.sleep(LOOK_S)
