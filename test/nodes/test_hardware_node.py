"""The hardware node as a process, with the real SDK on the emulated servo bus."""

import contextlib
import itertools
import os
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from child import Child

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from plain_bus import IndependentAxesPlant, running_bus
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import SetBool

from dynid.errors import ConfigurationError, NodeError
from dynid.hardware.bus import control_table as table
from dynid.hardware.loop.diagnostics import COMMANDERS, LOOP, STATE, TIMES_OFF
from dynid.hardware.loop.diagnostics import RATE as RATE_KEY
from dynid.hardware.loop.paused_clock import ClockPage
from dynid.hardware.safety.guard_states import Reason
from dynid.nodes.common import LATCHED, STREAM
from dynid.nodes.processes import Process, ProcessGroup
from dynid.nodes.supervisor import Supervisor
from dynid.recording.settings import HardwareSettings
from dynid.robot import load_robot
from dynid.simulation.bus.servo_bus import EmulatedServoBus

ROBOT = load_robot("crane_x7")
NAMES = list(ROBOT.joint_names)
PUBLISH_S = 0.004  # well within the command timeout
RATE = {"rate_hz": "1000"}  # whether a busy machine keeps it is no question here


@pytest.fixture
def bus() -> Iterator[EmulatedServoBus]:
    """In lock-step: the arm moves with the goal-current writes only."""
    with running_bus(EmulatedServoBus(ROBOT, IndependentAxesPlant(ROBOT), lock_step=True)) as served:
        yield served


@pytest.fixture
def node(group: ProcessGroup, bus: EmulatedServoBus) -> Process:
    return group.start_node("hardware_node", "hardware", {"port_name": bus.port, **RATE})


def refusal(client: Supervisor, node: Process, port: str) -> str:
    """What the node logs when it refuses to be configured with a port."""
    client.set_parameters("hardware", {"port_name": port})
    with pytest.raises(NodeError, match="refused to configure"):
        client.transition("hardware", "configure")
    lines = node.last_error().splitlines()
    assert len(lines) == 1
    return lines[0]


def message(client: Supervisor) -> str:
    report = client.reports.get("hardware")
    return report.message if report else ""


# -- refusals at configuration ---------------------------------------------------------------------------------


def test_unusable_ports_are_refused_and_a_usable_one_works_later(
    client: Supervisor, node: Process, bus: EmulatedServoBus, tmp_path: Path, robot_folder: Path
) -> None:
    assert "/dev/null is not a simulated servo bus; an arm behind a real port will move" in refusal(
        client, node, "/dev/null"
    )
    client.set_parameters("hardware", {"allow_real_port": True})
    assert "port /dev/null is not a usable serial port" in refusal(client, node, "/dev/null")
    assert "port /dev/nothing does not exist" in refusal(client, node, "/dev/nothing")
    file = tmp_path / "file"
    file.write_text("mine")
    assert f"port {file} is a file or folder, not a serial port" in refusal(client, node, str(file))
    assert file.read_text() == "mine"
    client.set_parameters("hardware", {"allow_real_port": False, "port_name": bus.port})
    client.transition("hardware", "configure")
    client.transition("hardware", "cleanup")
    client.transition("hardware", "configure")


def test_the_time_of_a_real_arm_is_not_held(client: Supervisor, node: Process, bus: EmulatedServoBus) -> None:
    client.set_parameters("hardware", {"allow_real_port": True, "clock_file": "/dev/null"})
    assert "the arm behind /dev/ttyUSB0 is real and does not wait: leave clock_file empty" in refusal(
        client, node, "/dev/ttyUSB0"
    )
    assert "/dev/null is not the clock of a simulated arm" in refusal(client, node, bus.port)


def test_the_clock_of_a_simulated_arm_is_released_with_the_arm(
    client: Supervisor, node: Process, bus: EmulatedServoBus, tmp_path: Path
) -> None:
    path = tmp_path / "clock"
    with contextlib.closing(ClockPage(path, create=True)):
        client.set_parameters("hardware", {"clock_file": str(path)})
        bus.line_fault = lambda frames: []
        assert f"no servo answers on {bus.port}" in refusal(client, node, bus.port)
        with contextlib.closing(ClockPage(path)) as other:
            other.take()
            assert f"another driver uses the clock {path}" in refusal(client, node, bus.port)
        bus.line_fault = None
        for _ in range(2):
            client.transition("hardware", "configure")
            with contextlib.closing(ClockPage(path)) as other, pytest.raises(ConfigurationError):
                other.take()
            client.transition("hardware", "cleanup")
        with contextlib.closing(ClockPage(path)) as other:
            other.take()


