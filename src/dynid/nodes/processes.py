"""Nodes as processes: started in sessions of their own, logged to files, ended by their id, none left running."""

import contextlib
import os
import signal
import subprocess  # nosec - argument lists only, no shell
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType

from dynid.errors import NodeError
from dynid.nodes.entry import ENDING
from dynid.parent import PARENT_VARIABLE

GRACE_S = 32.0  # the hardware node lowers the arm first; in held time that takes longer
LAST_LINES = 5
Handler = Callable[[int, FrameType | None], object] | int


class Process:
    """One child process of this package.

    It gets a session of its own, so that Ctrl-C reaches only the parent, which then ends its children in a safe order;
    should the parent die without a word, the kernel ends the child.
    """

    def __init__(self, name: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.name, self.log = name, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stream:
            self._child = subprocess.Popen(  # noqa: S603 - a fixed argument list, no shell
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **environment, PARENT_VARIABLE: str(os.getpid()), "PYTHONUNBUFFERED": "1"},
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self._child.poll() is None

    def last_words(self) -> str:
        """The end of its log, for a message about why it ended."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return " | ".join(lines[-LAST_LINES:]) or "it printed nothing"

    def last_error(self) -> str:
        """The last error that it logged, without time and name; '' if none."""
        for line in reversed(self.log.read_text(encoding="utf-8", errors="replace").splitlines()):
            if line.startswith(("[ERROR]", "[FATAL]")):
                return line.split("]: ", 1)[-1]
            if line.startswith("error: "):
                return line.removeprefix("error: ")
        return ""

    def check(self) -> None:
        """Raise NodeError if it has ended."""
        if not self.running:
            reason = self.last_error() or self.last_words()
            raise NodeError(f"{self.name} ended with code {self._child.returncode}: {reason}")

    def stop(self) -> int:
        """End it: SIGTERM, then SIGINT, then SIGKILL; returns its exit code.

        A node takes both first ones alike; one that is still loading ends by the first without a traceback.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            if not self.running:
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(GRACE_S)
        return self._child.wait()

    def ask(self) -> None:
        """Ask it to end, and do not wait."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> int:
        """End it at once, without a chance to tidy up; returns its exit code."""
        self._child.kill()
        return self._child.wait()


@contextlib.contextmanager
def signals_handled(handlers: Mapping[int, Handler]) -> Iterator[None]:
    """Handle signals, by number, like this while the block runs, and then as before.

    Only the main thread may do that; in another the block runs with the handlers that there are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, signal.SIG_DFL if former is None else former)  # None: not set by Python


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Signals to end that come meanwhile are taken up at the end; the child starts with the usual handling."""
    came: list[int] = []
    try:
        with signals_handled({number: lambda n, _: came.append(n) for number in ENDING}):
            yield
    finally:
        for late in came:
            signal.raise_signal(late)


class ProcessGroup:
    """Processes that live and end together: the first one started ends last.

    Args:
        logs: folder of their logs.
        environment: what is added to this process' own.
        place: called with name and process id of each one that was started.
    """

    def __init__(
        self, logs: Path, environment: Mapping[str, str], place: Callable[[str, int], None] | None = None
    ) -> None:
        self._logs, self._environment, self._place = logs, dict(environment), place
        self.processes: list[Process] = []

    def start(self, name: str, arguments: Sequence[str]) -> Process:
        """Start one; arguments are those of this Python."""
        with _interrupts_held():  # a process that is not in the list yet would be left running
            process = Process(name, arguments, self._logs / f"{name}.log", self._environment)
            self.processes.append(process)
        if self._place is not None:
            self._place(name, process.pid)
        return process

    def start_node(self, module: str, name: str, parameters: Mapping[str, str] | None = None) -> Process:
        """Start a node of dynid.nodes under its name with parameters."""
        return self.start_module(f"dynid.nodes.{module}", name, parameters)

    def start_module(self, module: str, name: str, parameters: Mapping[str, str] | None = None) -> Process:
        """Start a node by its module's full name."""
        pairs = [text for key, value in (parameters or {}).items() for text in ("-p", f"{key}:={value}")]
        ros = ["--ros-args", *pairs] if pairs else []
        return self.start(name, ["-m", module, *ros])

    def check(self) -> None:
        """Raise NodeError if one has ended."""
        for process in self.processes:
            process.check()

    def kill(self, process: Process) -> None:
        """End one process at once; the others go on without it."""
        self.processes.remove(process)
        process.kill()

    def stop(self) -> None:
        """End all, at once but for the first: an arm, which the others bring to rest."""
        for process in self.processes[:0:-1]:
            process.ask()
        for process in reversed(self.processes):
            process.stop()

    def __enter__(self) -> "ProcessGroup":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # a second Ctrl-C must not interrupt the way to zero current
        with signals_handled(dict.fromkeys(ENDING, signal.SIG_IGN)):
            self.stop()
