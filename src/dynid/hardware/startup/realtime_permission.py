"""Kernel settings for real-time programs: whether this user may run them, and the limit of their processor time."""

import os
import subprocess  # nosec - a fixed argument list, no shell
import sys
from pathlib import Path

from dynid.recording.periodic_gaps import RealtimeLimit

FOLDER = Path("/proc/sys/kernel")
TIMEOUT_S = 20.0
_PERMISSION_TEST = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"


def read_limit(folder: Path = FOLDER) -> RealtimeLimit | None:
    """Return the kernel's limit of the processor time of real-time programs, from the files in `folder`.

    The result is None if there is no limit, or if the limit cannot be read.
    """
    try:
        runtime, period = (
            int((folder / f"sched_rt_{name}_us").read_text(encoding="ascii")) for name in ("runtime", "period")
        )
    except (OSError, ValueError):
        return None
    return RealtimeLimit(runtime * 1e-6, period * 1e-6) if 0 <= runtime < period else None


def realtime_permitted() -> bool:
    """Return whether the kernel lets this user run a program under SCHED_FIFO, by trying it in a child process."""
    if not hasattr(os, "sched_setscheduler"):
        return False
    tried = subprocess.run(  # noqa: S603 - a fixed argument list, no shell
        [sys.executable, "-I", "-S", "-c", _PERMISSION_TEST], stderr=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False
    )
    return tried.returncode == 0
