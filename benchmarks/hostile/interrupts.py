"""Whole chains interrupted at random moments: remaining processes and files, and the time until the arm is at rest."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks.children import child_environment
from dynid.nodes.domain import DOMAIN_VARIABLE
from dynid.parent import PARENT_VARIABLE

SIGNALS = (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # most are a user's Ctrl-C
EARLIEST_S = 0.2  # earliest interrupt; before, only Python itself starts [s]
START_S = 15.0  # duration of the chain's start, in which half of the interrupts come [s]
TIMEOUT_S, CHECK_INTERVAL_S = 120.0, 0.05
SLOWEST_S = 12.0  # longest allowed end [s]
BEGIN_S = 120.0  # longest wait for a process to interrupt [s]
TRACE = "Traceback (most recent call last)"
CLOCKS = "dynid-clock-*"
PYTHON = "python"  # name for the output of processes before the first line of this package is run


class Subject(Protocol):
    """Program that is started and interrupted; every method gets the folder of the run."""

    def command(self, folder: Path) -> list[str]:
        """Return the command, which prints into `output.txt`."""

    def environment(self, folder: Path) -> Mapping[str, str]:
        """Return its environment; called once, before the command is started."""

    def begun(self, folder: Path) -> bool:
        """Return whether the time to the interrupt begins."""

    def texts(self, folder: Path) -> dict[str, str]:
        """Return the output and logs of the processes, by name."""


@dataclass(frozen=True)
class Demo:
    """Subject `dynid demo`, or another command with `--out`."""

    words: tuple[str, ...] = (sys.executable, "-m", "dynid", "demo")

    def command(self, folder: Path) -> list[str]:
        """See `Subject`."""
        return [*self.words, "--out", str(folder / "run")]

    def environment(self, folder: Path) -> Mapping[str, str]:
        """Return this process's environment without its ROS domain, since every demo reserves one."""
        return {key: value for key, value in os.environ.items() if key != DOMAIN_VARIABLE} | child_environment()

    def begun(self, folder: Path) -> bool:
        """Return True at once."""
        return True

    def texts(self, folder: Path) -> dict[str, str]:
        """See `Subject`."""
        texts = {path.stem: path.read_text(encoding="utf-8", errors="replace") for path in folder.rglob("*.log")}
        return texts | {"demo": (folder / "output.txt").read_text(encoding="utf-8", errors="replace")}


@dataclass(frozen=True)
class Ended:
    """State that an interrupted chain left.

    Attributes:
        what: name of the interrupted subject.
        number: number of the signal.
        after_s: time of the signal [s].
        seconds: time from the signal until the last process had ended [s].
        code: exit code.
        texts: output and logs of the processes, by name.
        left: remaining processes and files, in words.
        early: whether it had ended before the signal came.
    """

    what: str
    number: int
    after_s: float
    seconds: float
    code: int
    texts: dict[str, str]
    left: tuple[str, ...]
    early: bool = False

    @property
    def traces(self) -> int:
        """Number of its processes that printed a traceback."""
        return len(self.traced)

    @property
    def traced(self) -> list[str]:
        """Processes that printed a traceback, with its last line."""
        return [
            f"{name}: {text.strip().splitlines()[-1]}"
            for name, text in self.texts.items()
            if TRACE in text and name != PYTHON
        ]

    @property
    def poor(self) -> bool:
        """Whether the run has a finding."""
        return bool(self.left or self.traces or self.torque_on or self.early or self.seconds > SLOWEST_S)

    def keep(self, folder: Path) -> None:
        """Write the output and logs of each process into a new folder."""
        folder.mkdir(parents=True)
        for name, text in self.texts.items():
            (folder / f"{name}.txt").write_text(text, encoding="utf-8")

    @property
    def torque_on(self) -> bool:
        """Whether a servo was left with torque or current, or the arm did not report its state."""
        said = self._arm()
        if said is None:
            return len(self._arm_lines) > 1 or (bool(self._arm_lines) and not self._without_port)
        return any(said["torque_enabled"]) or any(said["drive_current_a"])

    @property
    def torque_was_on(self) -> bool:
        """Whether torque had been on before."""
        return any((self._arm() or {}).get("torque_was_enabled", ()))

    @property
    def _arm_lines(self) -> list[str]:
        """Return the lines that the arm printed; empty if it was not started or its servos were not used yet."""
        return self.texts.get("simulated_arm", "").strip().splitlines()

    def _arm(self) -> dict[str, Any] | None:
        """Return the arm's report at its end; None without one."""
        try:
            said = json.loads(self._arm_lines[-1])
            return said if {"torque_enabled", "drive_current_a"} <= set(said) else None
        except (ValueError, IndexError, TypeError):
            return None

    @property
    def _without_port(self) -> bool:
        """Whether no process had opened the arm's port yet."""
        return not any("cycle rate" in text for text in self.texts.values())


