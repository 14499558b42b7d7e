"""Arbitrary parameters, messages and calls: nodes continue, and refused values change nothing. Nodes run in-process."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

import rclpy
from builtin_interfaces.msg import Duration
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dynid.errors import DataError, SafetyError
from dynid.hardware.loop.diagnostics import driver_settings
from dynid.nodes import common
from dynid.nodes.deferred import Answer
from dynid.nodes.domain import DOMAIN_VARIABLE, PrivateDomain
from dynid.nodes.executor_node import ExecutorNode
from dynid.nodes.hardware_node import HardwareNode
from dynid.nodes.identification_node import IdentificationNode
from dynid.nodes.motion_requests import MOST_BYTES, decoded_trajectory, message_motion, trajectory_name
from dynid.nodes.outputs import HARDWARE_SILENCE_S
from dynid.nodes.recorder_node import RecorderNode
from dynid.recording.bag_reader import read_bag
from dynid.recording.messages import JointStateEncoder, encode_diagnostics, encode_string
from dynid.robot import load_robot
from dynid.trajectory.files import MOST_POINTS

ROBOT = load_robot("crane_x7")
REST = np.array(ROBOT.rest_posture)
EXAMPLES = 150


@pytest.fixture(scope="module")
def ros() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(DOMAIN_VARIABLE, raising=False)
        with PrivateDomain():
            common.set_middleware_defaults()
            rclpy.init()
            yield
            rclpy.shutdown()


@pytest.fixture(autouse=True)
def domain(ros: None) -> None:
    """Reserve one ROS domain for all tests of this file."""


@pytest.fixture(scope="module")
def executor(ros: None) -> Iterator[ExecutorNode]:
    node = ExecutorNode()
    yield node
    node.shut_down()
    node.destroy_node()


@pytest.fixture
def tmp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("set")


class Arm:
    """Brings an executor's states by hand: an arm that is where its reference is."""

    def __init__(self, node: ExecutorNode) -> None:
        self.node, self.encode = node, JointStateEncoder(ROBOT.joint_names)
        self.commands: list[Any] = []
        node._output = SimpleNamespace(
            send=lambda stamp, tau, held=None: self.commands.append(tau),
            end=lambda: None,
            report=dict[str, str],
            silence_s=HARDWARE_SILENCE_S,
        )
        self.q = REST.copy()
        self.stamp_ns = max(node._stamp_ns, 10**9)

    def step(self, cycles: int = 1) -> None:
        zero = np.zeros(ROBOT.size)
        for _ in range(cycles):
            self.stamp_ns += 5_000_000
            self.node._on_state(self.encode.encode(self.stamp_ns, position=self.q, velocity=zero, effort=zero))
            if self.node._motion.active:
                self.q = self.node._motion._reference[0].copy()

    def into(self, state: str) -> None:
        """Into one of STATES."""
        self.node._motion.release()
        self.step()
        if state == "idle":
            return
        self.node._hold()
        if state != "holding":
            assert all(one.successful for one in self.node.set_parameters(chosen()))
            answer = Answer(lambda *_: None)
            self.node._on_execute(answer)
            thread = self.node._requests.preparation._thread
            assert thread is not None
            thread.join()
            self.step(10)
            assert self.node._motion.moving
        if state == "cancelled":
            self.node._on_cancel(Trigger.Request(), Trigger.Response())
        self.step()


def chosen() -> list[Parameter]:
    """A motion, whatever was set before."""
    values = {"trajectory": "demo_validation", "profile": "limited", "return_to_rest": True}
    return [Parameter(name, value=value) for name, value in values.items()]


STATES = ("idle", "holding", "moving", "cancelled")
TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["", "\0", "../../escape", "/", "/dev/zero", "/proc/self/mem", "x" * 100_000, "a b", "~", "V01"]),
)
NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
VALUES = st.one_of(
    st.builds(ParameterValue),
    st.booleans().map(lambda x: ParameterValue(type=1, bool_value=x)),
    INTEGERS.map(lambda x: ParameterValue(type=2, integer_value=x)),
    NUMBERS.map(lambda x: ParameterValue(type=3, double_value=x)),
    TEXTS.filter(lambda x: not any("\ud800" <= c <= "\udfff" for c in x)).map(
        lambda x: ParameterValue(type=4, string_value=x)
    ),
    st.lists(st.integers(0, 255).map(lambda x: bytes([x])), max_size=3).map(
        lambda x: ParameterValue(type=5, byte_array_value=x)
    ),
    st.lists(st.booleans(), max_size=3).map(lambda x: ParameterValue(type=6, bool_array_value=x)),
    st.lists(INTEGERS, max_size=3).map(lambda x: ParameterValue(type=7, integer_array_value=x)),
    st.lists(NUMBERS, max_size=3).map(lambda x: ParameterValue(type=8, double_array_value=x)),
    st.lists(st.sampled_from(["", "a b", "\0", "executor", "/x//y"]), max_size=3).map(
        lambda x: ParameterValue(type=9, string_array_value=x)
    ),
)


