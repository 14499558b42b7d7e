"""Requests between threads: served once, or never."""

import threading

import pytest

from dynid.errors import BusTimeoutError, SafetyError
from dynid.hardware.bus.clock import Clock
from dynid.hardware.loop.request_queue import RequestQueue
from dynid.hardware.safety.guard_states import GuardEvent


@pytest.mark.slow
def test_a_caller_that_gave_up_is_passed_over() -> None:
    queue = RequestQueue()
    with pytest.raises(SafetyError, match=r"did not enable within 0\.001 s"):
        queue.ask(GuardEvent.ENABLE, 0.001)
    assert queue.first is GuardEvent.ENABLE and queue.take() is None and queue.first is None
    queue.refuse_all(SafetyError("ended"))


@pytest.mark.parametrize("failure", [None, BusTimeoutError("servo 4 does not answer")])
def test_a_request_that_is_being_served_at_the_timeout_ends_as_it_is_served(failure: BaseException | None) -> None:
    queue, outcome = RequestQueue(), []

    def caller() -> None:
        try:
            queue.ask(GuardEvent.ENABLE, 0.3)
            outcome.append(None)
        except BusTimeoutError as error:
            outcome.append(error)

    taken, waiting = None, threading.Thread(target=caller)
    waiting.start()
    while taken is None and waiting.is_alive():
        taken = queue.take()
    assert taken is not None
    waiting.join(0.4)  # past its timeout
    assert waiting.is_alive()
    taken[1].set_result(None) if failure is None else taken[1].set_exception(failure)
    waiting.join(10.0)
    assert outcome == [failure]


class HeldClock(Clock):
    """A host's arm whose time passes at a tenth of the system's, or not at all."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def monotonic_ns(self) -> int:
        return round(self.rate * super().monotonic_ns())


@pytest.mark.parametrize("rate", [0.1, 0.0])
def test_callers_wait_in_the_time_of_the_arm(rate: float) -> None:
    queue, never = RequestQueue(HeldClock(rate)), threading.Event()

    def serve() -> None:
        never.wait(0.3)  # beyond the timeout by the system's clock, within it by the arm's
        taken = queue.take()
        assert taken is not None
        taken[1].set_result(None)

    server = threading.Thread(target=serve)
    server.start()
    queue.ask(GuardEvent.DISABLE, 0.2)
    server.join()
    if not rate:  # a time that stands still does not keep anybody for ever
        with pytest.raises(SafetyError, match="did not disable within"):
            queue.ask(GuardEvent.DISABLE, 0.01)


def test_requests_to_a_loop_that_ended_are_refused() -> None:
    queue = RequestQueue()
    queue.refuse_all(SafetyError("the loop ended"))
    with pytest.raises(SafetyError, match="the loop ended"):
        queue.ask(GuardEvent.DISABLE, 10.0)
