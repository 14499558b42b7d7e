"""Thread for work of up to about a second, so that the thread that controls the arm is not delayed."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from dynid.errors import DynidError, NodeError
from dynid.hardware.loop.realtime import leave_realtime

Result = TypeVar("Result")


class Preparation(Generic[Result]):
    """Runner of one job at a time in a separate thread.

    `poll` passes the outcome of a finished job to a function, which runs in the thread that calls `poll`.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._outcome: Result | DynidError | None = None
        self._withdrawn: DynidError | None = None
        self._done: Callable[[Result | DynidError], None] = lambda _: None

    @property
    def busy(self) -> bool:
        """Whether a job is running, or `poll` has not passed on its outcome yet."""
        return self._thread is not None

    def start(self, job: Callable[[], Result], done: Callable[[Result | DynidError], None]) -> None:
        """Start to run a job in a separate thread.

        Args:
            job: function that returns the result.
            done: function that receives the result, or the error that ended the job; a later `poll` calls it.

        Raises:
            NodeError: another job is running.
        """
        if self.busy:
            raise NodeError("another motion is being checked")
        self._done, self._outcome = done, None
        self._thread = threading.Thread(target=self._work, args=(job,), daemon=True)
        self._thread.start()

    def _work(self, job: Callable[[], Result]) -> None:
        try:
            leave_realtime()  # long work must not take processor time from the thread that holds the arm
            self._outcome = job()
        except DynidError as error:
            self._outcome = error
        except Exception as error:  # a program error must be reported, or the caller would wait forever
            self._outcome = NodeError(f"internal error: {error!r}")

    def withdraw(self, reason: DynidError) -> None:
        """Discard the outcome of the running job: `done` receives this error instead; no effect without a job."""
        self._withdrawn = reason if self.busy else None

    def poll(self) -> None:
        """Pass the outcome of a finished job to its function `done`; do nothing if no job has finished."""
        if self._thread is None or self._thread.is_alive():
            return
        self._thread = None
        outcome, self._withdrawn = self._withdrawn or self._outcome, None
        assert outcome is not None, "a job has an outcome"
        self._done(outcome)