FIXED = (
    ParameterValue(),
    ParameterValue(type=1, bool_value=True),
    *(ParameterValue(type=2, integer_value=x) for x in (-1, 0, 2**63 - 1)),
    *(ParameterValue(type=3, double_value=x) for x in (-1.0, 0.5, float("nan"), float("inf"))),
    *(ParameterValue(type=4, string_value=x) for x in ("", "a b", "\0", "/dev/zero", "../x", "x" * 100_000)),
    ParameterValue(type=5, byte_array_value=[b"\1"]),
    ParameterValue(type=7, integer_array_value=[1]),
    ParameterValue(type=9, string_array_value=["", "a b", "\0"]),
)


def call(node: Any, name: str, value: ParameterValue, atomically: bool) -> bool:
    """Set a parameter as a peer does; whether it was taken. What is refused has a reason and changes nothing."""
    before = node.get_parameter_or(name).get_parameter_value()
    parameter = ParameterMessage(name=name, value=value)
    service = node._parameter_service
    if atomically:
        request = SetParametersAtomically.Request(parameters=[parameter])
        result = service._set_parameters_atomically_callback(request, SetParametersAtomically.Response()).result
    else:
        request = SetParameters.Request(parameters=[parameter])
        (result,) = service._set_parameters_callback(request, SetParameters.Response()).results
    if not result.successful:
        assert result.reason and "\n" not in result.reason.strip(), result.reason
        after = node.get_parameter_or(name).get_parameter_value()
        assert after == before or str(after) == str(before)
    return bool(result.successful)


def settable(node: Any) -> list[str]:
    """Parameters of a node, of the many of a model only some."""
    own = [name for name in node._parameters if not name.startswith(common.ROS_PARAMETERS)]
    return [name for name in own if not name.startswith("model.")] + [n for n in own if n.startswith("model.")][:4]


def set_everything(node: Any, after: Any = lambda: None) -> set[tuple[str, bool]]:
    """Set every parameter to values of every type; which were taken and which refused."""
    seen: set[tuple[str, bool]] = set()

    @hypothesis.given(st.sampled_from(settable(node)), VALUES, st.booleans())
    @hypothesis.settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
    def run(name: str, value: ParameterValue, atomically: bool) -> None:
        seen.add((name, call(node, name, value, atomically)))
        after()

    run()
    for name in settable(node):
        for value in FIXED:
            run.hypothesis.inner_test(name, value, True)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_no_parameter_ends_the_executor_or_its_motion(executor: ExecutorNode, state: str) -> None:
    arm = Arm(executor)
    arm.into(state)
    phase, moving = executor._motion.phase, executor._motion.moving
    seen = set_everything(executor, arm.step)
    assert {taken for _, taken in seen} == {True, False}
    assert executor._motion.controller.law.name == "ff_pd"
    assert (executor._motion.phase is None) == (phase is None)
    assert state != "moving" or (moving and executor._motion.moving)
    assert all(np.isfinite(tau).all() for tau in arm.commands)


def answered(call: Any) -> Trigger.Response:
    found: list[Trigger.Response] = []
    answer = Answer(lambda response, _: found.append(response))
    answer.address("header")
    call(answer)
    assert found, "not answered"
    return found[0]


def test_checking_a_motion_blocks_neither_release_nor_stop(executor: ExecutorNode) -> None:
    arm = Arm(executor)
    arm.into("holding")
    executor.set_parameters(chosen())
    asked: list[Trigger.Response] = []
    answer = Answer(lambda response, _: asked.append(response))
    answer.address("header")
    executor._on_execute(answer)
    assert executor._requests.preparation.busy
    assert answered(executor._on_release).success and not executor._motion.active
    thread = executor._requests.preparation._thread
    assert thread is not None
    thread.join()
    arm.step(3)
    assert not executor._motion.active and not asked[0].success
    assert asked[0].message == "released while it was being checked"


