"""Client of the nodes: lifecycle transitions, services, parameters and the experiment's progress, with deadlines."""

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
from dynid.nodes.arm_interlocks import SinglePublisherSubscription
from dynid.nodes.common import LATCHED, StopFlag, end_with_expected_parent, leave, set_middleware_defaults
from dynid.recording.settings import ExperimentSettings, parse_settings
from dynid.recording.topics import EXPERIMENT
from dynid.rehearsal.compiling import FIRST_ROBOT, ensure_compiled
from dynid.robot import load_robot

START_TIMEOUT_S = 30.0
CALL_TIMEOUT_S = 20.0
ENABLE_TIMEOUT_S = 60.0  # longer than for other calls: the arm is lowered before torque goes off
# A client discovers its server before the server discovers the client, without any event. An answer sent meanwhile is
# lost: the middleware waits 0.1 s for the reader of the answer, then drops it. So a harmless request is repeated at
# this interval [s] until it is answered.
QUESTION_S = 0.5


class Supervisor:
    """Client that controls running nodes through the same ROS interfaces as a user's program; a context manager.

    Attributes:
        node: ROS node of this client.
        experiment: latest report about a motion on topic `experiment`; None before the first.
        reports: latest diagnostics by status name.
    """

    def __init__(self, watch: Callable[[], None] = lambda: None) -> None:
        """Create the client's ROS node.

        Args:
            watch: called while waiting; it raises an error if waiting is pointless because a process has ended.
        """
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
        self._experiments = SinglePublisherSubscription(
            self.node, String, EXPERIMENT, self._on_experiment, LATCHED, self._on_doubt
        )
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
    def doubt_reason(self) -> str:
        """Error message if topic `experiment` has several publishers, so that its reports are in doubt; else ""."""
        return self._experiments.refusal

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        self.reports.update({status.name: status for status in message.status})

    def reported(self, name: str, key: str) -> str:
        """Return one value from the latest diagnostics; "" if it was not reported yet.

        Args:
            name: name of the diagnostics status, such as that of a node.
            key: key of the value.
        """
        status = self.reports.get(name)
        return next((pair.value for pair in status.values if pair.key == key), "") if status else ""

    def wait(
        self, condition: Callable[[], bool], timeout_s: float, what: str, why: Callable[[], str] | None = None
    ) -> None:
        """Process ROS messages until a condition holds.

        Args:
            condition: function that returns whether the wait is over.
            timeout_s: time limit [s].
            what: name of the awaited event, from which the error message is built.
            why: function that returns the whole error message; None builds it from `what`.

        Raises:
            NodeError: the condition does not hold within the time limit.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise NodeError(why() if why else f"{what} did not happen within {timeout_s:.0f} s")
            self._watch()
            self._executor.spin_once(timeout_sec=0.05)

    def _introduce(self, node: str) -> None:
        """Wait until a node has discovered all service clients that this object has created so far.

        This creates one more client and waits until the node has answered it. The middleware announces clients in the
        order of their creation, so the node then knows all earlier clients as well.

        Raises:
            NodeError: the node does not answer in time.
        """
        client = self.node.create_client(GetParameters, f"{node}/get_parameters")
        answers: list[Any] = []
        request_s = -float("inf")

        def answered() -> bool:
            nonlocal request_s
            if not answers and client.service_is_ready() and time.monotonic() - request_s > QUESTION_S:
                client.call_async(GetParameters.Request()).add_done_callback(answers.append)
                request_s = time.monotonic()
            return bool(answers)

        try:
            self.wait(answered, START_TIMEOUT_S, f"the first answer of {node}")
        finally:
            self.node.destroy_client(client)

    @staticmethod
    def now() -> float:
        """Return the time of a monotonic clock [s]."""
        return time.monotonic()

    def call(self, kind: Any, service: str, request: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """Call a service and return its response.

        Args:
            kind: type of the service.
            service: name of the service.
            request: the request.
            timeout_s: time limit of the answer [s].

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
            self._executor.spin_once(timeout_sec=0.05)  # its answer may have arrived just before its end
        if not future.done():
            raise NodeError(f"the node of {service} ended before it answered")
        return future.result()

    def trigger(self, service: str, timeout_s: float = CALL_TIMEOUT_S) -> str:
        """Call a Trigger service and return the message of its response.

        Raises:
            NodeError: the service reports a failure or does not answer; the error gives the reason.
        """
        return self._agreed(service, self.call(Trigger, service, Trigger.Request(), timeout_s))

    def set_enabled(self, node: str, enabled: bool) -> str:
        """Switch torque on or off by the service `~/enable` of a node, and return its message.

        Raises:
            NodeError: the node refuses or does not answer.
        """
        service = f"{node}/enable"
        return self._agreed(service, self.call(SetBool, service, SetBool.Request(data=enabled), ENABLE_TIMEOUT_S))

    @staticmethod
    def _agreed(service: str, response: Any) -> str:
        if not response.success:
            raise NodeError(f"{service}: {response.message}")
        return str(response.message)

    def transition(self, node: str, name: str) -> None:
        """Run the lifecycle transition of this name ("configure", "activate", ...); raise NodeError if it fails."""
        identifier = getattr(Transition, f"TRANSITION_{name.upper()}")
        request = ChangeState.Request(transition=Transition(id=identifier))
        if not self.call(ChangeState, f"{node}/change_state", request).success:
            raise NodeError(f"{node} refused to {name}; see its log")

    def set_parameters(self, node: str, values: Mapping[str, object]) -> None:
        """Set ROS parameters of a node, given by name, in one atomic call; raise NodeError if it refuses them."""
        strings = Parameter.Type.STRING_ARRAY  # rclpy cannot infer the type of an empty list
        parameters = [Parameter(key, strings if value == [] else None, value) for key, value in values.items()]
        request = SetParametersAtomically.Request(parameters=[one.to_parameter_msg() for one in parameters])
        result = self.call(SetParametersAtomically, f"{node}/set_parameters_atomically", request).result
        if not result.successful:
            raise NodeError(f"{node} refused the parameters {', '.join(values)}: {result.reason}")

    def get_parameters(self, node: str, names: Sequence[str]) -> list[ParameterValue]:
        """Return the values of a node's parameters; raise NodeError if a parameter is not declared."""
        request = GetParameters.Request(names=list(names))
        values = list(self.call(GetParameters, f"{node}/get_parameters", request).values)
        if len(values) != len(names):  # ROS returns no values if one is not declared
            raise NodeError(f"{node} does not have all of the parameters {', '.join(names)}")
        return values

    def latched_text(self, topic: str, timeout_s: float = CALL_TIMEOUT_S) -> str:
        """Return the text of a latched String topic; raise NodeError if no message arrives in time."""
        texts: list[str] = []
        subscription = self.node.create_subscription(String, topic, lambda m: texts.append(m.data), LATCHED)
        try:
            self.wait(lambda: bool(texts), timeout_s, f"a message on {topic}")
        finally:
            self.node.destroy_subscription(subscription)
        return texts[-1]


def number(text: str) -> float:
    """Convert a text from diagnostics, which must not contain a unit, to a number; NaN if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def run_client(name: str, work: Callable[[Supervisor], str]) -> None:
    """Run this process as a client of the nodes, then exit: with code 0, or after a DynidError with code 1.

    Args:
        name: name of the client in the log.
        work: function that does the work with the given client and returns a sentence for the log.
    """
    end_with_expected_parent()
    stop = StopFlag()

    def watch() -> None:
        if stop.stopped:
            stop.stopped = False  # raise only once, so that the cleanup can use this client
            raise SafetyError("interrupted")

    logger = rclpy.logging.get_logger(name)
    try:
        ensure_compiled(load_robot(FIRST_ROBOT), report=logger.info)  # the nodes wait for it, too
        with Supervisor(watch) as call:
            logger.info(work(call))
    except DynidError as error:
        logger.error(str(error))
        leave(1)
    leave()


def lower_arm(call: Supervisor) -> None:
    """Let the driver lower the arm and switch torque off, then make the executor stop commanding.

    Raises:
        NodeError: the driver or the executor refuses.
    """
    call.set_enabled("hardware", False)
    call.trigger("executor/release")
