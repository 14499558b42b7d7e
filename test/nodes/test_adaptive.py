"""An adaptive run with the real nodes: driver, executor and recorder, with simulated servos on a serial port."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from std_msgs.msg import String
from typer.testing import CliRunner

from dynid.adaptive.feedforward import Feedforward
from dynid.adaptive.files import AdaptiveFiles
from dynid.adaptive.outcome import AdaptiveRun
from dynid.adaptive.session import AdaptiveIdentification
from dynid.adaptive.settings import AdaptiveSettings
from dynid.cli import app
from dynid.control.safe_box import SafeBox, scene_of
from dynid.errors import DynidError, SafetyError
from dynid.nodes.adaptive import move_and_record, refuse_unknown_space, write_identification
from dynid.nodes.arm_stream import ArmStream
from dynid.nodes.chain import Chain, ChainOptions
from dynid.nodes.commanded_arm import CommandedArm
from dynid.nodes.common import LATCHED
from dynid.recording.driver_recording import load_driver_recording
from dynid.recording.settings import reported_settings
from dynid.recording.topics import HARDWARE_SETTINGS
from dynid.robot import load_robot
from dynid.trajectory.polynomial import rest_to_rest

ROBOT = load_robot("crane_x7")
REST = np.array(ROBOT.rest_posture)
QUICK = AdaptiveSettings(draws=20, iterations=20, longest_s=6.0, first_look_s=6.0)
TABLE, CLOSE_RAD = scene_of(ROBOT), 0.15
RATE_HZ = 500  # half of the messages, and of the time that they take
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True, scope="module")
def domain() -> None:
    """The chain reserves its own, for all tests of this file."""


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    logs = tmp_path_factory.mktemp("chain") / "logs"
    with Chain(ROBOT, ChainOptions("crane_x7", identification=False, rate_hz=RATE_HZ), logs) as running:
        running.bring_up()
        yield running


@pytest.fixture
def stream(chain: Chain) -> Iterator[ArmStream]:
    with ArmStream(ROBOT) as running:
        yield running


@pytest.fixture(scope="module")
def feedforward() -> Feedforward:
    return AdaptiveIdentification(ROBOT).start().feedforward


def test_segments_are_planned_while_the_arm_moves_and_their_bag_is_one_recording(
    chain: Chain, stream: ArmStream, tmp_path: Path
) -> None:
    assert TABLE is not None
    call, reports = chain.supervisor, []
    call.node.create_subscription(
        String, "identification_progress", lambda m: reports.append(json.loads(m.data)), LATCHED
    )
    files = AdaptiveFiles(ROBOT, tmp_path / "run", settings=QUICK)
    run = move_and_record(ROBOT, call, stream, files)
    assert 1.0 < run.motion_s <= 6.0 and len(run.looks) == 1  # a segment may be stopped
    assert run.tracking.shape == (2, ROBOT.size)
    assert (run.tracking > 0.0).any(axis=1).all()

    bag = load_driver_recording(files.bag, ROBOT)
    segments = [one for one in bag.experiments if re.match(r"adaptive \d+ \d+ \(", one.trajectory)]
    assert [one.duration_s for one in segments] == [3.0, 3.0] and bag.notes == ()
    assert len({one.series for one in segments}) == 1 and segments[0].series.startswith("adaptive ")
    begin, end = bag.trajectory_span()
    spans = [one.trajectory_span_ns() for one in segments]
    assert begin == bag.seconds(spans[0][0]) and end >= bag.seconds(spans[1][1])
    inside = (bag.time >= begin) & (bag.time <= end)
    clearance = SafeBox(ROBOT, TABLE).shortfall(bag.q[inside][::20], np.zeros(ROBOT.size))
    assert clearance.max() <= 0.0
    for segment, planned in zip(segments, run.segments, strict=True):  # the arm did what was planned
        part = bag.window(*bag.trajectory_span(segment))
        expected = planned.motion.sample_all(part.time - part.time[0])[0]
        assert np.abs(part.q - expected).max() < 0.3 and np.ptp(part.q, axis=0).max() > 0.05
    np.testing.assert_allclose(bag.q[-1], REST, atol=CLOSE_RAD)

    live = stream.recording.recording("live", ROBOT)
    recorded, judged = (one.stamp0_ns + np.rint(one.time * 1e9).astype(np.int64) for one in (bag, live))
    assert np.isin(recorded[inside], judged).all()  # what was judged is what was recorded
    call.wait(lambda: bool(reports) and reports[-1]["kind"] == "end", 10.0, "the reports on the topic")
    assert reports[-1]["motion_s"] == run.motion_s and reports[-1]["text"] == run.end
    (series,) = call.get_parameters("executor", ["series"])
    assert series.string_value == ""  # as it was


def test_a_real_arm_moves_in_a_described_space_only(chain: Chain, tmp_path: Path) -> None:
    settings = reported_settings(chain.supervisor.latched_text(HARDWARE_SETTINGS), ROBOT)
    real = settings.model_copy(update={"simulated": False})
    scene = ROBOT.folder / "scene.yaml"
    for driver, described in ((settings, None), (real, scene)):
        refuse_unknown_space(ROBOT, driver, AdaptiveFiles(ROBOT, tmp_path / "run", scene=described, settings=QUICK))
    with pytest.raises(SafetyError, match=r"is a real arm, .*: describe that around it in a file and"):
        refuse_unknown_space(ROBOT, real, AdaptiveFiles(ROBOT, tmp_path / "run", settings=QUICK))


def test_a_run_whose_bag_gives_no_model_keeps_its_summary(tmp_path: Path) -> None:
    """The bag is missing here; adaptive.json still tells what the arm did."""
    files = AdaptiveFiles(ROBOT, tmp_path, settings=QUICK)
    during: Any = SimpleNamespace(verdict=SimpleNamespace(accepted=True))  # a model found during the motion
    run = AdaptiveRun(during, False, (), (), np.zeros((0, ROBOT.size)), np.ones(3), 5.0, 0)
    with pytest.raises(DynidError, match="no such bag"):
        write_identification(ROBOT, files, run, lambda stage: None)
    kept = json.loads((tmp_path / "adaptive.json").read_text(encoding="utf-8"))
    assert kept["motion_s"] == 5.0 and not kept["accepted"]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("--adaptive", "V01"), "name the trajectories, or ask for --adaptive instead"),
        ((), "name the trajectories, or ask for --adaptive instead"),
        (("V01", "--longest", "20"), "need --adaptive"),
        (("--adaptive", "--longest", "nan"), "--longest"),
        (("--adaptive", "--longest", "12"), "expected at least 15 s without a model before"),
        (("--adaptive", "--profile", "paper"), "are for trajectories, not for --adaptive"),
        (("--adaptive", "--cool-to", "40"), "are for trajectories, not for --adaptive"),
        (("--adaptive", "--real-arm", "/dev/nothing"), "describe that around your arm in a file"),
    ],
)
def test_contradicting_options_are_refused(words: tuple[str, ...], refusal: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["collect", *words, "--out", str(tmp_path / "run")])
    shown = " ".join(re.sub(r"[^\w.,-]+", " ", done.output).split())
    assert done.exit_code == 2 and refusal in shown and not (tmp_path / "run").exists()


def test_segment_stops_on_tube_or_overload_and_refusals_are_reported(
    chain: Chain, stream: ArmStream, feedforward: Feedforward
) -> None:
    arm = CommandedArm(ROBOT, chain.supervisor, stream)
    arm.to_start(feedforward)
    np.testing.assert_allclose(arm.at, REST, atol=CLOSE_RAD)
    wide, never = np.full(ROBOT.size, 0.3), np.full(ROBOT.size, np.inf)
    target = arm.at + 0.5 * np.eye(ROBOT.size)[6]
    there = rest_to_rest("there", ROBOT.joint_names, arm.at, target, 2.0)
    for tube, load in ((np.full(ROBOT.size, 1e-3), never), (wide, np.full(ROBOT.size, -1.0))):
        start = arm.at.copy()
        motion = rest_to_rest("there", ROBOT.joint_names, start, target, 2.0)
        moved = arm.moved_s
        arm.begin(motion, feedforward, tube, load)
        errors = arm.finish()
        assert 0.0 <= arm.along_s < 2.0 and arm.moved_s == moved + arm.along_s
        assert (load[0] < 0.0) == stream.overloaded and (errors > tube).any() != stream.overloaded
        reference = motion.sample_all(np.array([arm.along_s]))[0][0]
        np.testing.assert_allclose(arm.at, reference, atol=CLOSE_RAD)
        arm.retrace(motion, arm.along_s, feedforward)
        np.testing.assert_allclose(arm.at, start, atol=CLOSE_RAD)
    arm.begin(rest_to_rest("there", ROBOT.joint_names, arm.at, target, 2.0), feedforward, wide, never)
    arm.finish()
    np.testing.assert_array_equal(arm.at, there.end)
    beyond = rest_to_rest("beyond", ROBOT.joint_names, arm.at, arm.at + 2.5 * np.eye(ROBOT.size)[1], 3.0)
    with pytest.raises(SafetyError, match=r"the executor refuses the motion 'beyond': .*allowed is"):
        arm.begin(beyond, feedforward, wide, never)
    home = rest_to_rest("home", ROBOT.joint_names, arm.at, REST)
    arm.begin(home, feedforward, wide, never)
    chain.supervisor.trigger("executor/cancel")
    with pytest.raises(SafetyError, match=r"the motion 'home .*' was stopped: it was cancelled"):  # by somebody else
        arm.finish()
    with pytest.raises(SafetyError, match="it was cancelled"):  # for good
        arm.hold(feedforward, 0.0)


def is_over(stream: ArmStream) -> bool:
    try:
        stream.refuse_failure()
    except SafetyError:
        return True
    return False


def test_segment_stopped_by_others_is_not_resumed(chain: Chain, feedforward: Feedforward) -> None:
    for ends in ("tube", "torque"):
        with ArmStream(ROBOT) as stream:
            arm = CommandedArm(ROBOT, chain.supervisor, stream)
            arm.to_start(feedforward)
            away = rest_to_rest("away", ROBOT.joint_names, arm.at, arm.at + 0.5 * np.eye(ROBOT.size)[6], 2.0)
            if ends == "tube":
                with pytest.raises(
                    SafetyError, match=r"the motion 'away' was stopped: .* was .* rad off its reference"
                ):
                    arm.follow(away, feedforward, np.full(ROBOT.size, 1e-3))
            else:
                chain.supervisor.set_enabled("hardware", False)
                chain.supervisor.wait(lambda stream=stream: is_over(stream), 20.0, "the report that torque is off")
                with pytest.raises(SafetyError, match="torque was switched off"):
                    arm.hold(feedforward, 0.5)
            with pytest.raises(SafetyError):
                arm.begin(away, feedforward, np.full(ROBOT.size, 0.3), np.full(ROBOT.size, np.inf))
            arm.leave()