def test_an_exception_of_our_own_ends_the_motion_as_a_cancelled_one(
    executor: ExecutorNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    Arm(executor).into("moving")
    monkeypatch.setattr(executor, "get_logger", lambda: SimpleNamespace(error=print, debug=print))

    def stumble(timeout_sec: float) -> None:
        stumbled.append(timeout_sec)
        raise ZeroDivisionError("of our own")

    stumbled: list[float] = []
    quiet = SimpleNamespace(spin_once=stumble, add_node=print, remove_node=print, shutdown=print)
    monkeypatch.setattr(common, "SingleThreadedExecutor", lambda: quiet)
    common.spin_until(executor, lambda: len(stumbled) >= 2)
    assert len(stumbled) == 2 and executor._motion.phase == "cancelled"
    monkeypatch.undo()


GARBAGE = st.one_of(st.binary(max_size=200), st.binary(max_size=40).map(lambda x: b"\0\1\0\0" + x))


def test_no_bytes_end_the_executor(executor: ExecutorNode) -> None:
    arm = Arm(executor)
    arm.into("holding")

    @hypothesis.given(GARBAGE)
    @hypothesis.settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
    def run(raw: bytes) -> None:
        executor._on_state(raw)
        executor._on_trajectory(raw)
        executor._on_hardware_settings(String(data=raw.decode("latin-1")))
        thread = executor._requests.preparation._thread
        if thread is not None:
            thread.join()
        arm.step()

    run()
    assert executor._motion.phase == "hold" and executor._malformed > 0
    assert executor._settings_refusal  # and what drives the arm is not known any more
    executor._settings_refusal = ""


def test_a_motion_whose_limits_change_while_it_is_checked_does_not_start(executor: ExecutorNode) -> None:
    arm = Arm(executor)
    arm.into("holding")
    assert all(one.successful for one in executor.set_parameters(chosen()))
    answers: list[tuple[bool, str]] = []
    executor._on_execute(SimpleNamespace(give=lambda *answer: answers.append(answer)))  # type: ignore[arg-type]
    assert executor.set_parameters([Parameter("scene", value=str(ROBOT.folder / "scene.yaml"))])[0].successful
    thread = executor._requests.preparation._thread
    assert thread is not None
    thread.join()
    arm.step(10)
    executor.set_parameters([Parameter("scene", value="")])
    assert not executor._motion.moving and answers[0][0] is False and "start it again" in answers[0][1]


def test_mount_that_changes_while_the_arm_is_commanded_is_taken_once_it_is_released(executor: ExecutorNode) -> None:
    arm, before = Arm(executor), executor._selection.mount
    arm.into("holding")
    for mount in ("hanging", before):
        told = driver_settings(ROBOT, mount, "/dev/x", simulated=True).model_dump_json()
        executor._motion.hold(executor._q, executor._stamp_ns)
        executor._on_hardware_settings(String(data=told))  # latched: it comes once
        with pytest.raises(SafetyError, match="the mount changed"):
            executor._refuse_second_source()
        executor._motion.release()
        executor._poll()
        executor._refuse_second_source()
        assert executor._selection.mount == mount


def test_a_motion_that_was_checked_for_the_former_mount_does_not_begin(executor: ExecutorNode) -> None:
    arm, before = Arm(executor), executor._selection.mount
    arm.into("holding")
    told = driver_settings(ROBOT, "hanging", "/dev/x", simulated=True).model_dump_json()
    executor._on_hardware_settings(String(data=told))
    executor._motion.release()
    executor._settings_refusal = ""  # as before the driver said so
    assert all(one.successful for one in executor.set_parameters(chosen()))
    answers: list[tuple[bool, str]] = []
    executor._on_execute(SimpleNamespace(give=lambda *answer: answers.append(answer)))  # type: ignore[arg-type]
    thread = executor._requests.preparation._thread
    assert thread is not None
    thread.join()
    executor._poll()
    assert executor._selection.mount == "hanging" and not executor._motion.moving
    assert answers[0][0] is False and "start it again" in answers[0][1]
    told = driver_settings(ROBOT, before, "/dev/x", simulated=True).model_dump_json()
    executor._on_hardware_settings(String(data=told))


# -- trajectories ----------------------------------------------------------------------------------------------


def trajectory(points: int, name: str = "long") -> bytes:
    message = JointTrajectory(joint_names=list(ROBOT.joint_names))
    message.header.frame_id = name
    message.points = [
        JointTrajectoryPoint(time_from_start=Duration(sec=k), positions=REST.tolist()) for k in range(points)
    ]
    return bytes(serialize_message(message))


def test_a_trajectory_is_measured_before_it_is_decoded() -> None:
    raw = trajectory(2, "mine")
    assert trajectory_name(raw) == "mine" and decoded_trajectory(raw).header.frame_id == "mine"
    motion = message_motion(decoded_trajectory(raw), ROBOT.joint_names, REST)
    assert motion.name == "mine" and motion.duration == 1.0
    for hostile in (b"", raw[:14], b"\0\1\0\0" + b"\xff" * 40, trajectory(1, "x\n"), trajectory(1, "x" * 300)):
        assert trajectory_name(hostile) == ""
    with pytest.raises(DataError, match=f"of {MOST_BYTES + 1} bytes was sent, expected at most {MOST_BYTES}: split it"):
        decoded_trajectory(bytes(MOST_BYTES + 1))
    full = 3 * (8 * 16 + 4) + 4  # three vectors of sixteen joints
    assert MOST_BYTES >= MOST_POINTS * full


# -- the other nodes -------------------------------------------------------------------------------------------


def test_no_parameter_ends_the_hardware_node_before_or_at_configure(ros: None) -> None:
    node = HardwareNode()
    try:
        seen = set_everything(node, lambda: none_of(node))
        assert {taken for _, taken in seen} == {True, False}
    finally:
        node.shut_down()
        node.destroy_node()


def none_of(node: HardwareNode) -> None:
    """There is no such port, baud rate, clock or mount: it is refused, not raised."""
    assert node.on_configure(None) == TransitionCallbackReturn.FAILURE


def test_no_parameter_ends_the_recorder_when_it_starts_or_stops(ros: None, tmp: Path) -> None:
    node = RecorderNode()
    try:
        node.on_activate(SimpleNamespace(label="inactive", state_id=2))

        def use() -> None:
            output = common.string(node, "output")
            if output.startswith("/") or not output.strip("./~ "):
                node.set_parameters([Parameter("output", value=str(tmp / "bag"))])
            else:
                node.set_parameters([Parameter("output", value=str(tmp / output))])
            node._on_start(Trigger.Request(), Trigger.Response())
            node._publish_diagnostics()
            node._timeout_s  # noqa: B018 - asked at each stop
            node._close()

        seen = set_everything(node, use)
        assert {taken for _, taken in seen} == {True, False}
    finally:
        node.shut_down()
        node.destroy_node()


def test_a_flood_of_one_topic_costs_no_state(ros: None, tmp: Path) -> None:
    """Reports and texts beyond their limits are left out, and their topic is not listened to for a while."""
    node = RecorderNode()
    try:
        node.on_activate(SimpleNamespace(label="inactive", state_id=2))
        node.set_parameters([Parameter("output", value=str(tmp / "bag"))])
        node._on_start(Trigger.Request(), Trigger.Response())
        state = JointStateEncoder(ROBOT.joint_names).encode(1, position=REST, velocity=REST, effort=REST)
        report, text = encode_diagnostics(1, []), encode_string("x" * 100)
        subscriptions = dict(node._recorded)
        for _ in range(1000):
            node._on_limited("joint_states", state)
            node._on_limited("diagnostics", report)
        node._on_limited("diagnostics", bytes(2**19))
        node._on_limited("hardware_settings", bytes(50 * 2**20))
        node._on_limited("robot_description", text)
        for name in ("diagnostics", "hardware_settings"):
            node._pause(name)
        assert set(subscriptions) - set(node._recorded) == {"diagnostics", "hardware_settings"}
        assert node._budgets["diagnostics"].limits.depth < subscriptions["joint_states"].qos_profile.depth == 5000
        assert "/hardware_settings" not in node._latched and node._latched["/robot_description"] == text
        node._resume("diagnostics")
        assert "diagnostics" in node._recorded and "diagnostics" not in node._paused
        counts = dict(node._writer.counts)
        node._close()
        bag = read_bag(tmp / "bag")
        assert bag.counts == counts and bag.counts["/joint_states"] == 1000
        assert 490 <= bag.counts["/diagnostics"] <= 510  # ten seconds at once
        assert node._budgets["diagnostics"].refused == 1001 - bag.counts["/diagnostics"]
        node._release()
        assert not node._paused and not node._recorded
    finally:
        node.shut_down()
        node.destroy_node()


def test_no_parameter_ends_the_identification_node(ros: None) -> None:
    node = IdentificationNode()
    try:
        seen = set_everything(node)
        assert {taken for _, taken in seen} == {True, False}
    finally:
        node.destroy_node()
