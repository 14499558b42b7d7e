"""Functions shared by all nodes: quality of service, parameters, signals, and start and end of a process."""

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

# Queue for one second of 1 kHz messages: a subscriber stalled for that long loses no message.
STREAM_DEPTH = 1000
STREAM = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=STREAM_DEPTH, reliability=ReliabilityPolicy.RELIABLE)
# Short queue for control, which needs the newest state instead of a backlog.
NEWEST = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=5, reliability=ReliabilityPolicy.RELIABLE)
LATCHED = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
WAKE_S = 0.1
LOST_ANSWER = "failed to send response"  # start of the warning that rclpy prints
LEAST_SIMILARITY = 0.75  # minimum similarity [-] at which an unknown name counts as a mistyped known one
ROS_PARAMETERS = ("use_sim_time", "qos_overrides.", "start_type_description_service")  # prefixes, in every node


class ManagedNode(LifecycleNode):
    """Lifecycle node that refuses transitions which are impossible in its present state.

    For an impossible transition, rclpy raises an exception and does not catch it. So a mistyped request would end the
    driver of a moving arm.
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
    """Declare a ROS parameter of a node with its default and description, and return its value.

    A `fixed` parameter can be set only when the node starts.
    """
    return node.declare_parameter(name, default, ParameterDescriptor(description=description, read_only=fixed)).value


def serve_trigger(node: Node, name: str, serve: Callable[[], str]) -> None:
    """Create a Trigger service of a node.

    The service answers with success and the message that `serve` returns. If `serve` raises a DynidError, it answers
    with failure and the error's text.
    """

    def answer(_: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            response.message, response.success = serve(), True
        except DynidError as error:
            response.message = str(error)
        return response

    node.create_service(Trigger, name, answer)


def check_parameters(node: Node, check: Callable[[list[Parameter]], None]) -> None:
    """Register a function that checks new parameter values of a node before they are set.

    If `check` raises an exception, all values of the call are refused, with the exception's text as the reason.
    Unexpected exceptions are handled likewise, because no call from outside may end a node.
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
    """Return the message of an error as one line, preceded by its class name unless it is a DynidError."""
    return str(error) if isinstance(error, DynidError) else f"{type(error).__name__}: {' '.join(str(error).split())}"


def string(node: Node, name: str) -> str:
    """Return the present value of a string parameter."""
    return str(node.get_parameter(name).value)


def seconds(time: Any) -> float:
    """Convert a ROS Time or Duration to seconds [s]."""
    return float(time.sec + 1e-9 * time.nanosec)


def end_with_expected_parent() -> None:
    """Make this process end when its parent ends, if the parent has requested it by $DYNID_END_WITH_PARENT."""
    parent = expected_parent()
    if parent is not None:
        end_with_parent(parent)


def set_middleware_defaults() -> None:
    """Set environment variables with dynid's settings of the ROS middleware, for this process and its children.

    A setting that the user has chosen is kept.
    """
    os.environ.update(middleware_defaults(os.environ, rclpy.get_rmw_implementation_identifier()))


class StopFlag:
    """Handler of SIGINT, SIGTERM and SIGHUP that only sets the flag `stopped`.

    The ROS context stays valid, so that a node can finish its work.
    """

    def __init__(self) -> None:
        self.stopped = False
        for number in ENDING:
            signal.signal(number, self._set)

    def _set(self, *_: object) -> None:
        self.stopped = True


def compile_first(node: Node, robot: Robot, mount: str | None = None) -> None:
    """Compile the functions that nodes of this robot run, unless they are cached; log a line before compiling.

    `mount` is the name of the arm's mount; None is the robot's default.
    """
    ensure_compiled(robot, mount or None, node.get_logger().info)


def spin_until(node: Node, stop: Callable[[], bool], *, events: bool = False) -> None:
    """Spin a node in one single-threaded executor until `stop()` is true.

    An exception in a callback is logged, and the node continues: no message or call may end it. If the node has a
    method `callback_failed`, it is called with the error's text.

    Args:
        node: node to spin.
        stop: returns True to stop; checked at least every 0.1 s between callbacks.
        events: whether to use the events executor, which needs a quarter of the CPU time for fast topics but does not
            support coroutines.
    """
    executor = EventsExecutor() if events else SingleThreadedExecutor()
    executor.add_node(node)

    def spin_a_while() -> None:
        """Process events for up to `WAKE_S`.

        With the events executor, one call handles all events of this time, because a return after each event would
        cost more time. Otherwise the call ends after one callback.
        """
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
    """Look for parameters that a node was given at its start but does not declare; ROS would ignore them silently.

    A name that is similar to a declared one is refused as a typing error. Any other name is logged as a warning, since
    the parameter may belong to another node.

    Raises:
        UnknownNameError: an unknown name resembles a declared one.
    """
    known = sorted(one for one in node._parameters if not one.startswith(ROS_PARAMETERS))
    for name in sorted(getattr(node, "_parameter_overrides", {})):  # rclpy offers no public access
        if node.has_parameter(name) or name.startswith(ROS_PARAMETERS):
            continue
        if difflib.get_close_matches(name, known, cutoff=LEAST_SIMILARITY):
            raise UnknownNameError(f"parameter of node {node.get_name()}", name, known)
        node.get_logger().warning(f"there is no parameter '{name}' here; known: {', '.join(known)}")


def leave(code: int = 0) -> NoReturn:
    """End this process with the exit code `code`, and ignore further signals meanwhile.

    While Python exits, its own signal handlers no longer run. So a second signal that is not ignored would kill the
    process, and ROS launch would report a crashed node. The final garbage collection is skipped, because it would take
    seconds on a busy host.
    """
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    gc.freeze()
    sys.exit(code)


def log_lost_answers(node: Node) -> None:
    """Replace the Python warning that rclpy issues for an undelivered service answer by a line in the node's log.

    An undelivered answer is not a fault: the node had not discovered the client yet, and the client repeats its request
    (see `Supervisor`).
    """
    original = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if category is RuntimeWarning and str(message).startswith(LOST_ANSWER):
            node.get_logger().info("an answer was lost: its client was not discovered yet, and has to ask again")
        else:
            original(message, category, *where, **more)

    warnings.showwarning = show


def run_node(create: Callable[[], Any], *, events: bool = False) -> None:
    """Run this process as a ROS node until SIGINT, SIGTERM or SIGHUP, then shut the node down and exit.

    The node must have a method `shut_down`. If it has a method `rehearse`, that is called first, to compile, load and
    import everything that the node needs; services are answered afterwards. If the node cannot be created, the process
    prints one sentence and exits with code 1.

    Args:
        create: function that returns the node; rclpy is initialised when it is called.
        events: whether to use the events executor, see `spin_until`.
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
        log_lost_answers(node)
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
