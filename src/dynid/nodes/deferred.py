"""Trigger services whose answer may come later, while the node continues its other work.

Node processes run one single-threaded events executor, which knows no coroutines; so the answer is sent by hand.
"""

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from std_srvs.srv import Trigger


class Answer:
    """The answer to one call; `give` it once, from the thread that spins the node."""

    def __init__(self, send: Callable[[Trigger.Response, Any], None]) -> None:
        self._send = send
        self._header: Any = None
        self._response: Trigger.Response | None = None

    def give(self, success: bool, message: str) -> None:
        """Answer the caller; a second answer is a defect."""
        assert self._response is None, "a call is answered once"
        self._response = Trigger.Response(success=success, message=message)
        if self._header is not None:
            self._send(self._response, self._header)

    def address(self, header: Any) -> None:
        """Whom to answer: known only after the service's callback has returned."""
        self._header = header
        if self._response is not None:
            self._send(self._response, header)


class DeferredTrigger:
    """A std_srvs/Trigger service.

    Args:
        callback: gets the `Answer` and gives it now or later.
    """

    def __init__(self, node: Node, name: str, callback: Callable[[Answer], None]) -> None:
        self._callback = callback
        self._service = node.create_service(Trigger, name, self._on_call)
        self._send = self._service.send_response
        self._service.send_response = self._on_response  # what the executor calls with the callback's result

    def _on_call(self, request: Trigger.Request, response: Trigger.Response) -> Answer:
        answer = Answer(self._send)
        self._callback(answer)
        return answer

    def _on_response(self, answer: Answer, header: Any) -> None:
        answer.address(header)
