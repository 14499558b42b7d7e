"""Processes of peers, with bounded processor time."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

from benchmarks.children import child_environment
from benchmarks.peers.group_time import Late, group_seconds, output_within

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_process(command: Sequence[str], seconds: float) -> dict[str, Any]:
    """Run a command that ends like `benchmarks.peers.child`; return processor time, memory, and error ("" for none).

    Args:
        command: program and arguments.
        seconds: processor time after which the process and all that it started are ended [s].
    """
    threads = dict.fromkeys(THREADS, "1")
    child = subprocess.Popen(
        command,
        env={**os.environ, **child_environment(), **threads},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = output_within(child, seconds)
    except Late as late:
        return {"processor_s": group_seconds(child.pid), "memory_mb": None, "error": str(late)}
    finally:
        with contextlib.suppress(ProcessLookupError):  # also end workers that a peer left running
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    lines = output.strip().splitlines()
    if child.returncode or not lines:
        last = (errors.strip().splitlines() or ["no message"])[-1]
        return {"processor_s": None, "memory_mb": None, "error": f"ended with {child.returncode}: {last}"}
    figures: dict[str, Any] = json.loads(lines[-1])
    return figures
