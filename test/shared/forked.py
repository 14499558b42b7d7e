"""Nodes that are processes of their own, forked from one that has loaded what all of them load.

To load Python, the libraries and compiled functions takes a node two seconds of processor time, and one in two tests of
`test/nodes` starts one. `Forks` keeps a process that has loaded them, and has it fork a node wherever
`dynid.nodes.processes` starts one: with the node's own arguments, environment, session and log. rclpy starts threads
where it is loaded, which no fork would have: each node loads it by itself. That a node starts by its module's name is
what test_chain.py shows, and the tests of processes.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

NODES = "dynid.nodes."
FORKED = (
    "executor_node",
    "hardware_node",
    "recorder_node",
    "identification_node",
    "external_torque_node",
    "trajectory_action_node",
    "payload_node",
)
LOADED = ("arm", "identification", "model", "motions", "recorder")  # of dynid.rehearsal: with all that they import
LARGEST = 1 << 18


# -- in the process that loads and forks -----------------------------------------------------------------------


def load() -> None:
    """Load what nodes need but rclpy, and compiled functions for the arm of most tests."""
    from dynid.threads import one_thread_each

    one_thread_each()  # before anything loads numpy
    os.environ.setdefault("MUJOCO_GL", "disable")
    modules = {name: importlib.import_module(f"dynid.rehearsal.{name}") for name in LOADED}
    modules["motions"].rehearse_motions(importlib.import_module("dynid.robot").load_robot("crane_x7"))
    modules["recorder"].rehearse_recording()
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked safely"
    gc.collect()
    gc.freeze()


def serve(line: socket.socket) -> dict[str, Any] | None:
    """Fork for every request, and report how children ended; returns the request in a child, None at the end."""
    children: dict[int, int] = {}  # pid by its file descriptor
    while True:
        readable, _, _ = select.select([line, *children], [], [])
        for one in readable:
            if one is line:
                request, files, *_ = socket.recv_fds(line, LARGEST, 1)
                if not request:
                    return None
                if (pid := os.fork()) == 0:
                    line.close()
                    for descriptor in children:
                        os.close(descriptor)
                    return json.loads(request) | {"log": files[0]}
                os.close(files[0])
                children[os.pidfd_open(pid)] = pid
                line.send(json.dumps({"started": pid}).encode())
            else:
                pid = children.pop(one)
                os.close(one)
                _, status = os.waitpid(pid, 0)
                line.send(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def become(request: dict[str, Any]) -> None:
    """Run the node in this forked process, as `python -m MODULE ARGUMENTS` would."""
    from dynid.parent import PARENT_VARIABLE

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"] | {PARENT_VARIABLE: str(os.getppid())})
    sys.stdout.flush()
    for descriptor in (1, 2):
        os.dup2(request["log"], descriptor)
    os.close(request["log"])
    module = importlib.import_module(request["module"])
    sys.argv = [str(module.__file__), *request["arguments"]]
    module.main()


def main() -> None:
    """Load the modules, then fork the requested nodes until the requests end."""
    from dynid.parent import end_with_parent

    end_with_parent(int(sys.argv[2]))
    line = socket.socket(fileno=int(sys.argv[1]))
    load()
    line.send(b'{"loaded": 1}')
    if (request := serve(line)) is not None:
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr]
        become(request)


# -- in the tests' process -------------------------------------------------------------------------------------


class Fork:
    """A forked node; what `subprocess.Popen` has of it."""

    def __init__(self, forks: "Forks", pid: int) -> None:
        self._forks, self.pid = forks, pid

    @property
    def returncode(self) -> int | None:
        """Exit code at the last poll; None while it runs."""
        return self._forks.codes.get(self.pid)

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self._forks.look(self.pid, 0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code; raises TimeoutExpired."""
        if (code := self._forks.look(self.pid, timeout)) is None:
            raise subprocess.TimeoutExpired(f"node {self.pid}", timeout or 0.0)
        return code

    def kill(self) -> None:
        """End it at once."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class Forks:
    """Process that forks nodes; it starts with the first request."""

    PIPE, STDOUT, DEVNULL = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
    TimeoutExpired = subprocess.TimeoutExpired

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self._started: list[int] = []
        self._server: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()

    def Popen(self, command: Sequence[str], *, stdout: IO[bytes], env: Mapping[str, str], **options: Any) -> Any:
        """Fork a node; start any other program as `subprocess.Popen` does."""
        if command[1] != "-m" or command[2].removeprefix(NODES) not in FORKED:
            return subprocess.Popen(command, stdout=stdout, env=env, **options)
        request = {"module": command[2], "arguments": command[3:], "environment": dict(env), "folder": os.getcwd()}
        with self._lock:
            self._start()
            socket.send_fds(self._line, [json.dumps(request).encode()], [stdout.fileno()])
            while not self._started:
                self._read(None)
            return Fork(self, self._started.pop())

    def look(self, pid: int, timeout_s: float | None) -> int | None:
        """Return the exit code of a node, waiting for it up to a timeout."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self._lock:
            while pid not in self.codes:
                if not self._read(None if end is None else max(0.0, end - time.monotonic())):
                    break
            return self.codes.get(pid)

    def close(self) -> None:
        """End the process that forks."""
        if self._server is not None:
            self._line.close()
            self._server.wait(30.0)

    def _start(self) -> None:
        if self._server is not None:
            return
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self._line.setsockopt(socket.SOL_SOCKET, buffer, LARGEST)
        command = [sys.executable, __file__, str(theirs.fileno()), str(os.getpid())]
        self._server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), start_new_session=True
        )
        theirs.close()
        assert json.loads(self._line.recv(LARGEST) or b"{}"), "what forks nodes could not load them"

    def _read(self, timeout_s: float | None) -> bool:
        """Take one report and return whether there was one."""
        if not select.select([self._line], [], [], timeout_s)[0]:
            return False
        report = json.loads(self._line.recv(LARGEST) or b"{}")
        assert report, "what forks nodes has ended"
        if "started" in report:
            self._started.append(report["started"])
        else:
            self.codes[report["ended"]] = report["code"]
        return True


if __name__ == "__main__":
    main()
