"""Services whose answer may come later, while the node continues its other work.

Node processes run one single-threaded events executor, which knows no coroutines; so the answer is sent by hand.
"""

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger


class Answer:
    """The answer to one call; `give` it once, from the thread that spins the node.

    Args:
        send: sends a response to the caller of a header.
        kind: makes the response: success and message.
    """

    def __init__(self, send: Callable[[Any, Any], None], kind: Callable[..., Any] = Trigger.Response) -> None:
        self._send, self._kind = send, kind
        self._header: Any = None
        self._response: Any = None

    def give(self, success: bool, message: str) -> None:
        """Answer the caller; a second answer is a defect."""
        assert self._response is None, "a call is answered once"
        self._response = self._kind(success=success, message=message)
        if self._header is not None:
            self._send(self._response, self._header)

    def address(self, header: Any) -> None:
        """Whom to answer: known only after the service's callback has returned."""
        self._header = header
        if self._response is not None:
            self._send(self._response, header)


class _Deferred:
    """A service of a kind whose responses have success and message."""

    def __init__(self, node: Node, kind: Any, name: str) -> None:
        self._kind = kind.Response
        self._service = node.create_service(kind, name, self._on_call)
        self._send = self._service.send_response
        self._service.send_response = self._on_response  # what the executor calls with the callback's result

    def _on_call(self, request: Any, response: Any) -> Answer:
        answer = Answer(self._send, self._kind)
        self._serve(request, answer)
        return answer

    def _serve(self, request: Any, answer: Answer) -> None:
        raise NotImplementedError

    def _on_response(self, answer: Answer, header: Any) -> None:
        answer.address(header)


class DeferredTrigger(_Deferred):
    """A std_srvs/Trigger service.

    Args:
        callback: gets the `Answer` and gives it now or later.
    """

    def __init__(self, node: Node, name: str, callback: Callable[[Answer], None]) -> None:
        self._callback = callback
        super().__init__(node, Trigger, name)

    def _serve(self, request: Any, answer: Answer) -> None:
        self._callback(answer)


class DeferredSetBool(_Deferred):
    """A std_srvs/SetBool service.

    Args:
        callback: gets what is asked for and the `Answer`, which it gives now or later.
    """

    def __init__(self, node: Node, name: str, callback: Callable[[bool, Answer], None]) -> None:
        self._callback = callback
        super().__init__(node, SetBool, name)

    def _serve(self, request: Any, answer: Answer) -> None:
        self._callback(bool(request.data), answer)