def figures(runs: list[Ended]) -> dict[str, Any]:
    """Return the counts over all runs, and each run with a finding."""
    poor = [run for run in runs if run.poor]
    return {
        "runs": len(runs),
        "left_behind": sum(len(run.left) for run in runs),
        "tracebacks": sum(run.traces for run in runs),
        "torque_on_at_end": sum(run.torque_on for run in runs),
        "slowest_s": round(max((run.seconds for run in runs), default=0.0), 2),
        "tracebacks_of_python_starting": sum(TRACE in run.texts.get(PYTHON, "") for run in runs),
        "ended_before": sum(run.early for run in runs),
        "torque_had_been_on": sum(run.torque_was_on for run in runs),
        "findings": [
            f"{run.what}, {signal.Signals(run.number).name} after {run.after_s:.2f} s: ended in {run.seconds:.1f} s, "
            f"{', '.join(run.left) or 'nothing left'}, tracebacks: {', '.join(run.traced) or 'none'}, "
            f"torque {'on' if run.torque_on else 'off'}, "
            f"exit code {run.code}{' before the signal' if run.early else ''}"
            for run in poor
        ],
    }


def interrupted(runs: int, latest_s: float, seed: int) -> Iterator[Ended]:
    """Run the demo `runs` times and interrupt each run, half of them during the start, the others up to `latest_s`."""
    rng = random.Random(seed)
    for k in range(runs):
        most = min(START_S, latest_s) if k % 2 == 0 else latest_s
        yield interrupt(Demo(), "demo", rng.uniform(EARLIEST_S, most), rng.choice(SIGNALS))


def interrupt(subject: Subject, what: str, after_s: float, number: int, *, everybody: bool = False) -> Ended:
    """Start one subject in a folder of its own, send it a signal, and return the state that it leaves.

    Args:
        subject: the program.
        what: its name for the findings.
        after_s: time of the signal after the subject reports its begin [s].
        number: number of the signal.
        everybody: whether the signal reaches all of its processes, like a signal of a terminal.
    """
    with tempfile.TemporaryDirectory(prefix="dynid-interrupt-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        environment = subject.environment(folder)
        before = _clocks(environment)
        with (folder / "output.txt").open("wb") as stream:
            process = subprocess.Popen(
                subject.command(folder),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                preexec_fn=_heed_signals,
            )
        try:
            early, seconds, left = _interrupted(process, lambda: subject.begun(folder), after_s, number, everybody)
            left += [str(path) for path in sorted(_clocks(environment) - before)]
        finally:  # also if this benchmark is interrupted, as the process has its own session
            process.kill()
            code = process.wait()
            _end(process.pid)
        texts = subject.texts(folder)
    return Ended(what, number, after_s, seconds, code, texts, tuple(left), early)


def _heed_signals() -> None:
    """Restore signal handling, which shells in the background and nohup disable for their children."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _interrupted(
    process: subprocess.Popen[bytes], begun: Callable[[], bool], after_s: float, number: int, everybody: bool
) -> tuple[bool, float, list[str]]:
    """Send the signal in time; return whether it came too late, the seconds to the end, and remaining processes."""
    _wait(lambda: process.poll() is not None or begun(), BEGIN_S)
    _wait(lambda: process.poll() is not None, after_s)
    early = process.poll() is not None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number) if everybody else process.send_signal(number)
    begin = time.monotonic()
    _wait(lambda: process.poll() is not None and not children(process.pid), TIMEOUT_S)
    seconds = time.monotonic() - begin
    left = sorted(children(process.pid) | ({process.pid} if process.poll() is None else set()))
    return early, seconds, [f"process {pid}" for pid in left]


def children(parent: int) -> set[int]:
    """Return the processes that were started to end together with another process."""
    marker, found = f"{PARENT_VARIABLE}={parent}".encode(), set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
            if marker in path.read_bytes().split(b"\0"):
                found.add(int(path.parts[2]))
    return found


def _end(parent: int) -> None:
    for pid in children(parent):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _clocks(environment: Mapping[str, str]) -> set[Path]:
    return set(Path(environment.get("TMPDIR") or tempfile.gettempdir()).glob(CLOCKS))


def _wait(condition: Callable[[], bool], longest_s: float) -> None:
    end_s = time.monotonic() + longest_s
    while not condition() and time.monotonic() < end_s:
        time.sleep(CHECK_INTERVAL_S)
