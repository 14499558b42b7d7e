"""Child processes for nodes: each runs in its own session and logs to a file, and none is left running."""

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

GRACE_S = 32.0  # time to end after each signal; the hardware node lowers the arm first, slower with a paused clock
LAST_LINES = 5
Handler = Callable[[int, FrameType | None], object] | int


class Process:
    """Python program that runs as a child process, with a log file.

    It has its own session, so that Ctrl-C reaches only the parent, which then ends its children in a safe order. If the
    parent dies without ending them, the kernel ends the child.

    Args:
        name: name of the process in messages.
        arguments: arguments of the Python interpreter.
        log: file to which the output is appended.
        environment: variables added to the environment of this process.
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
        """Process id of the child."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the process is still running."""
        return self._child.poll() is None

    def last_lines(self) -> str:
        """Return the last lines of the process's log, for a message about why the process ended."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return " | ".join(lines[-LAST_LINES:]) or "it printed nothing"

    def last_error(self) -> str:
        """Return the last error in the process's log, without time and logger name; "" if there is no error."""
        for line in reversed(self.log.read_text(encoding="utf-8", errors="replace").splitlines()):
            if line.startswith(("[ERROR]", "[FATAL]")):
                return line.split("]: ", 1)[-1]
            if line.startswith("error: "):
                return line.removeprefix("error: ")
        return ""

    def check(self) -> None:
        """Raise NodeError with the last error of the log if the process has ended."""
        if not self.running:
            reason = self.last_error() or self.last_lines()
            raise NodeError(f"{self.name} ended with code {self._child.returncode}: {reason}")

    def stop(self) -> int:
        """End the process by SIGTERM or, if it continues, SIGINT and finally SIGKILL; return its exit code.

        A node handles SIGTERM and SIGINT alike. SIGTERM comes first because a node that is still loading then ends
        without a traceback.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            if not self.running:
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(GRACE_S)
        return self._child.wait()

    def request_stop(self) -> None:
        """Send SIGTERM to the process, without waiting for its end."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> int:
        """End the process at once, without any cleanup, and return its exit code."""
        self._child.kill()
        return self._child.wait()


@contextlib.contextmanager
def signals_handled(handlers: Mapping[int, Handler]) -> Iterator[None]:
    """Install signal handlers, given by signal number, while the `with` block runs; then restore the former ones.

    Only the main thread may install handlers. In another thread the block runs with the present handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler_before in earlier.items():
            # None: the handler was not set by Python
            signal.signal(number, signal.SIG_DFL if handler_before is None else handler_before)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Delay SIGINT, SIGTERM and SIGHUP until the `with` block has ended.

    A child process that is started in the block handles them as usual.
    """
    received: list[int] = []
    try:
        with signals_handled({number: lambda n, _: received.append(n) for number in ENDING}):
            yield
    finally:
        for deferred in received:
            signal.raise_signal(deferred)


class ProcessGroup:
    """Context manager for a group of child processes that end together: the process that was started first ends last.

    Args:
        logs: folder of the processes' log files.
        environment: variables added to the environment of this process.
        place: called with name and process id of each started process, for example to set its processors.

    Attributes:
        processes: processes of the group in the order of their start.
    """

    def __init__(
        self, logs: Path, environment: Mapping[str, str], place: Callable[[str, int], None] | None = None
    ) -> None:
        self._logs, self._environment, self._place = logs, dict(environment), place
        self.processes: list[Process] = []

    def start(self, name: str, arguments: Sequence[str]) -> Process:
        """Start a Python process with these arguments of the interpreter; `name` is the name of its log file."""
        with _interrupts_held():  # an interrupt before the process is in the list would leave it running
            process = Process(name, arguments, self._logs / f"{name}.log", self._environment)
            self.processes.append(process)
        if self._place is not None:
            self._place(name, process.pid)
        return process

    def start_node(self, module: str, name: str, parameters: Mapping[str, str] | None = None) -> Process:
        """Start a node of dynid.nodes, and return its process.

        Args:
            module: name of the node's module in dynid.nodes.
            name: name of the process and of its log file.
            parameters: ROS parameters of the node by name.
        """
        return self.start_module(f"dynid.nodes.{module}", name, parameters)

    def start_module(self, module: str, name: str, parameters: Mapping[str, str] | None = None) -> Process:
        """Start a node that may be outside dynid.nodes, and return its process.

        Args:
            module: full name of the node's module.
            name: name of the process and of its log file.
            parameters: ROS parameters of the node by name.
        """
        pairs = [text for key, value in (parameters or {}).items() for text in ("-p", f"{key}:={value}")]
        ros = ["--ros-args", *pairs] if pairs else []
        return self.start(name, ["-m", module, *ros])

    def check(self) -> None:
        """Raise NodeError if any process of the group has ended."""
        for process in self.processes:
            process.check()

    def kill(self, process: Process) -> None:
        """Kill one process and remove it from the group; the other processes continue."""
        self.processes.remove(process)
        process.kill()

    def stop(self) -> None:
        """End all processes of the group; the process that was started first ends last.

        All processes except the first receive SIGTERM together. The first may be a simulated arm, and must run until
        the others have brought the arm to rest.
        """
        for process in self.processes[:0:-1]:
            process.request_stop()
        for process in reversed(self.processes):
            process.stop()

    def __enter__(self) -> "ProcessGroup":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # a second Ctrl-C must not interrupt lowering and torque off
        with signals_handled(dict.fromkeys(ENDING, signal.SIG_IGN)):
            self.stop()
