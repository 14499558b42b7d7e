"""Child processes that end with the process that started them (Linux)."""

import ctypes
import os
import signal

PARENT_VARIABLE = "DYNID_END_WITH_PARENT"
"""Environment variable with the process ID of the parent to end with; not set if the child may outlive it."""

_PR_SET_PDEATHSIG = 1


def expected_parent() -> int | None:
    """Return the process ID of the parent with which this process must end; None if it may outlive its parent.

    The ID is the value of the environment variable DYNID_END_WITH_PARENT, which is ignored if it is not a number.
    """
    text = os.environ.get(PARENT_VARIABLE, "")
    return int(text) if text.isdigit() else None


def end_with_parent(parent: int) -> None:
    """Let Linux send SIGTERM to this process when its parent ends.

    The signal also comes if the thread that started this process ends, even though the parent continues.

    Args:
        parent: process ID of the parent; if the parent has ended already, this process receives SIGTERM now.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # the parent ended before the request took effect
        os.kill(os.getpid(), signal.SIGTERM)
