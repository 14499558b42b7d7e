"""Peak resident memory of a process.

Linux lets a child inherit the `ru_maxrss` of its parent, so getrusage and wait4 report the size of the parent for the
child of a large process.
"""

import os
import resource
import subprocess
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

_STATUS = Path("/proc/self/status")


def forget_peak() -> None:
    """Let the largest resident memory of this process count from now on."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mib() -> float:
    """Return the largest resident memory of this process since its start, or since `forget_peak` [MiB].

    Raises:
        RuntimeError: the kernel does not report it (it is not Linux).
    """
    for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024.0
    raise RuntimeError(f"{_STATUS} has no line VmHWM: peaks of memory are measured on Linux only")


def peak_of_children_mib() -> float:
    """Return the peak memory of the ended children [MiB], or of this process if it was larger when it started them."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024.0


def run_measured(command: Sequence[str]) -> tuple[int, float]:
    """Run a command by a small intermediate process; return its exit code and its peak resident memory [MiB]."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_wait, list(command)).result()


def _wait(command: list[str]) -> tuple[int, float]:
    child = subprocess.Popen(command)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_maxrss / 1024.0
