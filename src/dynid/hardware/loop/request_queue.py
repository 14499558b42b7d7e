"""Requests of other threads to the control loop: each is served once, or not at all once its caller has given up."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait

from dynid.errors import SafetyError
from dynid.hardware.bus.clock import SYSTEM_CLOCK, Clock, wait_in_time
from dynid.hardware.safety.guard_states import GuardEvent

# How long a caller waits beyond its timeout for a request that the loop has already begun to serve.
SERVING_S = 1.0
LOOK_S = 0.02  # between two calls of what a caller does while it waits
Request = GuardEvent | Callable[[], None]
"""A change of the guard's state, or work with the arm between two cycles."""


def nothing() -> None:
    """Do nothing while waiting."""


class RequestQueue:
    """First in, first out; any thread asks, the loop's thread takes.

    Args:
        clock: in whose time callers wait.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._waiting: deque[tuple[Request, Future[None]]] = deque()
        self._failure: BaseException | None = None

    def post(self, event: Request) -> "Future[None]":
        """Ask without waiting; the future is done when the loop has served this, and holds what it could not do."""
        done: Future[None] = Future()
        self._waiting.append((event, done))
        if self._failure is not None:  # the loop ended meanwhile
            self.refuse_all(self._failure)
        return done

    def ask(self, event: Request, timeout_s: float, meanwhile: Callable[[], None] = nothing) -> None:
        """Wait until the loop has served this; what it could not do is raised here.

        `meanwhile` is called again and again until then.

        Raises:
            SafetyError: not served in time. What the loop had not begun by then, it will not begin any more.
        """
        done = self.post(event)

        def served(seconds: float) -> bool:
            meanwhile()
            return bool(wait([done], min(seconds, LOOK_S)).done)

        wait_in_time(self._clock, served, timeout_s)
        if not done.cancel():  # finished, or being served just now: what comes of it is told
            wait([done], SERVING_S)
            if done.done():
                return done.result()
        what = event.value if isinstance(event, GuardEvent) else "do that"
        raise SafetyError(f"the control loop did not {what} within {timeout_s} s")

    @property
    def first(self) -> Request | None:
        """What waits longest; None if nothing waits."""
        return self._waiting[0][0] if self._waiting else None

    def take(self) -> "tuple[Request, Future[None]] | None":
        """The next request whose caller still waits, to be served now; None if there is none."""
        while self._waiting:
            event, done = self._waiting.popleft()
            if done.set_running_or_notify_cancel():
                return event, done
        return None

    def refuse_all(self, failure: BaseException) -> None:
        """Reject all waiting and all later requests, because nothing is served any more."""
        self._failure = failure
        while (request := self.take()) is not None:
            request[1].set_exception(failure)
