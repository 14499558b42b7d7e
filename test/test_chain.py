"""The whole chain through real rclpy, the real SDK and the pseudo-terminal bus, as a user starts it: `dynid demo`."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from dynid.hardware.loop.paused_clock import REPLY_PATIENCE_S
from dynid.identification.pipeline import identify
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.model.model_file import load_model
from dynid.parent import PARENT_VARIABLE
from dynid.recording.bag_reader import read_bag
from dynid.recording.completeness import completeness
from dynid.recording.recording import load_recording
from dynid.recording.tracking import tracking_rms
from dynid.robot import load_robot
from dynid.verdict import Check

ROBOT = load_robot("crane_x7")
MOTIONS = ("demo_identification", "demo_validation")
LOOK_S = 0.02
EVENT_TIMEOUT_S = 300.0
RUN_TIMEOUT_S = 600.0  # of 100 s on a machine that keeps up
pytestmark = pytest.mark.timeout(900)
CHILDREN = {"simulated_arm", "recorder", "identification", "executor", "hardware"}


class Demo:
    """A running `dynid demo` in a ROS domain of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.output, self._text = folder / "run", folder / "output.txt"
        self._read_size, self._counts = 0, Counter[str]()
        environment = {name: value for name, value in os.environ.items() if name != "ROS_DOMAIN_ID"}
        environment |= {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
        command = [sys.executable, "-m", "dynid", "demo", "--out", str(self.output), *arguments]
        with self._text.open("wb") as stream:
            self.process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=environment)

    @property
    def text(self) -> str:
        return self._text.read_text(encoding="utf-8")

    def log(self, name: str) -> str:
        path = self.output / "logs" / f"{name}.log"
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def children(self) -> set[int]:
        """Processes that were started to end with the demo."""
        marker = f"{PARENT_VARIABLE}={self.process.pid}".encode()
        found = set()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # it ended meanwhile
                if marker in path.read_bytes().split(b"\0"):
                    found.add(int(path.parts[2]))
        return found

    def wait_until(self, event: Callable[[], bool], what: str) -> None:
        """Wait for something in its files, or for the demo's end."""
        self._wait(lambda: event() or self.process.poll() is not None, what)

    def wait_for(self, event: Callable[[], bool], what: str) -> None:
        """Wait for something in its files; the demo must not end before."""
        self.wait_until(event, what)
        assert event(), f"the demo ended with {self.process.returncode} before {what}: {self.text}"

    def wait_until_alone(self) -> None:
        self._wait(lambda: not self.children(), "the end of all children")

    @staticmethod
    def _wait(event: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + EVENT_TIMEOUT_S
        while not event():
            assert time.monotonic() < deadline, f"{what} did not happen"
            time.sleep(LOOK_S)

    def bag(self, name: str) -> Path:
        return self.output / "bags" / name

    def recorded(self, name: str, topic: str = "/joint_states") -> int:
        """Messages that can be read from a bag while it is being recorded: they are what a kill must not take."""
        files = [path for path in self.bag(name).glob("*.mcap") if path.stat().st_size]
        size = sum(path.stat().st_size for path in files)
        if size != self._read_size:  # reading again and again would take the processor from the chain that is watched
            self._read_size = size
            self._counts = Counter[str]()
            for path in files:
                self._counts.update(read_bag(path).counts)
        return self._counts[topic]

    def is_complete(self, name: str) -> bool:
        metadata = self.bag(name) / "metadata.yaml"
        return metadata.is_file() and "dynid_provisional" not in metadata.read_text(encoding="utf-8")

    def arm_summary(self) -> dict[str, Any]:
        return dict(json.loads(self.log("simulated_arm").strip().splitlines()[-1]))

    def assert_arm_at_rest(self) -> None:
        summary = self.arm_summary()
        assert not any(summary["torque_enabled"]) and not np.any(summary["drive_current_a"])
        if np.any(summary["max_abs_current_a"]):  # before the first set-up, the goal is whatever the servos start with
            assert not np.any(summary["goal_current_a"])

    def kill(self) -> None:
        """At the end of a test, whatever happened in it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for child in self.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    demos: list[Demo] = []

    def begin(*arguments: str) -> Demo:
        folder = tmp_path / str(len(demos))
        folder.mkdir()
        demos.append(Demo(folder, *arguments))
        return demos[-1]

    yield begin
    for demo in demos:
        demo.kill()


def finished(folder: Path, *arguments: str) -> Demo:
    """A demo that ran to its end."""
    demo = Demo(folder, *arguments)
    try:
        demo.process.wait(RUN_TIMEOUT_S)
    finally:
        demo.kill()
    return demo


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return finished(tmp_path_factory.mktemp("usual"))


def in_motion(demo: Demo) -> bool:
    """The approach is over: currents flow, and there is something to lose."""
    return demo.recorded(MOTIONS[0]) > 500 and demo.recorded(MOTIONS[0], "/experiment") >= 2  # one for each phase


def moving(start: Callable[..., Demo], *arguments: str) -> Demo:
    """A demo that has come to its first motion."""
    demo = start(*arguments)
    demo.wait_for(partial(in_motion, demo), "the motion")
    return demo


def assert_interrupted_in_motion(demo: Demo) -> None:
    """What every interrupt of a motion must come to."""
    assert demo.process.wait(EVENT_TIMEOUT_S) == 130, demo.text
    assert demo.children() == set() and "interrupted" in demo.text and "Traceback" not in demo.text
    assert "Traceback" not in "".join(demo.log(name) for name in CHILDREN)
    demo.assert_arm_at_rest()
    assert np.any(demo.arm_summary()["max_abs_current_a"])
    bag = read_bag(demo.bag(MOTIONS[0]))
    assert bag.findings == () and bag.counts["/joint_states"] > 500
    assert not (demo.output / "model").exists()


def check(demo: Demo, name: str) -> Check:
    (found,) = (one for one in load_model(demo.output / "model" / "model.yaml").verdict if one.name == name)
    return found


# -- the whole demo --------------------------------------------------------------------------------------------


def test_every_check_of_the_demo_passes(usual: Demo) -> None:
    assert usual.process.returncode == 0, usual.text
    assert "accepted: every check passed" in usual.text
    assert "[ERROR]" not in (usual.output / "logs" / "executor.log").read_text(encoding="utf-8")
    rows = [line for line in usual.text.splitlines() if line.startswith("│")]
    assert sum("passed" in row for row in rows) >= 15 and not any("FAILED" in row for row in rows)
    report = (usual.output / "report.html").read_text(encoding="utf-8")
    assert '<h2 id="h-tracking">' in report and "computed torque" in report and "feed-forward and PD" in report
    for words in ("report.html", "bags", "model/model.yaml", "model/model.urdf", "logs"):
        assert f"{usual.output / words}  " in usual.text
    assert usual.children() == set()


@pytest.mark.parametrize("name", MOTIONS)
def test_the_bags_are_complete_and_tell_their_own_story(usual: Demo, name: str) -> None:
    bag = read_bag(usual.bag(name))
    assert bag.findings == ()
    topics = "joint_states joint_commands applied_commands reference diagnostics hardware_settings experiment".split()
    assert all(bag.counts[f"/{topic}"] > 0 for topic in (*topics, "robot_description"))
    found = completeness(usual.bag(name))
    assert found.lost == 0 and found.published > 10_000
    recording = load_recording(usual.bag(name), ROBOT)
    assert recording.experiment is not None and recording.experiment.trajectory == name
    assert [phase.name for phase in recording.experiment.phases] == ["approach", "trajectory", "rest", "done"]
    assert [one.trajectory for one in recording.experiments] == [name]
    assert recording.hardware.simulated and recording.hardware.torque_constants_nm_per_a == tuple(
        ROBOT.torque_constants
    )
    assert recording.commands is not None and recording.applied is not None and recording.reference is not None
    began_s = 1e-9 * (recording.experiment.phases[0].stamp_ns - recording.stamp0_ns)
    begins_s = (recording.commands.time[0], recording.applied.time[0], recording.reference.time[0])
    assert began_s > 0 and max(begins_s) < began_s + 0.005, "the bag lacks the motion's beginning"
    assert recording.notes == ()


@pytest.mark.parametrize("name", MOTIONS)
def test_at_most_one_cycle_in_a_thousand_is_missed(usual: Demo, name: str) -> None:
    assert completeness(usual.bag(name)).missed_fraction <= 0.001


def test_the_model_explains_a_motion_that_it_has_not_seen(usual: Demo) -> None:
    error = check(usual, "relative torque error, demo_validation")
    assert 0.0 < error.value <= 0.20
    assert len(load_model(usual.output / "model" / "model.yaml").parameters) == 39


def test_coulomb_friction_left_out_costs_more_than_twice_the_error(usual: Demo) -> None:
    settings = load_identification(ROBOT)
    ignored = settings.model_copy(
        update={
            "coulomb_friction": settings.coulomb_friction.model_copy(update={"treatment": "ignored"}),
            "acceptance": settings.acceptance.model_copy(update={"fresh_poses": 1000}),
        }
    )
    bags = [usual.bag(name) for name in MOTIONS]
    without = identify(ROBOT, bags[:1], validation=bags[1:], settings=ignored)
    assert without.validations[0].errors.relative > 2 * check(usual, "relative torque error, demo_validation").value


def test_the_model_halves_the_tracking_error(usual: Demo) -> None:
    repeated = load_recording(usual.bag(f"{MOTIONS[1]}_computed_torque"), ROBOT)
    assert repeated.experiment is not None and repeated.experiment.controller == "computed_torque"
    before, after = (
        np.linalg.norm(tracking_rms(bag)) for bag in (load_recording(usual.bag(MOTIONS[1]), ROBOT), repeated)
    )
    assert 0.0 < after < 0.5 * before


def test_the_urdf_is_one_that_others_can_load(usual: Demo) -> None:
    """Masses are physical, and the static torques are those of the base parameters."""
    content = load_model(usual.output / "model" / "model.yaml")
    model = ArmModel.of(ROBOT, mount=content.mount)
    full = pinocchio.buildModelFromUrdf(str(usual.output / "model" / "model.urdf"))
    names = ROBOT.joint_names[: ROBOT.chain_size]
    locked = [index for index, name in enumerate(full.names) if index and name not in names]
    chain = pinocchio.buildReducedModel(full, locked, pinocchio.neutral(full))
    chain.gravity.linear = np.array(model.gravity)
    assert all(inertia.mass > 0 for inertia in list(chain.inertias)[1:])
    q = np.random.default_rng(0).uniform(ROBOT.lower, ROBOT.upper, (20, ROBOT.size))
    expected = model.inverse_dynamics(q, 0 * q, 0 * q, content.base_parameters(model))[:, : len(names)]
    data = chain.createData()
    found = [pinocchio.computeGeneralizedGravity(chain, data, one[: len(names)]) for one in q]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_arm_is_left_without_torque_and_was_never_beyond_its_caps(usual: Demo) -> None:
    usual.assert_arm_at_rest()
    largest = np.array(usual.arm_summary()["max_abs_current_a"])
    assert (largest > 0).all() and (largest <= ROBOT.current_limits + 0.0027).all()


def test_results_are_never_overwritten(usual: Demo) -> None:
    before = {path: path.stat().st_mtime_ns for path in usual.output.rglob("*")}
    command = [sys.executable, "-m", "dynid", "demo", "--out", str(usual.output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1 and f"{usual.output} exists" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in usual.output.rglob("*")} == before


# -- what does not fit -----------------------------------------------------------------------------------------


def test_a_port_that_does_not_exist_ends_the_demo_with_one_sentence(start: Callable[..., Demo]) -> None:
    demo = start("--real-arm", "/dev/nothing")
    assert demo.process.wait(EVENT_TIMEOUT_S) == 1
    (error,) = (line for line in demo.text.splitlines() if line.startswith("error: "))
    assert "port /dev/nothing does not exist" in error and "Traceback" not in demo.text
    assert demo.children() == set() and not demo.bag(MOTIONS[0]).exists()


# -- a host that stands still -----------------------------------------------------------------------------------

STANDSTILL_S = 0.1
LONG_STANDSTILL_S = 1.5 * REPLY_PATIENCE_S  # of the whole host: longer than anybody waits for a reply


def stand_still(demo: Demo) -> None:
    """Hold up each of the processes that close the loop for a while, one after the other; then all, for long."""
    for name in ("simulated-arm", "executor_node", "hardware_node"):
        hold_up(named(demo, name), STANDSTILL_S)
    hold_up(list(demo.children()), LONG_STANDSTILL_S)


def named(demo: Demo, name: str) -> list[int]:
    return [pid for pid in demo.children() if name in command_line(pid)]


def hold_up(processes: list[int], seconds: float) -> None:
    assert processes
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):  # an arm that does not wait may have fallen, and all ended
                os.kill(pid, number)
        time.sleep(seconds if number == signal.SIGSTOP else 0.0)  # what is tested: so long they do not run


def command_line(pid: int) -> str:
    """'' of a process that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").replace("\0", " ")
    except OSError:
        return ""


def gaps_s(demo: Demo, begin: int, end: int) -> tuple[float, float]:
    """The longest time between two of these states, and between one and the next command, by their stamps [s]."""
    bag = load_recording(demo.bag(MOTIONS[0]), ROBOT)
    assert bag.commands is not None
    states = bag.time[begin:end]
    commanded = states[(bag.commands.time[0] < states) & (states < bag.commands.time[-1])]
    after = bag.commands.time[np.searchsorted(bag.commands.time, commanded)]
    return float(np.diff(states).max()), float((after - commanded).max())


def test_a_simulated_arm_waits_for_its_host(start: Callable[..., Demo]) -> None:
    demo = moving(start)
    began = demo.recorded(MOTIONS[0])
    stand_still(demo)
    stood = demo.recorded(MOTIONS[0])
    demo.wait_for(lambda: demo.recorded(MOTIONS[0]) > stood + 1500, "more states")
    recorded = demo.recorded(MOTIONS[0])
    demo.process.send_signal(signal.SIGINT)
    assert_interrupted_in_motion(demo)
    states_s, commands_s = gaps_s(demo, began, recorded)
    assert states_s < 0.003 and commands_s < 0.003
    assert demo.arm_summary()["held_time_s"] > 2.5 * STANDSTILL_S + 0.9 * LONG_STANDSTILL_S


def test_by_the_wall_clock_it_does_not_wait(start: Callable[..., Demo]) -> None:
    demo = moving(start, "--wall-clock")
    hold_up(named(demo, "simulated-arm"), STANDSTILL_S)
    demo.process.send_signal(signal.SIGINT)
    demo.process.wait(EVENT_TIMEOUT_S)
    states_s, _ = gaps_s(demo, 0, demo.recorded(MOTIONS[0]))
    assert states_s > 0.5 * STANDSTILL_S
    assert demo.arm_summary()["held_time_s"] == 0.0


# -- interrupted -----------------------------------------------------------------------------------------------


def test_interrupted_at_the_start(start: Callable[..., Demo]) -> None:
    demo = start()
    demo.wait_for(lambda: "\n" in demo.log("simulated_arm"), "the arm's start")
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(EVENT_TIMEOUT_S) == 130, demo.text
    assert demo.children() == set() and "Traceback" not in demo.text
    demo.assert_arm_at_rest()


def test_interrupted_during_the_motion_impatiently(start: Callable[..., Demo]) -> None:
    demo = moving(start)
    assert len(demo.children()) == len(CHILDREN)
    demo.process.send_signal(signal.SIGINT)
    demo.wait_for(lambda: len(demo.children()) < len(CHILDREN), "the end of the first child")
    demo.process.send_signal(signal.SIGINT)
    assert_interrupted_in_motion(demo)


def test_interrupted_during_the_identification(start: Callable[..., Demo]) -> None:
    motions = ("--identification", "V01", "--validation", "V02")  # the shortest ones
    demo = start(*motions, "--without", "coulomb", "--seed", "3", "--no-gain")
    demo.wait_for(lambda: "V02: done" in demo.text, "the end of both motions")
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(EVENT_TIMEOUT_S) == 130, demo.text
    assert demo.children() == set() and "Traceback" not in demo.text
    demo.assert_arm_at_rest()
    assert read_bag(demo.bag("V02")).findings == ()
    left = {path.name for path in demo.output.iterdir()}
    assert left in ({"bags", "logs"}, {"bags", "logs", "model"})  # the result is there as a whole, or not at all


def test_killed_it_takes_its_children_along(start: Callable[..., Demo]) -> None:
    demo = moving(start)
    demo.process.kill()
    demo.process.wait()
    demo.wait_until_alone()
    assert read_bag(demo.bag(MOTIONS[0])).counts["/joint_states"] > 500


def test_killed_while_its_children_are_only_starting(start: Callable[..., Demo]) -> None:
    """Python takes a second to load a node; one whose parent is gone by then must not stay."""
    demo = start()
    demo.wait_for(lambda: len(demo.children()) >= 2, "the first children")
    demo.process.kill()
    demo.process.wait()
    demo.wait_until_alone()
