"""A client of the nodes: lifecycle transitions, services, parameters and the experiment's progress, with deadlines."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rclpy
import rclpy.logging
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import GetParameters, SetParametersAtomically
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from dynid.errors import DataError, DynidError, NodeError, SafetyError
from dynid.nodes.arm_interlocks import OneSource
from dynid.nodes.common import LATCHED, StopFlag, end_with_expected_parent, leave, set_middleware_defaults
from dynid.recording.settings import ExperimentSettings, parse_settings
from dynid.recording.topics import EXPERIMENT
from dynid.rehearsal.compiling import FIRST_ROBOT, ensure_compiled
from dynid.robot import load_robot

START_TIMEOUT_S = 30.0
CALL_TIMEOUT_S = 20.0
ENABLE_TIMEOUT_S = 60.0  # an arm is lowered before its torque goes off
# A client knows its server before the server knows the client, and no event announces it; an answer sent meanwhile is
# lost (the middleware waits a tenth of a second for the reader of an answer, then drops it). So a harmless question
# is asked first, as often as it takes.
QUESTION_S = 0.5


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
        self._experiments = OneSource(self.node, String, EXPERIMENT, self._on_experiment, LATCHED, self._on_doubt)
        self.node.create_subscription(DiagnosticArray, "diagnostics", self._on_diagnostics, 10)

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)

    def _on_experiment(self, message: String) -> None:
        try:
            self.experiment = parse_settings(EXPERIMENT, message.data, ExperimentSettings)
        except DataError as error:
            self.node.get_logger().warning(f"left out: {error}", throttle_duration_sec=1.0)

    def _on_doubt(self, text: str) -> None:
        self.node.get_logger().warning(text)

    @property
    def doubt(self) -> str:
        """Why the state of a motion is in doubt, '' if the executor alone reports it."""
        return self._experiments.refusal

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
            NodeError: not within the time; `what` names the thing waited for, or `why` says what is missing by then.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise NodeError(why() if why else f"{what} did not happen within {timeout_s:.0f} s")
            self._watch()
            self._executor.spin_once(timeout_sec=0.05)

    def _introduce(self, node: str) -> None:
        """Wait until a node knows every client that was created here before.

        The middleware announces them in their order; so once the node has answered a client that came later, an answer
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
            self.wait(answered, START_TIMEOUT_S, f"the first answer of {node}")
        finally:
            self.node.destroy_client(client)

    @staticmethod
    def now() -> float:
        """A steady clock [s]."""
        return time.monotonic()

    def call(self, kind: Any, service: str, request: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """Call a service and return its response.

        Raises:
            NodeError: the service does not appear, does not answer in time, or its node ends meanwhile.
        """
        new = service not in self._clients
        client = self._clients[service] = self.node.create_client(kind, service) if new else self._clients[service]
        self.wait(client.service_is_ready, START_TIMEOUT_S, f"service {service}")
        if new:
            self._introduce(service.rpartition("/")[0])
        future = client.call_async(request)
        self.wait(lambda: future.done() or not client.service_is_ready(), timeout_s, f"the answer of {service}")
        if not future.done():
            self._executor.spin_once(timeout_sec=0.05)  # its last words may have arrived meanwhile
        if not future.done():
            raise NodeError(f"the node of {service} ended before it answered")
        return future.result()

    def trigger(self, service: str, timeout_s: float = CALL_TIMEOUT_S) -> str:
        """Call a Trigger service; returns its message.

        Raises:
            NodeError: the answer was no; the message says why.
        """
        return self._agreed(service, self.call(Trigger, service, Trigger.Request(), timeout_s))

    def set_enabled(self, node: str, enabled: bool) -> str:
        """Call a node's ~/enable; raises NodeError where refused."""
        service = f"{node}/enable"
        return self._agreed(service, self.call(SetBool, service, SetBool.Request(data=enabled), ENABLE_TIMEOUT_S))

    @staticmethod
    def _agreed(service: str, response: Any) -> str:
        if not response.success:
            raise NodeError(f"{service}: {response.message}")
        return str(response.message)

    def transition(self, node: str, name: str) -> None:
        """Lifecycle transition "configure", "activate", "deactivate" or "cleanup"; raises NodeError where it fails."""
        identifier = getattr(Transition, f"TRANSITION_{name.upper()}")
        request = ChangeState.Request(transition=Transition(id=identifier))
        if not self.call(ChangeState, f"{node}/change_state", request).success:
            raise NodeError(f"{node} refused to {name}; see its log")

    def set_parameters(self, node: str, values: Mapping[str, object]) -> None:
        """Set parameters in one atomic call; raises NodeError where refused."""
        strings = Parameter.Type.STRING_ARRAY  # which rclpy cannot know of an empty list
        parameters = [Parameter(key, strings if value == [] else None, value) for key, value in values.items()]
        request = SetParametersAtomically.Request(parameters=[one.to_parameter_msg() for one in parameters])
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


def number(text: str) -> float:
    """A number that somebody reports; NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def run_client(name: str, work: Callable[[Supervisor], str]) -> None:
    """The main function of a client: log what its work comes to; where it fails, one sentence and exit code 1."""
    end_with_expected_parent()
    stop = StopFlag()

    def watch() -> None:
        if stop.stopped:
            stop.stopped = False  # once: what follows still has to clean up
            raise SafetyError("interrupted")

    logger = rclpy.logging.get_logger(name)
    try:
        ensure_compiled(load_robot(FIRST_ROBOT), said=logger.info)  # the nodes do so, too, and answer when it is done
        with Supervisor(watch) as call:
            logger.info(work(call))
    except DynidError as error:
        logger.error(str(error))
        leave(1)
    leave()