def test_a_line_without_servos_is_refused(client: Supervisor, node: Process, bus: EmulatedServoBus) -> None:
    bus.line_fault = lambda frames: []
    assert f"no servo answers on {bus.port}" in refusal(client, node, bus.port)
    bus.line_fault = None
    client.transition("hardware", "configure")


OTHER_SERVOS = (
    ("servo_id: 9,", "servo_id: 19,", "missing servos: 9 (crane_x7_gripper_finger_a_joint)"),
    (
        "servo_id: 3, servo_model: XM540-W270",
        "servo_id: 3, servo_model: XM430-W350",
        "tilt_joint) is model 1020 (XM430-W350, 2.69 mA per count) instead of model 1120 (XM540-W270",
    ),
)


def test_other_servos_than_the_robots_are_refused(client: Supervisor, node: Process, robot_folder: Path) -> None:
    file = robot_folder / "robot.yaml"
    text = file.read_text()
    for original, changed, words in OTHER_SERVOS:
        assert text.count(original) == 1
        limited = text.replace("current_limit_a: 4.0", "current_limit_a: 3.0")  # of the other model
        file.write_text(limited.replace(original, changed))
        other = load_robot(robot_folder)
        with running_bus(EmulatedServoBus(other, IndependentAxesPlant(other), lock_step=True)) as bus:
            assert words in refusal(client, node, bus.port)


def test_an_unknown_mount_is_refused(client: Supervisor, node: Process, bus: EmulatedServoBus) -> None:
    client.set_parameters("hardware", {"mount": "sideways"})
    assert "unknown mount 'sideways'; known: upright, hanging" in refusal(client, node, bus.port)


def test_an_unknown_robot_ends_the_process_with_one_sentence(group: ProcessGroup, client: Supervisor) -> None:
    node = group.start_node("hardware_node", "hardware", {"robot": "nobody"})
    with pytest.raises(NodeError, match=r"hardware ended with code 1: unknown robot 'nobody'"):
        client.transition("hardware", "configure")
    assert "Traceback" not in node.log.read_text()


def test_a_port_that_another_process_uses_is_refused(
    group: ProcessGroup, client: Supervisor, node: Process, bus: EmulatedServoBus
) -> None:
    client.transition("hardware", "configure")
    second = group.start("second", ["-m", "dynid.nodes.hardware_node", "--ros-args", "-r", "__node:=second"])
    client.set_parameters("second", {"port_name": bus.port})
    with pytest.raises(NodeError):
        client.transition("second", "configure")
    assert f"port {bus.port} is busy" in second.last_error()


# -- states and torque -----------------------------------------------------------------------------------------


def test_torque_is_switched_on_only_while_the_node_is_active(
    client: Supervisor, node: Process, bus: EmulatedServoBus, group: ProcessGroup
) -> None:
    with pytest.raises(NodeError, match="not active"):
        client.set_enabled("hardware", True)
    with pytest.raises(NodeError, match="refused to activate"):
        client.transition("hardware", "activate")
    client.transition("hardware", "configure")
    settings = HardwareSettings.model_validate_json(client.latched_text("hardware_settings"))
    assert settings.simulated and settings.port == bus.port and settings.joint_names == ROBOT.joint_names
    assert settings.torque_constants_nm_per_a == tuple(ROBOT.torque_constants)
    with pytest.raises(NodeError, match="not active"):
        client.set_enabled("hardware", True)
    client.transition("hardware", "activate")
    client.wait(lambda: message(client) == "disabled", 10.0, "the cycle")
    assert not any(bus.chain.summary()["torque_enabled"])
    client.set_enabled("hardware", True)
    assert all(bus.chain.summary()["torque_enabled"])
    client.set_enabled("hardware", False)
    assert not any(bus.chain.summary()["torque_enabled"])
    client.set_enabled("hardware", True)
    client.transition("hardware", "deactivate")
    assert not any(bus.chain.summary()["torque_enabled"])
    client.transition("hardware", "activate")
    client.set_enabled("hardware", True)
    assert node.stop() == 0
    assert not any(bus.chain.summary()["torque_enabled"]) and not np.any(bus.chain.summary()["drive_current_a"])
    group.processes.remove(node)


