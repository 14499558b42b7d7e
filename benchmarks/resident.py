"""Resident memory of a process.

Linux counts the memory of the process that started it into `ru_maxrss` of a process: what getrusage and wait4 say of a
child of a large process is the size of its parent.
"""

import os
import resource
import subprocess
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_mib() -> float:
    """The largest resident memory of this process since it was started [MiB].

    Raises:
        RuntimeError: the kernel does not say (it is not Linux).
    """
    for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024.0
    raise RuntimeError(f"{_STATUS} has no line VmHWM: peaks of memory are measured on Linux only")


def peak_of_children_mib() -> float:
    """The largest of the ended children [MiB], or this process where it was larger when it started them."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024.0


def run_measured(command: Sequence[str]) -> tuple[int, float]:
    """Exit code of a command, and its largest resident memory [MiB]; a small process in between starts it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_wait, list(command)).result()


def _wait(command: list[str]) -> tuple[int, float]:
    child = subprocess.Popen(command)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_maxrss / 1024.0
