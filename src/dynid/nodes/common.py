"""What all nodes share: quality of service, parameters, signals, and the way in and out of a process."""

import contextlib
import difflib
import gc
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import rclpy
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from std_srvs.srv import Trigger

from dynid.errors import DynidError, UnknownNameError
from dynid.nodes.entry import ENDING, end_at_once
from dynid.nodes.middleware import middleware_defaults
from dynid.parent import end_with_parent, expected_parent
from dynid.rehearsal.compiling import ensure_compiled
from dynid.rehearsal.late_work import watch_late_work
from dynid.robot import Robot

# One second of 1 kHz messages: a subscriber that is held up for that long still loses nothing.
STREAM_DEPTH = 1000
STREAM = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=STREAM_DEPTH, reliability=ReliabilityPolicy.RELIABLE)
# Control wants the newest state, not a backlog.
NEWEST = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=5, reliability=ReliabilityPolicy.RELIABLE)
LATCHED = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
WAKE_S = 0.1
LOST_ANSWER = "failed to send response"  # so begins the warning of rclpy
SLIP = 0.75  # likeness from which on an unknown name is a known one mistyped
ROS_PARAMETERS = ("use_sim_time", "qos_overrides.", "start_type_description_service")  # every node's


class ManagedNode(LifecycleNode):
    """A lifecycle node that refuses a transition which its present state does not have.

    rclpy's own lets the exception through, and with it a mistyped request would end the driver of a moving arm.
    """

    def _LifecycleNodeMixin__on_change_state(self, request: Any, response: Any) -> Any:
        try:
            return super()._LifecycleNodeMixin__on_change_state(request, response)
        except rclpy_implementation.RCLError:
            wanted = request.transition.label or str(request.transition.id)
            _, state = self._state_machine.current_state
            self.get_logger().error(f"transition {wanted} is not possible in state {state}")
            response.success = False
            return response


def declare(node: Node, name: str, default: Any, description: str, *, fixed: bool = False) -> Any:
    """Declare a parameter with a description and return its value; a `fixed` one is given at the start only."""
    return node.declare_parameter(name, default, ParameterDescriptor(description=description, read_only=fixed)).value