def test_torque_waits_until_the_cycle_rate_is_decided(
    client: Supervisor, group: ProcessGroup, bus: EmulatedServoBus
) -> None:
    group.start_node("hardware_node", "hardware", {"port_name": bus.port})
    client.transition("hardware", "configure")
    client.transition("hardware", "activate")
    client.wait(lambda: client.reported(LOOP, RATE_KEY) != "", 10.0, "a report")
    client.set_enabled("hardware", False)  # so that node and client know each other
    client.transition("hardware", "deactivate")
    client.transition("hardware", "activate")
    waiting = client._clients["hardware/enable"].call_async(SetBool.Request(data=True))
    assert client.set_enabled("hardware", False) == "torque is off"
    client.wait(waiting.done, 10.0, "the answer")
    assert not waiting.result().success and "while the cycle rate was on trial" in waiting.result().message
    assert not any(bus.chain.summary()["torque_enabled"])


def test_a_fixed_rate_is_not_on_trial(client: Supervisor, node: Process) -> None:
    client.transition("hardware", "configure")
    client.transition("hardware", "activate")
    client.set_enabled("hardware", True)
    client.wait(lambda: client.reported(LOOP, RATE_KEY).startswith("fixed by rate_hz"), 10.0, "a report")
    client.wait(lambda: client.reported(LOOP, STATE).startswith("enabled"), 10.0, "a report")


class Commander:
    """Publishes joint_commands and listens to what the node makes of them."""

    def __init__(self, client: Supervisor) -> None:
        self.client = client
        self.states: list[JointState] = []
        self.applied: list[JointState] = []
        node = client.node
        node.create_subscription(JointState, "joint_states", self.states.append, STREAM)
        node.create_subscription(JointState, "applied_commands", self.applied.append, STREAM)
        self._publisher = node.create_publisher(JointState, "joint_commands", STREAM)

    def repeat(self, names: Sequence[str], effort: Sequence[float], until: Callable[[], bool], what: str) -> None:
        """Publish a command again and again until something is so."""
        command = JointState(name=list(names), effort=list(effort))
        timer = self.client.node.create_timer(PUBLISH_S, lambda: self._publisher.publish(command))
        try:
            self.client.wait(until, 20.0, what)
        finally:
            self.client.node.destroy_timer(timer)

    def last_effort(self) -> np.ndarray:
        return np.array(self.applied[-1].effort) if self.applied else np.full(ROBOT.size, np.nan)


@pytest.fixture
def commander(client: Supervisor, node: Process) -> Commander:
    """The arm is enabled and its states arrive."""
    found = Commander(client)
    client.transition("hardware", "configure")
    client.transition("hardware", "activate")
    client.set_enabled("hardware", True)
    client.wait(lambda: bool(found.states and found.applied), 10.0, "joint_states")
    return found


def test_states_are_published_and_commands_reach_the_motors(commander: Commander, bus: EmulatedServoBus) -> None:
    state = commander.states[-1]
    assert list(state.name) == NAMES
    np.testing.assert_allclose(state.position, 0.5 * (ROBOT.lower + ROBOT.upper), atol=0.01)
    wanted = np.linspace(0.02, 0.05, 8)
    steps = 0.51 * 0.00269 * ROBOT.torque_constants
    commander.repeat(
        NAMES, wanted, lambda: bool((np.abs(commander.last_effort() - wanted) <= steps).all()), "the applied torque"
    )
    shuffled = list(reversed(NAMES))
    other = -wanted
    commander.repeat(
        shuffled,
        other[::-1],
        lambda: bool((np.abs(commander.last_effort() - other) <= steps).all()),
        "the applied torque of a command in another order",
    )
    assert np.abs(np.array(bus.chain.summary()["max_abs_current_a"])).max() > 0.0


