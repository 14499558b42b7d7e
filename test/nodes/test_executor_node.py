"""The executor node as a process; the test acts as its arm."""

import contextlib
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from builtin_interfaces.msg import Duration, Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, Header, String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dynid.contact.contact_report import ContactReport, digest
from dynid.control.control_model import ControlModel
from dynid.errors import NodeError
from dynid.hardware.loop.diagnostics import LOADS, LOOP, STATE, TIMES_OFF
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.standard import from_file
from dynid.nodes.common import LATCHED, STREAM
from dynid.nodes.model_parameters import as_values
from dynid.nodes.outputs import COMMANDED
from dynid.nodes.processes import Process, ProcessGroup
from dynid.nodes.supervisor import Supervisor
from dynid.recording.settings import HardwareSettings
from dynid.robot import load_robot
from dynid.simulation.plant.arm import plant_standard

ROBOT = load_robot("crane_x7")
SETTINGS = HardwareSettings(
    robot=ROBOT.name,
    joint_names=ROBOT.joint_names,
    torque_constants_nm_per_a=tuple(ROBOT.torque_constants),
    mount="upright",
    gravity_m_s2=(0.0, 0.0, -9.80665),
    current_unit_a=0.00269,
    cycle_s=0.001,
    simulated=True,
    port="-",
    dynid_version="0",
)


@pytest.fixture
def node(group: ProcessGroup) -> Process:
    return group.start_node("executor_node", "executor")


class PerfectArm:
    """Publishes joint states that are where the reference is, on a clock of its own."""

    def __init__(self, client: Supervisor, q: np.ndarray) -> None:
        self.client, self.q, self.stamp_ns = client, np.array(q), 1_000_000_000
        self.commands: list[JointState] = []
        self.references: list[np.ndarray] = []
        self.names = list(ROBOT.joint_names)
        node = client.node
        self._publisher = node.create_publisher(JointState, "joint_states", STREAM)
        node.create_subscription(JointState, "joint_commands", self.commands.append, STREAM)
        node.create_subscription(JointTrajectory, "reference", self._follow, STREAM)
        self.follows, self.silent = True, False
        node.create_timer(0.005, self._publish)

    def _follow(self, reference: JointTrajectory) -> None:
        self.references.append(np.array(reference.points[0].positions))
        if self.follows:
            self.q = np.array(reference.points[0].positions)
            self.speed = np.array(reference.points[0].velocities)

    def _publish(self) -> None:
        if self.silent:
            return
        self.stamp_ns += 5_000_000
        sec, nanosec = divmod(self.stamp_ns, 10**9)
        zero = [0.0] * len(self.names)
        header = Header(stamp=Time(sec=sec, nanosec=nanosec))
        self._publisher.publish(
            JointState(header=header, name=self.names, position=self.q.tolist(), velocity=zero, effort=zero)
        )

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        self.client.wait(condition, 30.0, what)

    def wait_on(self, seconds: float) -> None:
        """Until so much of the arm's own time has passed."""
        end_ns = self.stamp_ns + round(seconds * 1e9)
        self.wait(lambda: self.stamp_ns >= end_ns, "the passing of time")

    def wait_until_seen(self) -> None:
        self.wait(lambda: self.client.reported("executor", "state_age_s") not in ("", "inf"), "joint_states there")


def test_diagnostics_name_the_receivers_of_commands(client: Supervisor, node: Process) -> None:
    client.wait(lambda: client.reported("executor", "state_age_s") == "inf", 30.0, "a first report")
    assert client.reported("executor", COMMANDED) == ""
    listener = client.node.create_subscription(JointState, "joint_commands", lambda _: None, STREAM)
    client.wait(lambda: client.reported("executor", COMMANDED) == "supervisor", 30.0, "a report of the listener")
    client.node.destroy_subscription(listener)
    client.wait(lambda: client.reported("executor", COMMANDED) == "", 30.0, "the listener's leave")


def begin(client: Supervisor, name: str = "demo_validation") -> str:
    client.set_parameters("executor", {"trajectory": name})
    return client.trigger("executor/execute")


def state(client: Supervisor) -> str | None:
    return client.experiment.state if client.experiment else None


def test_without_an_arm_nothing_is_executed(client: Supervisor, node: Process) -> None:
    with pytest.raises(NodeError, match="no joint_states yet: is the arm active"):
        begin(client)
    with pytest.raises(NodeError, match=r"unknown trajectory 'nope'; known: .*AG02"):
        begin(client, "nope")
    with pytest.raises(NodeError, match="unknown trajectory ''"):
        begin(client, "")
    client.set_parameters("executor", {"profile": "nope"})
    with pytest.raises(NodeError, match="unknown trajectory profile 'nope'"):
        begin(client)
    with pytest.raises(NodeError, match="nothing is moving"):
        client.trigger("executor/cancel")
    assert node.running and client.experiment is None


