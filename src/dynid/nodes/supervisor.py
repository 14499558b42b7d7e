"""A client of the nodes: lifecycle transitions, services, parameters and the experiment's progress, with deadlines."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters, SetParametersAtomically
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from dynid.errors import NodeError
from dynid.nodes.common import LATCHED, set_middleware_defaults
from dynid.recording.settings import ExperimentSettings

START_TIMEOUT_S = 30.0
CALL_TIMEOUT_S = 20.0
# A client knows its server before the server knows the client, and no event tells it; an answer sent within that time
# is lost (the middleware waits a tenth of a second for the reader of an answer, then drops it). So a harmless question
# is asked first, as often as it takes.
QUESTION_S = 0.5


def parameter_value(value: object) -> ParameterValue:
    """A ROS parameter value from bool, int, float, str or a list of str or float."""
    if isinstance(value, bool):
        return ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=value)
    if isinstance(value, int):
        return ParameterValue(type=ParameterType.PARAMETER_INTEGER, integer_value=value)
    if isinstance(value, float):
        return ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value)
    if isinstance(value, str):
        return ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=value)
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return ParameterValue(type=ParameterType.PARAMETER_STRING_ARRAY, string_array_value=list(value))
    raise NodeError(f"no ROS parameter can hold {value!r}")


class Supervisor:
    """Talks to the nodes from outside, as any user's program would. Use it as a context manager."""

    def __init__(self, watch: Callable[[], None] = lambda: None) -> None:
        """`watch` is called while waiting; it raises where waiting is pointless because a process has ended."""
        set_middleware_defaults()
        self._watch = watch
        self._context = rclpy.Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self.node = Node("supervisor", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._clients: dict[str, Any] = {}
        self.experiment: ExperimentSettings | None = None
        self.reports: dict[str, DiagnosticStatus] = {}
        self.node.create_subscription(String, "experiment", self._on_experiment, LATCHED)
        self.node.create_subscription(DiagnosticArray, "diagnostics", self._on_diagnostics, 10)

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)

    def _on_experiment(self, message: String) -> None:
        self.experiment = ExperimentSettings.model_validate_json(message.data)

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        self.reports.update({status.name: status for status in message.status})

    def reported(self, name: str, key: str) -> str:
        """A value of a node's last diagnostics; '' if it did not report yet."""
        status = self.reports.get(name)
        return next((pair.value for pair in status.values if pair.key == key), "") if status else ""

    def wait(
        self, condition: Callable[[], bool], timeout_s: float, what: str, why: Callable[[], str] | None = None
    ) -> None:
        """Spin until a condition holds.

        Raises:
            NodeError: not within the time; `what` names the thing waited for, or `why` tells by then what is missing.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise NodeError(why() if why else f"{what} did not happen within {timeout_s:.0f} s")
            self._watch()
            self._executor.spin_once(timeout_sec=0.05)

    def _introduce(self, node: str) -> None:
        """Wait until a node knows every client that was created here before.

        The middleware tells of them in their order; so once the node has answered a client that came later, an answer
        to any earlier one arrives, too.

        Raises:
            NodeError: the node does not answer in time.
        """
        client = self.node.create_client(GetParameters, f"{node}/get_parameters")
        answers: list[Any] = []
        asked_s = -float("inf")

        def answered() -> bool:
            nonlocal asked_s
            if not answers and client.service_is_ready() and time.monotonic() - asked_s > QUESTION_S:
                client.call_async(GetParameters.Request()).add_done_callback(answers.append)
                asked_s = time.monotonic()
            return bool(answers)

        try:
            self.wait(answered, START_TIMEOUT_S, f"the answer of {node} to a first question")
        finally:
            self.node.destroy_client(client)

    @staticmethod
    def now() -> float:
        """A steady clock [s]."""
        return time.monotonic()

    def call(self, kind: Any, service: str, request: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """Call a service and return its response.

        Raises:
            NodeError: the service does not appear or does not answer in time.
        """
        new = service not in self._clients
        client = self._clients[service] = self.node.create_client(kind, service) if new else self._clients[service]
        self.wait(client.service_is_ready, START_TIMEOUT_S, f"service {service}")
        if new:
            self._introduce(service.rpartition("/")[0])
        future = client.call_async(request)
        self.wait(future.done, timeout_s, f"the answer of {service}")
        return future.result()

    def trigger(self, service: str, timeout_s: float = CALL_TIMEOUT_S) -> str:
        """Call a Trigger service; returns its message.

        Raises:
            NodeError: the answer was no; the message says why.
        """
        response = self.call(Trigger, service, Trigger.Request(), timeout_s)
        if not response.success:
            raise NodeError(f"{service}: {response.message}")
        return str(response.message)

    def set_enabled(self, node: str, enabled: bool) -> str:
        """Call a node's ~/enable; raises NodeError where refused."""
        response = self.call(SetBool, f"{node}/enable", SetBool.Request(data=enabled))
        if not response.success:
            raise NodeError(f"{node}/enable: {response.message}")
        return str(response.message)

    def transition(self, node: str, name: str) -> None:
        """Lifecycle transition "configure", "activate", "deactivate" or "cleanup"; raises NodeError where it fails."""
        identifier = {
            "configure": Transition.TRANSITION_CONFIGURE,
            "activate": Transition.TRANSITION_ACTIVATE,
            "deactivate": Transition.TRANSITION_DEACTIVATE,
            "cleanup": Transition.TRANSITION_CLEANUP,
        }[name]
        request = ChangeState.Request(transition=Transition(id=identifier))
        if not self.call(ChangeState, f"{node}/change_state", request).success:
            raise NodeError(f"{node} refused to {name}; its log says why")

    def set_parameters(self, node: str, values: Mapping[str, object]) -> None:
        """Set parameters in one atomic call; raises NodeError where refused."""
        parameters = [Parameter(name=key, value=parameter_value(value)) for key, value in values.items()]
        request = SetParametersAtomically.Request(parameters=parameters)
        result = self.call(SetParametersAtomically, f"{node}/set_parameters_atomically", request).result
        if not result.successful:
            raise NodeError(f"{node} refused the parameters {', '.join(values)}: {result.reason}")

    def get_parameters(self, node: str, names: Sequence[str]) -> list[ParameterValue]:
        """Read parameters; raises NodeError where the node does not have one of them."""
        request = GetParameters.Request(names=list(names))
        values = list(self.call(GetParameters, f"{node}/get_parameters", request).values)
        if len(values) != len(names):  # ROS answers with nothing at all
            raise NodeError(f"{node} does not have all of the parameters {', '.join(names)}")
        return values

    def latched_text(self, topic: str, timeout_s: float = CALL_TIMEOUT_S) -> str:
        """The text of a latched String topic."""
        texts: list[str] = []
        subscription = self.node.create_subscription(String, topic, lambda m: texts.append(m.data), LATCHED)
        try:
            self.wait(lambda: bool(texts), timeout_s, f"a message on {topic}")
        finally:
            self.node.destroy_subscription(subscription)
        return texts[-1]