def test_when_commands_end_the_torque_fades(commander: Commander) -> None:
    wanted = np.full(8, 0.05)
    commander.repeat(NAMES, wanted, lambda: bool((commander.last_effort() > 0.03).all()), "the applied torque")
    commander.client.wait(
        lambda: bool((np.abs(commander.last_effort()) < 0.02).all()), 20.0, "the end of the torque after the timeout"
    )


OTHER_SHAPES = {
    "short effort": (NAMES, [1.0] * 7),
    "no effort": (NAMES, []),
    "missing joint": (NAMES[:7], [1.0] * 7),
    "unknown joint": ([*NAMES[:7], "stranger"], [1.0] * 8),
    "no names": ([], [1.0] * 8),
    "not a number": (NAMES, [1.0] * 7 + [float("nan")]),
}


def test_commands_of_another_shape_are_refused(commander: Commander, node: Process) -> None:
    def refused() -> int:
        return node.log.read_text().count("joint_commands refused")

    for shape, (names, effort) in OTHER_SHAPES.items():
        before = refused()  # said once a second: by then nothing of the shape before is on its way
        commander.repeat(names, effort, lambda before=before: refused() > before, f"the refusal: {shape}")
    assert node.running and all(np.abs(one.effort).max() < 1e-9 for one in commander.applied)


@pytest.mark.parametrize(("asked", "then"), [("true", f"holding: {Reason.BAD_COMMAND.value}"), ("false", "enabled")])
def test_zeros_of_a_controller_that_ended_hold_the_arm_where_asked_for(
    group: ProcessGroup, client: Supervisor, bus: EmulatedServoBus, asked: str, then: str
) -> None:
    """It would fall, as it does by zeros that are meant."""
    group.start_node("hardware_node", "hardware", {"port_name": bus.port, "zero_is_no_command": asked, **RATE})
    commander = Commander(client)
    client.transition("hardware", "configure")
    client.transition("hardware", "activate")
    client.set_enabled("hardware", True)
    commander.repeat(NAMES, [0.0] * 8, lambda: message(client).endswith(then), "the state")


def test_missing_controller_is_reported_once(commander: Commander, node: Process) -> None:
    seen: list[int] = []

    def some_reports() -> bool:
        report = commander.client.reports.pop("hardware", None)
        seen.extend([1] if report else [])
        return len(seen) > 3  # one a second

    commander.repeat(NAMES, [float("nan")] * 8, some_reports, "reports")
    assert node.log.read_text().count("joint_commands refused") == 1