def serve_trigger(node: Node, name: str, serve: Callable[[], str]) -> None:
    """Create a Trigger service: what `serve` returns, or the error that it raises on purpose, is the answer."""

    def answer(_: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            response.message, response.success = serve(), True
        except DynidError as error:
            response.message = str(error)
        return response

    node.create_service(Trigger, name, answer)


def check_parameters(node: Node, check: Callable[[list[Parameter]], None]) -> None:
    """Have `check` decide whether parameters may be set; what it raises is the reason why not, and nothing is set.

    That holds for an error of our own as well: no call from outside may end a node.
    """

    def answer(parameters: list[Parameter]) -> SetParametersResult:
        try:
            check(parameters)
        except Exception as error:
            reason = in_words(error)
            node.get_logger().error(f"refused: {reason}")
            return SetParametersResult(successful=False, reason=reason)
        return SetParametersResult(successful=True)

    node.add_on_set_parameters_callback(answer)


def in_words(error: Exception) -> str:
    """One line about an error, with its kind where it is none that is raised on purpose."""
    return str(error) if isinstance(error, DynidError) else f"{type(error).__name__}: {' '.join(str(error).split())}"


def string(node: Node, name: str) -> str:
    """Present value of a string parameter."""
    return str(node.get_parameter(name).value)


def seconds(given: Any) -> float:
    """A Time or Duration of ROS [s]."""
    return float(given.sec + 1e-9 * given.nanosec)


def end_with_expected_parent() -> None:
    """Where asked for by the environment: end this process when its parent dies."""
    parent = expected_parent()
    if parent is not None:
        end_with_parent(parent)


def set_middleware_defaults() -> None:
    """Set what the middleware does in this process and its children, unless the user chose otherwise."""
    os.environ.update(middleware_defaults(os.environ, rclpy.get_rmw_implementation_identifier()))


class StopFlag:
    """Set by SIGINT, SIGTERM or SIGHUP; the context stays valid, so that a node can still finish its work."""

    def __init__(self) -> None:
        self.stopped = False
        for number in ENDING:
            signal.signal(number, self._set)

    def _set(self, *_: object) -> None:
        self.stopped = True


def compile_first(node: Node, robot: Robot, mount: str | None = None) -> None:
    """Compile what nodes of this robot run, unless that was done before; the log says so."""
    ensure_compiled(robot, mount or None, node.get_logger().info)


def spin_until(node: Node, stop: Callable[[], bool], *, events: bool = False) -> None:
    """Spin a node in one single-threaded executor until `stop()` is true.

    A callback that fails is reported, and the node goes on: what a message or a call brings must not end it. A node may
    have a method `callback_failed`, which is called with the error in words.

    Args:
        events: use the events executor, which costs a quarter of the CPU for fast topics but knows no coroutines.
    """
    executor = EventsExecutor() if events else SingleThreadedExecutor()
    executor.add_node(node)

    def spin_a_while() -> None:
        """Serve whatever comes, within one call: returning to Python after each message costs more."""
        if events:
            executor.spin_until_future_complete(Future(), WAKE_S)
        else:
            executor.spin_once(timeout_sec=WAKE_S)

    try:
        while rclpy.ok() and not stop():
            try:
                spin_a_while()
            except ExternalShutdownException:
                raise
            except Exception as error:
                _report_failure(node, error)
    except ExternalShutdownException:
        pass
    finally:
        executor.remove_node(node)
        executor.shutdown()


def _report_failure(node: Node, error: Exception) -> None:
    text = f"a callback failed, the node goes on: {in_words(error)}"
    node.get_logger().error(text)
    node.get_logger().debug("".join(traceback.format_exception(error)))
    failed = getattr(node, "callback_failed", None)
    if failed is not None:
        failed(text)


def refuse_unknown_parameters(node: Node) -> None:
    """Name what a command line or a parameter file gives a node that it does not have; ROS passes it over in silence.

    A name like one of the node's own is refused as a slip; any other is a warning, since it may be another node's.

    Raises:
        UnknownNameError: there is such a parameter.
    """
    known = sorted(one for one in node._parameters if not one.startswith(ROS_PARAMETERS))
    for name in sorted(getattr(node, "_parameter_overrides", {})):  # rclpy has no other way to ask
        if node.has_parameter(name) or name.startswith(ROS_PARAMETERS):
            continue
        if difflib.get_close_matches(name, known, cutoff=SLIP):
            raise UnknownNameError(f"parameter of node {node.get_name()}", name, known)
        node.get_logger().warning(f"there is no parameter '{name}' here; known: {', '.join(known)}")


def leave(code: int = 0) -> NoReturn:
    """End a process whose work is done.

    Python then handles no signal any more, and a second one would kill it: launch would report a node that died. A last
    collection of all garbage would keep it for seconds on a busy host.
    """
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    gc.freeze()
    sys.exit(code)


def tell_lost_answers(node: Node) -> None:
    """Log an answer that did not reach its client, which ROS prints as a warning of Python.

    It is no fault: the node had not discovered the client yet, which asks again (see `Supervisor`).
    """
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if category is RuntimeWarning and str(message).startswith(LOST_ANSWER):
            node.get_logger().info("an answer was lost: its client was not discovered yet, and has to ask again")
        else:
            usual(message, category, *where, **more)

    warnings.showwarning = show


def run_node(create: Callable[[], Any], *, events: bool = False) -> None:
    """The main function of a node process: initialise, create, rehearse, spin, leave cleanly on SIGINT and SIGTERM.

    A node has a method `shut_down`. One that takes part in a control cycle also has `rehearse`, which compiles, loads
    and imports what it will run; its services are answered after that.
    Ends the process with exit code 1 and one sentence where the node cannot be created.
    """
    end_at_once()
    end_with_expected_parent()
    set_middleware_defaults()
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    code = 0
    node = None
    try:
        node = create()
        refuse_unknown_parameters(node)
        tell_lost_answers(node)
        if rehearse := getattr(node, "rehearse", None):
            rehearse()
        stop = StopFlag()
        watch_late_work(node.get_name())
        spin_until(node, lambda: stop.stopped, events=events)
    except DynidError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 1
    finally:
        if node is not None:
            node.shut_down()
            node.destroy_node()
        with contextlib.suppress(RuntimeError):  # the context may be shut down already
            rclpy.shutdown()
    leave(code)