def test_states_of_other_joints_are_not_the_arms(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.names = [f"other_{name}" for name in ROBOT.joint_names]
    client.wait(lambda: "executor" in client.reports, 10.0, "a report")
    with pytest.raises(NodeError, match="no joint_states yet"):
        begin(client)


def test_a_motion_begins_where_the_arm_is_and_ends_when_it_is_cancelled(client: Supervisor, node: Process) -> None:
    start = ROBOT.rest_posture + 0.1
    arm = PerfectArm(client, start)
    arm.wait_until_seen()
    assert not arm.commands
    assert "executing demo_validation (limited)" in begin(client)
    arm.wait(lambda: len(arm.commands) > 20, "commands")
    first = arm.commands[0]
    assert list(first.name) == list(ROBOT.joint_names) and len(first.effort) == ROBOT.size
    assert np.isfinite(first.effort).all() and np.isnan(first.position).all()  # it moves, nobody holds it
    assert np.abs(arm.q - start).max() < 0.3  # no jump
    with pytest.raises(NodeError, match="a motion is running"):
        begin(client)
    with pytest.raises(NodeError, match="a motion is running"):
        client.trigger("executor/release")
    arm.wait(lambda: state(client) == "approach", "the approach")
    client.trigger("executor/cancel")
    arm.wait(lambda: state(client) == "cancelled", "the end of the motion")
    client.trigger("executor/release")
    last = len(arm.commands)
    arm.wait(lambda: client.reports["executor"].message == "idle", "the release")
    seen = len(arm.commands)
    arm.wait_on(1.0)
    assert len(arm.commands) == seen >= last


def test_an_arm_that_falls_silent_during_a_motion_is_named(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.wait_until_seen()
    begin(client)
    arm.wait(lambda: len(arm.commands) > 20, "commands")
    arm.silent = True
    arm.wait(lambda: client.reports["executor"].message.startswith("no joint_states for"), "the diagnosis")
    arm.silent = False
    arm.wait(lambda: client.reports["executor"].message in ("approach", "trajectory"), "the motion going on")


def test_an_arm_that_does_not_follow_is_held_where_it_is(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.wait_until_seen()
    begin(client)
    arm.wait(lambda: len(arm.commands) > 20, "commands")
    arm.follows = False
    arm.q = arm.q + np.array([0, 0, 0.5, 0, 0, 0, 0, 0])
    arm.wait(lambda: state(client) == "cancelled", "the end of the motion")
    assert "crane_x7_upper_arm_revolute_part_twist_joint is" in node.last_error()
    assert "deg off its reference" in node.last_error() and node.running
    where, seen = arm.q.copy(), len(arm.commands)
    arm.follows = True
    arm.wait(lambda: len(arm.commands) > seen + 20, "commands that hold it")
    np.testing.assert_allclose(arm.q, where)  # it went where the reference is
    client.experiment = None
    begin(client)
    arm.wait(lambda: state(client) == "approach", "another motion")


def test_an_arm_that_its_driver_stops_is_neither_held_nor_moved(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    reports = client.node.create_publisher(DiagnosticArray, "diagnostics", 10)
    arm.wait_until_seen()
    client.wait(lambda: reports.get_subscription_count() > 1, 30.0, "the executor's subscription")

    def answer(level: bytes, text: str) -> str:
        reports.publish(DiagnosticArray(status=[DiagnosticStatus(name=LOOP, level=level, message=text)]))
        try:
            return client.trigger("executor/hold")
        except NodeError as error:
            return str(error)

    fault = "emergency stop: true on topic estop"
    client.wait(lambda: fault in answer(DiagnosticStatus.ERROR, fault), 10.0, "the refusal")
    with pytest.raises(NodeError, match="nothing is moved: the driver stops the arm"):
        begin(client)
    client.wait(lambda: answer(DiagnosticStatus.OK, "disabled") == "holding with ff_pd", 10.0, "the hold")
    with pytest.raises(NodeError, match="torque is off; switch it on with hardware/enable"):
        begin(client)  # it would be done, and the arm where it was
    arm.follows, arm.q = False, arm.q + 0.2  # somebody moves it
    arm.wait(lambda: np.allclose(arm.references[-1], arm.q), "a reference that it is not pulled away from")
    answer(DiagnosticStatus.OK, "enabled")
    client.wait(lambda: "executing" in begin(client), 10.0, "the motion")


class Driver:
    """Reports what a hardware node would: its state, and the fault that it stops the arm for."""

    def __init__(self, client: Supervisor) -> None:
        self.client = client
        self._publisher = client.node.create_publisher(DiagnosticArray, "diagnostics", 10)
        client.wait(lambda: self._publisher.get_subscription_count() > 1, 30.0, "the executor's subscription")

    def report(self, state: str, fault: str = "") -> None:
        level = DiagnosticStatus.ERROR if fault else DiagnosticStatus.OK
        values = [KeyValue(key=STATE, value=state)]
        status = DiagnosticStatus(name=LOOP, level=level, message=fault or state, values=values)
        self._publisher.publish(DiagnosticArray(status=[status]))


def test_a_held_arm_that_its_driver_lowers_was_not_pushed(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    driver = Driver(client)
    arm.wait_until_seen()
    driver.report("enabled")
    client.trigger("executor/hold")
    arm.wait(lambda: bool(arm.references), "the held arm")
    arm.follows = False
    driver.report("stopping")
    for _ in range(4):  # faster than the reports of a busy driver
        arm.q = arm.q + 0.5
        arm.wait(lambda: np.abs(arm.references[-1] - arm.q).max() < 0.03, "the reference where the arm is")
    driver.report("disabled")
    arm.wait_on(0.5)
    assert "off its reference" not in node.log.read_text() and "WARN" not in node.log.read_text()


def test_a_held_arm_that_is_pushed_is_warned_of(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    driver = Driver(client)
    arm.wait_until_seen()
    driver.report("enabled")
    client.trigger("executor/hold")
    arm.wait(lambda: len(arm.references) > 10, "the held arm")
    arm.follows, arm.q = False, arm.q + 0.5

    def warned() -> bool:
        driver.report("enabled")  # as every second: the driver does not move it
        return "[WARN]" in node.log.read_text()

    arm.wait(warned, "the warning")
    assert "off its reference" in node.log.read_text() and "it was pushed" in node.log.read_text()


def test_a_motion_that_its_driver_stops_ends_with_the_drivers_reason(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    driver = Driver(client)
    arm.wait_until_seen()
    driver.report("enabled")
    begin(client)
    arm.wait(lambda: len(arm.commands) > 20, "commands")
    driver.report("fault", "hardware error at servo 3")
    arm.wait(lambda: state(client) == "cancelled", "the end of the motion")
    reason = "the driver stops the arm: hardware error at servo 3"
    assert status(client)["reason"] == reason and node.last_error() == f"the motion ended: {reason}"


def test_missing_states_are_named_before_the_joint(client: Supervisor, node: Process) -> None:
    """The arm of this test publishes every fifth state of the rate that its driver reports."""
    arm = PerfectArm(client, ROBOT.rest_posture)
    publisher = client.node.create_publisher(String, "hardware_settings", LATCHED)
    publisher.publish(String(data=SETTINGS.model_dump_json()))
    arm.wait_until_seen()
    arm.wait(lambda: publisher.get_subscription_count() > 0, "the executor's subscription")
    begin(client)
    arm.wait(lambda: len(arm.commands) > 20, "commands")
    arm.follows, arm.q = False, arm.q + 0.5
    arm.wait(lambda: state(client) == "cancelled", "the end of the motion")
    assert re.match(
        r"of \d+ cycles at 1000 Hz since the motion began, \d+ were missing: this machine is too busy or too slow; "
        r"crane_x7_\w+ is .* deg off its reference",
        node.last_error(),
    )


def test_a_motion_is_checked_with_the_load_that_the_driver_counts(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    reports = client.node.create_publisher(DiagnosticArray, "diagnostics", 10)
    arm.wait_until_seen()
    client.wait(lambda: reports.get_subscription_count() > 1, 30.0, "the executor's subscription")

    def answer(load: str) -> str:
        reports.publish(DiagnosticArray(status=[DiagnosticStatus(name=LOOP, values=[KeyValue(key=LOADS, value=load)])]))
        try:
            return begin(client)
        except NodeError as error:
            return str(error)

    for malformed in ("much", "0.99", "nan " * 8):  # none is taken for a load
        reports.publish(
            DiagnosticArray(status=[DiagnosticStatus(name=LOOP, values=[KeyValue(key=LOADS, value=malformed)])])
        )
    refusal = "let the servo rest first: "
    client.wait(lambda: refusal in answer("2.0 " * 8), 10.0, "the refusal")
    arm.wait_on(0.5)  # without a further report the load decays, and is not forgotten
    with pytest.raises(NodeError, match=r"let the servo rest first: 1[5-9]"):
        begin(client)
    client.wait(lambda: "refused" not in answer("0.1 " * 8), 10.0, "the motion")


def test_torque_off_clears_the_command(client: Supervisor, node: Process) -> None:
    """The arm would be pulled back to a posture of before when torque is on again."""
    arm = PerfectArm(client, ROBOT.rest_posture)
    reports = client.node.create_publisher(DiagnosticArray, "diagnostics", 10)
    arm.wait_until_seen()

    def times_off(count: int) -> None:
        values = [KeyValue(key=TIMES_OFF, value=str(count))]
        reports.publish(DiagnosticArray(status=[DiagnosticStatus(name=LOOP, values=values)]))

    client.wait(lambda: reports.get_subscription_count() > 1, 30.0, "the executor's subscription")
    times_off(1)
    begin(client)
    arm.wait(lambda: len(arm.commands) > 20, "commands")
    times_off(1)
    moved = len(arm.commands)
    arm.wait(lambda: len(arm.commands) > moved + 20, "more commands")
    times_off(2)
    arm.wait(lambda: state(client) == "cancelled", "the end of the motion")
    assert status(client)["reason"] == "torque was switched off"
    arm.follows, arm.q = False, arm.q + 0.2
    arm.wait_on(0.3)  # so that the executor has had states of the new posture
    client.reports.clear()
    arm.wait(lambda: "executor" in client.reports, "a report")
    assert client.reports["executor"].message == "idle"
    arm.commands.clear(), arm.references.clear()
    client.trigger("executor/hold")
    arm.wait(lambda: bool(arm.commands) and bool(arm.references), "commands that hold it")
    np.testing.assert_allclose(arm.references[-1], arm.q)


def status(client: Supervisor) -> dict:
    return json.loads(client.latched_text("motion_status"))


def point(seconds: float, positions: list[float]) -> JointTrajectoryPoint:
    return JointTrajectoryPoint(time_from_start=Duration(sec=int(seconds)), positions=positions)


def send(client: Supervisor, node: Process, message: JointTrajectory) -> None:
    publisher = client.node.create_publisher(JointTrajectory, "joint_trajectory", 10)
    client.wait(lambda: publisher.get_subscription_count() > 0, 10.0, "the executor's subscription")
    publisher.publish(message)


def test_a_joint_trajectory_is_checked_whole_and_then_runs(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.wait_until_seen()
    names = [ROBOT.joint_names[6], ROBOT.joint_names[3]]
    bad = JointTrajectory(joint_names=names, points=[point(0, [0.0, -1.5]), point(4, [0.0, 0.5])])
    bad.header.frame_id = "bad"
    send(client, node, bad)
    arm.wait(lambda: "refused" in node.log.read_text(), "the refusal")
    refusal = status(client)
    assert (refusal["id"], refusal["state"]) == ("bad", "refused")
    assert re.search(rf"'bad' refused: {names[1]} is at 0\.\d+ deg at \d\.\d+ s; allowed is", refusal["reason"])
    assert not arm.commands and client.experiment is None
    good = JointTrajectory(joint_names=names, points=[point(0, [0.0, -1.5]), point(2, [0.3, -1.4])])
    good.header.frame_id = "good"
    send(client, node, good)
    arm.wait(lambda: state(client) == "done", "the end of the motion")
    end = status(client)
    assert (end["id"], end["trajectory"], end["state"]) == ("good", "good", "done")
    assert client.experiment.profile == "topic" and client.experiment.duration_s == 2.0
    assert 0.0 < end["tracking"]["rms_deg"] < 1.0 and end["tracking"]["states"] > 300
    assert float(client.reported("executor", "progress") or 0) >= 0.0


def test_a_start_far_away_and_a_motion_through_the_table_are_refused_unless_asked_for(
    client: Supervisor, node: Process, tmp_path: Path
) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.wait_until_seen()
    rest, names = np.array(ROBOT.rest_posture), list(ROBOT.joint_names)

    def sent(identifier: str, *postures: np.ndarray) -> dict:
        points = [point(4 * k, one.tolist()) for k, one in enumerate(postures)]
        message = JointTrajectory(joint_names=names, points=points)
        message.header.frame_id = identifier
        send(client, node, message)
        arm.wait(lambda: client.latched_text("motion_status") and status(client)["id"] == identifier, "an answer")
        return status(client)

    away = rest + 0.2 * np.eye(8)[0]
    refusal = sent("far", away, away)
    assert refusal["state"] == "refused"
    assert re.search(rf"begins 11\.5 deg away from where {names[0]} is, allowed are 5\.7 deg", refusal["reason"])
    with pytest.raises(NodeError, match=r"approach_rad is 0\.0; expected a positive angle"):
        client.set_parameters("executor", {"approach_rad": 0.0})
    down = rest.copy()
    down[[1, 3]] = np.deg2rad([-89.0, -60.0])
    refusal = sent("table", rest, down)
    assert refusal["state"] == "refused" and not arm.commands
    assert re.search(
        r"'table' refused: link \d comes within .* of the border 'table'.* parameter scene", refusal["reason"]
    )
    with pytest.raises(NodeError, match="no such file"):
        client.set_parameters("executor", {"scene": str(tmp_path / "nowhere.yaml")})
    narrow = tmp_path / "narrow.yaml"
    narrow.write_text("schema_version: 1\nhalf_spaces: [{name: low roof, normal: [0, 0, -1], offset_m: -0.1}]\n")
    client.set_parameters("executor", {"scene": str(narrow)})
    assert "low roof" in sent("roof", rest, rest)["reason"]
    client.set_parameters("executor", {"scene": "none", "approach_rad": 0.3})
    assert sent("asked for", away, away)["state"] in ("approach", "trajectory")


def test_efforts_of_points_are_added_tolerances_brake_and_a_series_is_reported(
    client: Supervisor, node: Process
) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.wait_until_seen()
    name, rest = [ROBOT.joint_names[1]], float(ROBOT.rest_posture[1])
    for tolerance in ([0.1], [0.1] * 7 + [0.0], [float("nan")] * 8):
        with pytest.raises(NodeError, match=r"path_tolerance_rad is .* expected 8 positive angles"):
            client.set_parameters("executor", {"path_tolerance_rad": tolerance})
    client.set_parameters("executor", {"path_tolerance_rad": [0.3] * 7 + [0.02], "series": "a series"})

    def sent(identifier: str, *efforts: list[float]) -> None:
        points = [point(t, [rest]) for t in (0, 3)]
        for one, effort in zip(points, efforts, strict=True):
            one.effort = effort
        message = JointTrajectory(joint_names=name, points=points)
        message.header.frame_id = identifier
        send(client, node, message)

    for identifier, efforts, words in (
        ("one", ([0.5], []), "effort of its points have"),
        ("not finite", ([0.5], [float("nan")]), "efforts are not all finite"),
        ("strong", ([0.5], [50.0]), r"effort of \w+ is 50.00 N m at 3.000 s, its limit is"),
    ):
        sent(identifier, *efforts)
        arm.wait(lambda identifier=identifier: f"'{identifier}'" in node.log.read_text(), "the refusal")
        assert re.search(words, status(client)["reason"]), status(client)
    sent("fed", [0.5], [0.5])
    arm.wait(lambda: state(client) == "trajectory" and len(arm.commands) > 300, "the motion")
    assert arm.commands[-1].effort[1] == pytest.approx(0.5, abs=0.05) and client.experiment.series == "a series"
    assert not np.any(np.delete(arm.commands[-1].effort, 1).round(2))
    arm.follows, arm.q = False, arm.q + 0.03 * np.eye(8)[7]
    arm.wait(lambda: state(client) == "cancelled", "the end of the motion")
    assert f"{ROBOT.joint_names[7]} was 0.030 rad off its reference" in status(client)["reason"]


def test_file_trajectory_runs_and_a_braked_arm_is_released_at_rest(
    client: Supervisor, node: Process, tmp_path: Path
) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.wait_until_seen()
    file = tmp_path / "sweep.yaml"
    goal = np.rad2deg(ROBOT.rest_posture) + 150 * np.eye(8)[0]
    rows = [np.rad2deg(ROBOT.rest_posture).tolist(), goal.tolist()]
    file.write_text(f"schema_version: 1\nspeed_factor: 0.5\nwaypoints_deg: {rows}\n")
    assert f"executing {file} (file)" in begin(client, str(file))
    arm.wait(lambda: arm.q[0] > 0.3, "the motion")
    client.trigger("executor/cancel")
    assert "torque commands have stopped" in client.trigger("executor/release")
    assert np.abs(arm.speed).max() < 1e-6 and 0.3 < arm.q[0] < np.deg2rad(140)  # the last reference


def test_executor_holds_and_releases_the_arm(client: Supervisor, node: Process) -> None:
    with pytest.raises(NodeError, match="no joint_states yet"):
        client.trigger("executor/hold")
    arm = PerfectArm(client, ROBOT.rest_posture + 0.1)
    arm.wait_until_seen()
    assert client.trigger("executor/hold") == "holding with ff_pd"
    arm.wait(lambda: len(arm.commands) > 20, "commands")
    np.testing.assert_allclose(arm.q, ROBOT.rest_posture + 0.1)
    assert client.experiment is None and client.trigger("executor/release")


def handed_over(**changed: object) -> dict[str, object]:
    arm = ArmModel.of(ROBOT)
    phi = arm.base_parameters(from_file(plant_standard(ROBOT), arm.mdh))
    return as_values(ControlModel(ROBOT.name, arm.structure_hash, phi, FrictionLaw.of(8, {}), True)) | changed


REFUSED = [
    ({"controller": "pid"}, "unknown controller 'pid'; known: ff_pd, gravity_compensation, computed_torque"),
    ({"controller": "computed_torque"}, "needs an accepted model"),
    ({"model.phi.ZZR1": 1.0}, "set a complete model in one call: 145 of its 146 parameters are missing"),
    (handed_over(**{"model.robot": "other"}), "for robot 'other', but this robot is 'crane_x7'"),
    (handed_over(**{"model.structure_hash": "abc"}), "has structure abc, expected"),
    (handed_over(**{"model.accepted": False}), "did not pass its verdict"),
    (handed_over(**{"model.phi.IA5": -0.01}), "not positive definite"),
    (handed_over(**{"model.phi.ZZR1": float("nan")}), "not all finite"),
    (handed_over(**{"model.friction.FC3": -1.0}), r"friction FC3 is -1 N\*m; expected at least 0"),
    (handed_over(**{"model.friction.KM2": float("nan")}), "not all finite"),
    (handed_over(**{"model.friction.KM2": 1.2}), "no motor could move this gear"),
    (handed_over(controller="pid"), "unknown controller"),
]


def test_unsuitable_models_are_refused_and_the_law_stays(client: Supervisor, node: Process) -> None:
    for values, words in REFUSED:
        with pytest.raises(NodeError, match=words):
            client.set_parameters("executor", values)
    robot, accepted, controller = client.get_parameters("executor", ["model.robot", "model.accepted", "controller"])
    assert robot.string_value == "" and not accepted.bool_value and controller.string_value == "ff_pd"


BROKEN = {
    "a date that does not exist": "schema_version: 1\naccepted: 2020-13-45\n",
    "a number without end": f"schema_version: {'9' * 5000}\n",
    "nested": "[" * 20_000,
    "no mapping": "- 1\n",
}


def test_nothing_that_is_set_while_it_moves_ends_the_node_or_the_motion(
    client: Supervisor, node: Process, tmp_path: Path
) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.wait_until_seen()
    begin(client)
    arm.wait(lambda: len(arm.commands) > 20, "commands")
    for name, text in BROKEN.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        with pytest.raises(NodeError, match=re.escape(str(path))):
            client.set_parameters("executor", {"model_file": str(path)})
    for value in (str(tmp_path), "/dev/zero", "x" * 5000):
        with pytest.raises(NodeError, match="refused the parameters"):
            client.set_parameters("executor", {"model_file": value})
    seen = len(arm.commands)
    arm.wait(lambda: len(arm.commands) > seen + 20, "more commands")
    assert node.running and client.reported("executor", "controller") == "ff_pd"


def test_states_that_are_cut_off_are_left_out(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.wait_until_seen()
    client.trigger("executor/hold")
    whole = serialize_message(JointState(name=arm.names, position=[0.0] * 8, velocity=[0.0] * 8, effort=[0.0] * 8))
    pieces = itertools.cycle([whole[:size] for size in (40, len(whole) // 2, len(whole) - 20)])
    timer = client.node.create_timer(0.01, lambda: arm._publisher.publish(next(pieces)))
    arm.wait(lambda: int(client.reported("executor", "malformed_states") or 0) >= 12, "the count")
    client.node.destroy_timer(timer)
    seen = len(arm.commands)
    arm.wait(lambda: len(arm.commands) > seen + 20, "more commands")
    assert node.running


@pytest.mark.parametrize("topic", ["joint_states", "hardware_settings"])
def test_of_two_sources_neither_moves_the_arm(client: Supervisor, node: Process, topic: str) -> None:
    """A forged state or mount would be taken for the arm's: whoever sends it is named, and nothing is commanded."""
    arm = PerfectArm(client, ROBOT.rest_posture)
    settings = client.node.create_publisher(String, "hardware_settings", LATCHED)
    arm.wait_until_seen()
    client.trigger("executor/hold")
    arm.wait(lambda: len(arm.commands) > 20, "commands")
    kind, quality = (JointState, STREAM) if topic == "joint_states" else (String, LATCHED)
    forger = client.node.create_publisher(kind, topic, quality)
    client.wait(lambda: f"publishers send {topic}" in node.log.read_text(), 30.0, "the finding")
    client.wait(lambda: f"publishers send {topic}" in client.reports["executor"].message, 10.0, "the diagnosis")
    for call in ("hold", "execute"):
        with pytest.raises(NodeError, match=f"2 publishers send {topic} .*supervisor.*end all but one"):
            client.set_parameters("executor", {"trajectory": "demo_validation"})
            client.trigger(f"executor/{call}")
    client.node.destroy_publisher(forger)

    def holds() -> bool:
        with contextlib.suppress(NodeError):
            client.trigger("executor/hold")
            return True
        return False

    client.wait(holds, 30.0, "the hold after the forger's leave")
    client.node.destroy_publisher(settings)


def test_a_model_feeds_the_running_controller_without_a_jump(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.wait_until_seen()
    client.trigger("executor/hold")
    client.set_parameters("executor", handed_over(controller="gravity_compensation"))
    arm.wait(lambda: client.reported("executor", "controller") == "gravity_compensation", "the switch")
    seen = len(arm.commands)
    arm.wait(lambda: len(arm.commands) > seen + 150, "commands")
    efforts = np.array([command.effort for command in arm.commands])
    model = ArmModel.of(ROBOT)
    phi = model.base_parameters(from_file(plant_standard(ROBOT), model.mdh))
    gravity = model.inverse_dynamics(*np.array([[ROBOT.rest_posture], np.zeros((1, 8)), np.zeros((1, 8))]), phi)[0]
    np.testing.assert_allclose(efforts[-1], gravity, atol=1e-6)
    assert np.abs(np.diff(efforts, axis=0)).max() < 0.1 * np.abs(gravity).max()
    with pytest.raises(NodeError, match="gravity_compensation cannot follow a reference"):
        begin(client)
    client.set_parameters("executor", {"controller": "computed_torque"})
    assert "executing" in begin(client)
    client.wait(lambda: client.experiment is not None, 10.0, "the experiment")
    assert client.experiment.controller == "computed_torque" and len(client.experiment.gains["phi"]) == 39
    with pytest.raises(NodeError, match="gravity_compensation cannot take over"):
        client.set_parameters("executor", {"controller": "gravity_compensation"})
    client.set_parameters("executor", {"controller": "ff_pd"})
    client.wait(lambda: "then" in client.experiment.controller, 10.0, "the record of the switch")
    assert client.experiment.controller == "computed_torque then ff_pd" and client.experiment.gains == {}


def test_held_arm_sways_on_request_within_the_limit(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.follows = False  # so commands show where the law wants it
    arm.wait_until_seen()
    client.trigger("executor/hold")
    for wrong in ({"sway_rad": 0.06}, {"sway_rad": -0.01}, {"sway_hz": 0.0}, {"sway_rad": 0.05, "sway_hz": 5.0}):
        with pytest.raises(NodeError, match="an arm cannot sway by"):
            client.set_parameters("executor", wrong)
    with pytest.raises(NodeError, match="unknown controller"):  # all or nothing
        client.set_parameters("executor", {"sway_rad": 0.04, "controller": "nope"})

    def span(cycles: int) -> np.ndarray:
        """By how much the commands of each joint go up and down from now on."""
        seen = len(arm.commands)
        arm.wait(lambda: len(arm.commands) > seen + cycles, "commands")
        return np.ptp(np.array([one.effort for one in arm.commands[seen:]]), axis=0)

    assert span(400).max() < 1e-6  # two seconds
    client.set_parameters("executor", {"sway_rad": 0.04})
    arm.wait(lambda: span(100).min() > 0.0, "swaying of every joint")
    client.set_parameters("executor", {"sway_rad": 0.0})
    arm.wait(lambda: span(100).max() < 1e-6, "standing")


def test_torques_for_an_effort_controller_end_with_zeros(client: Supervisor, group: ProcessGroup) -> None:
    group.start_node("executor_node", "executor", {"output": "effort_controller"})
    efforts: list[Float64MultiArray] = []
    client.node.create_subscription(Float64MultiArray, "effort_controller/commands", efforts.append, STREAM)
    arm = PerfectArm(client, ROBOT.rest_posture + 0.1)
    arm.wait_until_seen()
    client.trigger("executor/hold")
    arm.follows, arm.q = False, arm.q + 0.05
    arm.wait(lambda: len(efforts) > 60, "efforts")
    assert len(efforts[-1].data) == ROBOT.size and np.abs(efforts[-1].data).max() > 0.1 and not arm.commands
    client.trigger("executor/release")
    arm.wait(lambda: not np.any(efforts[-1].data), "zeros")


@pytest.mark.parametrize("how", ["silent", "stamps go back"])
def test_effort_controller_gets_zeros_when_states_stop(client: Supervisor, group: ProcessGroup, how: str) -> None:
    process = group.start_node("executor_node", "executor", {"output": "effort_controller"})
    efforts: list[Float64MultiArray] = []
    client.node.create_subscription(Float64MultiArray, "effort_controller/commands", efforts.append, STREAM)
    arm = PerfectArm(client, ROBOT.rest_posture + 0.1)
    arm.wait_until_seen()
    client.trigger("executor/hold")
    arm.follows, arm.q = False, arm.q + 0.05
    arm.wait(lambda: len(efforts) > 60 and np.abs(efforts[-1].data).max() > 0.1, "efforts")
    arm.silent, words = how == "silent", r"no joint_states for 0\.\d s: nothing is commanded any more"
    if how != "silent":
        arm.stamp_ns, words = 1_000_000, r"the stamps of joint_states went back by \d+\.\d+ s: the arm is not held"
    arm.wait(lambda: not np.any(efforts[-1].data), "zeros")
    arm.wait(lambda: client.reports["executor"].message == "idle" or arm.silent, "the end of the hold")
    assert re.search(words, process.log.read_text())
    arm.silent = False
    seen = len(efforts)
    arm.wait_on(0.2)
    assert len(efforts) == seen
    client.trigger("executor/hold")
    arm.wait(lambda: len(efforts) > seen + 20, "a new hold")


def test_a_motion_ends_where_the_clock_is_set_back(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.wait_until_seen()
    begin(client)
    arm.wait(lambda: len(arm.commands) > 20, "commands")
    arm.stamp_ns = 1_000_000
    arm.wait(lambda: state(client) == "cancelled", "the end of the motion")
    assert re.search(r"went back by .* the motion was aborted, and nothing is commanded", status(client)["reason"])
    client.trigger("executor/hold")
    seen = len(arm.commands)
    arm.wait(lambda: len(arm.commands) > seen + 20, "a hold by the new clock")


def test_invalid_start_parameters_give_one_sentence(group: ProcessGroup, tmp_path: Path) -> None:
    refused = (
        ({"trajektory": "V01"}, "error: unknown parameter of node executor 'trajektory'; known: "),
        ({"output": "nowhere"}, "unknown output 'nowhere'; known: joint_commands, effort_controller"),
        ({"controller": "computed_torque"}, "error: computed_torque needs an accepted model"),
        ({"model_file": str(tmp_path / "none.yaml")}, "error: no such file"),
    )
    nodes = [group.start_node("executor_node", f"executor{k}", parameters) for k, (parameters, _) in enumerate(refused)]
    for process, (_, words) in zip(nodes, refused, strict=True):
        assert process._child.wait(300) == 1 and words in process.last_lines()
        group.processes.remove(process)


def test_gravity_follows_the_mount_of_the_hardware_node(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.wait_until_seen()
    client.set_parameters("executor", handed_over())
    publisher = client.node.create_publisher(String, "hardware_settings", LATCHED)
    x, y, z = ROBOT.gravity("hanging")
    settings = SETTINGS.model_copy(update={"mount": "hanging", "gravity_m_s2": (x, y, z)})
    constants = tuple(2.0 * ROBOT.torque_constants)
    for changed, words in (
        ({"torque_constants_nm_per_a": constants}, "start driver and executor with the same robot.yaml"),
        ({"joint_names": ROBOT.joint_names[::-1]}, "hardware_settings name the joints"),
        ({"cycle_s": 1e-9}, "cycle_s is 1e-09, expected 0.0005 to 0.02"),
        ({"gravity_m_s2": (x, y, -z)}, "for mount 'hanging', but robot.yaml now says"),
    ):
        publisher.publish(String(data=settings.model_copy(update=changed).model_dump_json()))
        arm.wait(lambda words=words: words in node.last_error(), "the refusal")
        with pytest.raises(NodeError, match="the settings of the arm's driver are unknown"):
            client.trigger("executor/hold")
    publisher.publish(String(data=settings.model_dump_json()))
    client.set_parameters("executor", {"controller": "gravity_compensation"})
    client.trigger("executor/hold")
    model = ArmModel.of(ROBOT, mount="hanging")
    phi = model.base_parameters(from_file(plant_standard(ROBOT), model.mdh))
    expected = model.inverse_dynamics(*np.array([[ROBOT.rest_posture], np.zeros((1, 8)), np.zeros((1, 8))]), phi)[0]
    arm.wait(
        lambda: bool(arm.commands) and np.allclose(arm.commands[-1].effort, expected, atol=1e-6), "hanging gravity"
    )


class Sense:
    """Publishes contact reports at 50 Hz, as the node external_torque does."""

    def __init__(self, client: Supervisor, arm: PerfectArm) -> None:
        self.arm, self.contact, self.silent = arm, False, False
        self.model = digest(client.latched_text("control_model"))
        self._publisher = client.node.create_publisher(String, "contact", STREAM)
        client.node.create_timer(0.02, self._publish)

    def _publish(self) -> None:
        if not self.silent:
            where = ROBOT.joint_names[1]
            report = ContactReport(
                stamp_ns=self.arm.stamp_ns,
                contact=self.contact,
                joint=where,
                torque_nm=3.0 * self.contact,
                threshold_nm=1.0,
                force_n=9.0 * self.contact,
                model=self.model,
            )
            self._publisher.publish(String(data=report.model_dump_json()))


def test_motion_is_refused_during_contact_or_without_estimates(client: Supervisor, node: Process) -> None:
    arm, statuses = PerfectArm(client, ROBOT.rest_posture), list[dict[str, str]]()
    client.node.create_subscription(
        String, "motion_status", lambda message: statuses.append(json.loads(message.data)), LATCHED
    )
    arm.wait_until_seen()
    with pytest.raises(NodeError, match="unknown contact policy 'stops'"):
        client.set_parameters("executor", {"contact": "stops"})
    client.set_parameters("executor", {"contact": "stop"})
    with pytest.raises(NodeError, match="no node detects it: start external_torque"):
        begin(client)
    sense = Sense(client, arm)

    def began() -> bool:
        with contextlib.suppress(NodeError):
            begin(client)
            return True
        return False

    def stopped(words: str) -> None:
        arm.wait(lambda: bool(statuses) and words in str(statuses[-1].get("reason")), words)
        assert statuses[-1]["state"] == "cancelled"
        arm.wait(lambda: client.reported("executor", "moving") == "false", "standstill")

    arm.wait(began, "a motion of an arm that nothing touches")
    sense.contact = True
    stopped("3.0 N m from outside")
    for _ in range(2):
        with pytest.raises(NodeError, match=r"nothing is moved: contact at \w+, 3.0 N m from outside.* free the arm"):
            begin(client)
    sense.contact = False
    arm.wait(began, "another motion")
    sense.silent = True
    stopped("away from the newest state")
    with pytest.raises(NodeError, match="is external_torque running"):
        begin(client)
    sense.silent, sense.model = False, "another model"
    arm.wait_on(0.5)
    with pytest.raises(NodeError, match="the executor's model and payload yet"):
        begin(client)
    client.set_parameters("executor", {"contact": "report"})
    begin(client)
    assert node.running


def test_commands_say_where_the_arm_is_held(client: Supervisor, node: Process) -> None:
    arm = PerfectArm(client, ROBOT.rest_posture)
    arm.wait_until_seen()
    client.trigger("executor/hold")
    arm.wait(lambda: len(arm.commands) > 20, "commands")
    np.testing.assert_allclose(arm.commands[-1].position, ROBOT.rest_posture, atol=1e-6)
    begin(client)
    arm.wait(lambda: bool(np.isnan(arm.commands[-1].position).all()), "a motion, in which nothing is held")