def test_commands_that_are_cut_off_are_refused(commander: Commander, node: Process) -> None:
    whole = serialize_message(JointState(name=NAMES, effort=[1.0] * 8))
    pieces = itertools.cycle([whole[:size] for size in (40, len(whole) // 2, len(whole) - 20)])
    timer = commander.client.node.create_timer(PUBLISH_S, lambda: commander._publisher.publish(next(pieces)))
    commander.client.wait(lambda: node.log.read_text().count("joint_commands refused") > 1, 20.0, "the refusals")
    commander.client.node.destroy_timer(timer)
    assert node.running and all(
        np.abs(one.effort).max() < 0.1 for one in commander.applied
    )  # held, where 1 N m is asked for


def test_a_servo_that_falls_silent_is_a_fault_with_its_name(commander: Commander, bus: EmulatedServoBus) -> None:
    client = commander.client
    silent = bus.chain.servos.pop(5)
    client.wait(lambda: "servo 5 (crane_x7_upper_arm_revolute_part_rotate_joint)" in message(client), 20.0, "the fault")
    with pytest.raises(NodeError):
        client.set_enabled("hardware", True)
    bus.chain.servos[5] = silent


STARTER = """
import sys
from pathlib import Path
from dynid.nodes.processes import ProcessGroup
parameters = {"port_name": sys.argv[2], "rate_hz": "1000"}
node = ProcessGroup(Path(sys.argv[1]), {}).start_node("hardware_node", "hardware", parameters)
print(node.pid, flush=True)
sys.stdin.read()
"""


def test_a_driver_whose_parent_is_killed_switches_torque_off_and_ends(
    client: Supervisor, bus: EmulatedServoBus, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path), bus.port]
    with Child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        ended = os.pidfd_open(int(parent.stdout.readline()))
        client.transition("hardware", "configure")
        client.transition("hardware", "activate")
        client.set_enabled("hardware", True)
        assert all(bus.chain.summary()["torque_enabled"])
        parent.kill()
    assert select.select([ended], [], [], 30.0)[0]
    os.close(ended)
    assert not any(bus.chain.summary()["torque_enabled"]) and not np.any(bus.chain.summary()["drive_current_a"])


# -- interlocks ------------------------------------------------------------------------------------------------


@pytest.fixture
def enabled(client: Supervisor, node: Process) -> Supervisor:
    """Switch torque on."""
    client.transition("hardware", "configure")
    client.transition("hardware", "activate")
    client.set_enabled("hardware", True)
    return client


def test_the_emergency_stop_stops_the_arm_until_released_and_cleared(
    enabled: Supervisor, bus: EmulatedServoBus
) -> None:
    quality = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)  # not even latched: heard all the same
    button = enabled.node.create_publisher(Bool, "estop", quality)

    def press(value: bool, until: Callable[[], bool], what: str) -> None:
        def published() -> bool:
            button.publish(Bool(data=value))
            return until()

        enabled.wait(published, 20.0, what)

    named = re.compile(r"emergency stop: true on topic estop \(from (/supervisor|a node that is still joining)")
    press(True, lambda: named.match(message(enabled)) is not None, "the stop")
    enabled.wait(lambda: not any(bus.chain.summary()["torque_enabled"]), 20.0, "torque off")
    with pytest.raises(NodeError, match="emergency stop is active"):
        enabled.set_enabled("hardware", True)
    with pytest.raises(NodeError, match="publish false"):
        enabled.trigger("hardware/clear_fault")

    def cleared() -> bool:
        button.publish(Bool(data=False))
        try:
            return enabled.trigger("hardware/clear_fault") == "no fault"
        except NodeError:
            return False

    enabled.wait(cleared, 20.0, "the fault to be cleared")
    enabled.set_enabled("hardware", True)


def test_deactivated_driver_reports_torque_off(enabled: Supervisor) -> None:
    """Who held the arm would pull it back to where it was before it was lowered."""
    enabled.wait(lambda: enabled.reported(LOOP, TIMES_OFF) == "0", 10.0, "a report")
    enabled.transition("hardware", "deactivate")
    enabled.reports.clear()
    enabled.transition("hardware", "activate")
    enabled.set_enabled("hardware", True)
    enabled.wait(lambda: enabled.reported(LOOP, TIMES_OFF) not in ("", "0"), 10.0, "a report that torque was off")


def test_an_emergency_stop_that_was_pressed_before_counts(client: Supervisor, node: Process) -> None:
    button = client.node.create_publisher(Bool, "estop", LATCHED)
    button.publish(Bool(data=True))
    client.transition("hardware", "configure")
    client.transition("hardware", "activate")
    client.wait(lambda: message(client).startswith("emergency stop"), 10.0, "the fault")
    with pytest.raises(NodeError, match="emergency stop is active"):
        client.set_enabled("hardware", True)


def test_a_second_commander_stops_the_arm_by_name(enabled: Supervisor, bus: EmulatedServoBus) -> None:
    enabled.wait(lambda: enabled.reported(LOOP, COMMANDERS) == "0", 10.0, "a report without a commander")
    first = enabled.node.create_publisher(JointState, "joint_commands", STREAM)
    enabled.wait(lambda: enabled.reported(LOOP, COMMANDERS) == "1", 10.0, "a report of the commander")
    enabled.wait(lambda: first.get_subscription_count() == 1, 10.0, "the first commander")
    enabled.wait(lambda: message(enabled) == "enabled, holding: no command yet", 10.0, "the state")
    second = enabled.node.create_publisher(JointState, "joint_commands", STREAM)
    enabled.wait(lambda: message(enabled).startswith("2 publishers command the arm"), 10.0, "the finding")
    enabled.wait(lambda: not any(bus.chain.summary()["torque_enabled"]), 20.0, "torque off")
    enabled.trigger("hardware/clear_fault")
    with pytest.raises(NodeError, match=r"2 publishers .*\(from /supervisor.*an arm has one commander"):
        enabled.set_enabled("hardware", True)
    enabled.node.destroy_publisher(second)

    def enable() -> bool:
        try:
            return bool(enabled.set_enabled("hardware", True))
        except NodeError:
            return False

    enabled.wait(enable, 20.0, "enable with one commander")
    enabled.node.destroy_publisher(first)
    enabled.wait(lambda: enabled.reported(LOOP, COMMANDERS) == "0", 20.0, "the commander's leave")


# -- servos and cable ------------------------------------------------------------------------------------------


def test_a_servo_with_an_error_is_named_and_restarted_on_request(enabled: Supervisor, bus: EmulatedServoBus) -> None:
    with pytest.raises(NodeError, match="disable the arm first"):
        enabled.trigger("hardware/reboot")
    bus.chain.servos[3].raise_hardware_error(1 << 2)
    fault = "hardware error at servo 3 (crane_x7_shoulder_revolute_part_tilt_joint): overheating"
    enabled.wait(lambda: message(enabled) == fault, 20.0, "the fault")
    enabled.wait(lambda: not any(bus.chain.summary()["torque_enabled"]), 20.0, "torque off")
    enabled.wait(lambda: enabled.reported("hardware line", "alerts_by_servo: 3") != "", 20.0, "the count")
    assert "for 20 ms after it a different size of each reply; the tick is not read" in enabled.reported(
        "hardware line", "stale replies are told by"
    )
    known = "35 deg C, 12.0 V"  # a report before the first slow reads does not say it yet
    enabled.wait(
        lambda: known in enabled.reported("hardware servos", f"2 ({NAMES[0]})"), 20.0, "temperature and voltage"
    )
    enabled.trigger("hardware/clear_fault")
    with pytest.raises(NodeError, match="did not switch on at servo 3"):
        enabled.set_enabled("hardware", True)
    assert "rebooted after it reported overheating" in enabled.trigger("hardware/reboot")
    assert enabled.trigger("hardware/reboot") == "no servo reports a hardware error"
    enabled.set_enabled("hardware", True)


def test_a_cable_that_was_pulled_is_found_again_on_request(
    client: Supervisor, group: ProcessGroup, tmp_path: Path
) -> None:
    link = tmp_path / "arm"
    with running_bus(EmulatedServoBus(ROBOT, IndependentAxesPlant(ROBOT), wire_time=False, link=link)):
        group.start_node("hardware_node", "hardware", {"port_name": str(link), **RATE})
        client.transition("hardware", "configure")
        client.transition("hardware", "activate")
        client.set_enabled("hardware", True)
        with pytest.raises(NodeError, match="nothing to reopen"):
            client.trigger("hardware/reopen")
    client.wait(lambda: "was lost" in message(client), 20.0, "the loss of the port")
    assert "TORQUE MAY STILL BE ON" in message(client) and "call hardware/reopen" in message(client)
    with pytest.raises(NodeError, match="does not exist"):
        client.trigger("hardware/reopen")
    again = EmulatedServoBus(ROBOT, IndependentAxesPlant(ROBOT), wire_time=False, link=link)
    for servo in again.chain.servos.values():  # as the servos were left: stopped by their watchdog, torque on
        servo.write(table.OPERATING_MODE.address, b"\x00")
        servo.set(table.TORQUE_ENABLE, 1)
        servo.trip_watchdog()
    with running_bus(again):
        assert client.trigger("hardware/reopen") == "the port is open again; torque is off"
        assert not any(again.chain.summary()["torque_enabled"])
        client.wait(lambda: message(client) == "disabled", 20.0, "the cycle")
        client.set_enabled("hardware", True)
        client.set_enabled("hardware", False)


def test_torque_that_is_on_is_taken_over_only_on_request(
    client: Supervisor, node: Process, bus: EmulatedServoBus
) -> None:
    bus.chain.servos[4].set(table.TORQUE_ENABLE, 1)
    assert "servo 4 (crane_x7_upper_arm_revolute_part_twist_joint) has torque on" in refusal(client, node, bus.port)
    assert all(bus.chain.summary()["torque_enabled"][2:3])
    client.set_parameters("hardware", {"take_over": True})
    client.transition("hardware", "configure")
    assert not any(bus.chain.summary()["torque_enabled"])
