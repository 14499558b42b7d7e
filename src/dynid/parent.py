"""Child processes that do not outlive the process that started them (Linux)."""

import ctypes
import os
import signal

PARENT_VARIABLE = "DYNID_END_WITH_PARENT"
"""Environment variable that holds the process id of the parent to end with; absent where nobody asks for it."""

_PR_SET_PDEATHSIG = 1


def expected_parent() -> int | None:
    """The parent to end with according to the environment; None where nobody asks for it."""
    text = os.environ.get(PARENT_VARIABLE, "")
    return int(text) if text.isdigit() else None


def end_with_parent(parent: int) -> None:
    """Let SIGTERM reach this process when its parent's thread that started it ends.

    Args:
        parent: the process id of the parent; one that has ended already ends this process now.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the request was in force
        os.kill(os.getpid(), signal.SIGTERM)
