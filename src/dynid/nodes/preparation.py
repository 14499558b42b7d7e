"""Work of a second or less in a thread of its own, so that an arm that is held meanwhile stays held."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from dynid.errors import DynidError, NodeError
from dynid.hardware.loop.realtime import leave_realtime

Result = TypeVar("Result")


class Preparation(Generic[Result]):
    """One job at a time; its outcome is handed over in the thread that calls `poll`."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._outcome: Result | DynidError | None = None
        self._withdrawn: DynidError | None = None
        self._done: Callable[[Result | DynidError], None] = lambda _: None

    @property
    def busy(self) -> bool:
        """Whether a job is under way, or its outcome was not fetched yet."""
        return self._thread is not None

    def start(self, job: Callable[[], Result], done: Callable[[Result | DynidError], None]) -> None:
        """Run `job`; `done` gets its result, or the error that it ended with.

        Raises:
            NodeError: another job is under way.
        """
        if self.busy:
            raise NodeError("another motion is being checked")
        self._done, self._outcome = done, None
        self._thread = threading.Thread(target=self._work, args=(job,), daemon=True)
        self._thread.start()

    def _work(self, job: Callable[[], Result]) -> None:
        try:
            leave_realtime()  # it takes long, and must not keep the processor from the thread that holds the arm
            self._outcome = job()
        except DynidError as error:
            self._outcome = error
        except Exception as error:  # a defect must reach the caller as an answer, not hang it
            self._outcome = NodeError(f"internal error: {error!r}")

    def withdraw(self, reason: DynidError) -> None:
        """Whatever comes of the job under way, `done` gets this reason instead; does nothing where there is no job."""
        self._withdrawn = reason if self.busy else None

    def poll(self) -> None:
        """Hand the outcome over if there is one; costs nothing while there is no job."""
        if self._thread is None or self._thread.is_alive():
            return
        self._thread = None
        outcome, self._withdrawn = self._withdrawn or self._outcome, None
        assert outcome is not None, "a job has an outcome"
        self._done(outcome)
