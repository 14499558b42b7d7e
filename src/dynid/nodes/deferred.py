"""ROS services that can answer a call later, while the node continues its other work.

Nodes run in one single-threaded events executor, which does not support coroutines, so this module sends the answer
itself.
"""

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger


class Answer:
    """Pending answer to one service call; call `give` once, from the thread that spins the node.

    Args:
        send: function of a response and a request header, which sends the response to the caller that made the request.
        kind: class of the response, with fields success and message.
    """

    def __init__(self, send: Callable[[Any, Any], None], kind: Callable[..., Any] = Trigger.Response) -> None:
        self._send, self._kind = send, kind
        self._header: Any = None
        self._response: Any = None

    def give(self, success: bool, message: str) -> None:
        """Send success and message to the caller, or store them until the caller is known; call this only once."""
        assert self._response is None, "a call is answered once"
        self._response = self._kind(success=success, message=message)
        if self._header is not None:
            self._send(self._response, self._header)

    def address(self, header: Any) -> None:
        """Set the caller's request header, which is known only after the service's callback has returned."""
        self._header = header
        if self._response is not None:
            self._send(self._response, header)


class _Deferred:
    """Base class of services that can answer later; their responses have the fields success and message."""

    def __init__(self, node: Node, kind: Any, name: str) -> None:
        self._kind = kind.Response
        self._service = node.create_service(kind, name, self._on_call)
        self._send = self._service.send_response
        self._service.send_response = self._on_response  # the executor calls it with the callback's result

    def _on_call(self, request: Any, response: Any) -> Answer:
        answer = Answer(self._send, self._kind)
        self._serve(request, answer)
        return answer

    def _serve(self, request: Any, answer: Answer) -> None:
        raise NotImplementedError

    def _on_response(self, answer: Answer, header: Any) -> None:
        answer.address(header)


class DeferredTrigger(_Deferred):
    """Service of type std_srvs/Trigger that can answer later.

    Args:
        node: node that offers the service.
        name: name of the service.
        callback: called with an `Answer`; it must call `Answer.give` now or later.
    """

    def __init__(self, node: Node, name: str, callback: Callable[[Answer], None]) -> None:
        self._callback = callback
        super().__init__(node, Trigger, name)

    def _serve(self, request: Any, answer: Answer) -> None:
        self._callback(answer)


class DeferredSetBool(_Deferred):
    """Service of type std_srvs/SetBool that can answer later.

    Args:
        node: node that offers the service.
        name: name of the service.
        callback: called with the requested value and an `Answer`; it must call `Answer.give` now or later.
    """

    def __init__(self, node: Node, name: str, callback: Callable[[bool, Answer], None]) -> None:
        self._callback = callback
        super().__init__(node, SetBool, name)

    def _serve(self, request: Any, answer: Answer) -> None:
        self._callback(bool(request.data), answer)
