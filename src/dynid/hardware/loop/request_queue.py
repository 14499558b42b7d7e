"""Queue of requests from other threads to the control loop.

Each request is served once, or dropped if its caller has stopped waiting.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait

from dynid.errors import SafetyError
from dynid.hardware.bus.clock import SYSTEM_CLOCK, Clock, succeeds_within
from dynid.hardware.safety.guard_states import GuardEvent

# Longest wait of a caller beyond its timeout for a request that is being served.
SERVING_S = 1.0
CHECK_INTERVAL_S = 0.02  # interval between two calls of `meanwhile`
Request = GuardEvent | Callable[[], None]
"""A change of the guard's state, or work with the arm between two cycles."""


def nothing() -> None:
    """Do nothing; the default of optional callbacks."""


class RequestQueue:
    """First-in, first-out queue: any thread posts requests, the control loop's thread takes them.

    Args:
        clock: clock of the callers' timeouts.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._waiting: deque[tuple[Request, Future[None]]] = deque()
        self._failure: BaseException | None = None

    def post(self, event: Request) -> "Future[None]":
        """Post a request without waiting; return a future that gets the result or the error of the request."""
        done: Future[None] = Future()
        self._waiting.append((event, done))
        if self._failure is not None:  # the loop has ended
            self.refuse_all(self._failure)
        return done

    def ask(self, event: Request, timeout_s: float, meanwhile: Callable[[], None] = nothing) -> None:
        """Post a request, and wait until the control loop has served it; raise its error if it failed.

        Args:
            event: the request.
            timeout_s: timeout by the queue's clock [s].
            meanwhile: called repeatedly while waiting.

        Raises:
            SafetyError: the request was not served in time. If the loop has not begun to serve it, it is dropped.
        """
        done = self.post(event)

        def served(seconds: float) -> bool:
            meanwhile()
            return bool(wait([done], min(seconds, CHECK_INTERVAL_S)).done)

        succeeds_within(self._clock, served, timeout_s)
        if not done.cancel():  # finished, or being served: report its result
            wait([done], SERVING_S)
            if done.done():
                return done.result()
        what = event.value if isinstance(event, GuardEvent) else "do that"
        raise SafetyError(f"the control loop did not {what} within {timeout_s} s")

    @property
    def first(self) -> Request | None:
        """Oldest waiting request; None if the queue is empty."""
        return self._waiting[0][0] if self._waiting else None

    def take(self) -> "tuple[Request, Future[None]] | None":
        """Return the next request whose caller still waits, with its future; None if there is none."""
        while self._waiting:
            event, done = self._waiting.popleft()
            if done.set_running_or_notify_cancel():
                return event, done
        return None

    def refuse_all(self, failure: BaseException) -> None:
        """Reject all waiting and all later requests, because the loop has ended."""
        self._failure = failure
        while (request := self.take()) is not None:
            request[1].set_exception(failure)
