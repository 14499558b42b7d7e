"""Figures of the benchmarks of hostile peers and interrupts: each figure rises for a fault."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from child import Child

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from benchmarks.hostile import attack, interrupts, launched
from benchmarks.hostile.interrupts import Demo, Ended, children, figures, interrupt
from benchmarks.hostile.launch_interrupts import LaunchFile, interrupted_launches
from benchmarks.hostile.launched import FILES
from benchmarks.hostile.peers import KINDS, Peer
from std_msgs.msg import Bool, String
from trajectory_msgs.msg import JointTrajectory

from dynid.errors import NodeError
from dynid.nodes.common import LATCHED, STREAM
from dynid.nodes.domain import DOMAIN_VARIABLE, PrivateDomain
from dynid.nodes.recorder_node import TOPICS
from dynid.nodes.supervisor import Supervisor
from dynid.parent import PARENT_VARIABLE
from dynid.recording.bag_metadata import Topic
from dynid.recording.bag_writer import BagWriter
from dynid.recording.messages import JOINT_STATE, JointStateEncoder
from dynid.robot import load_robot
from dynid.simulation.servo.trace import ArmTrace

ROBOT = load_robot("crane_x7")

OFF = json.dumps({"torque_enabled": [False, False], "drive_current_a": [0.0, 0.0]})
ON = json.dumps({"torque_enabled": [False, True], "drive_current_a": [0.0, 0.0]})
TRACE = "Traceback (most recent call last):\n  x\nKeyboardInterrupt\n"


@pytest.fixture
def ros_domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(DOMAIN_VARIABLE, raising=False)
    with PrivateDomain():
        yield


def ended(arm: str = f"/dev/pts/0\n{OFF}", demo: str = "interrupted", left: tuple[str, ...] = ()) -> Ended:
    texts = {"simulated_arm": arm, "demo": demo, "hardware": "cycle rate 1000 Hz"}
    return Ended("demo", int(signal.SIGINT), 1.0, 2.0, 130, texts, left)


@pytest.mark.parametrize(
    ("run", "counts"),
    [
        (ended(), (0, 0, 0)),
        (ended(arm=""), (0, 0, 0)),
        (ended(left=("process 7", "/tmp/dynid-clock-1")), (2, 0, 0)),
        (ended(demo=TRACE), (0, 1, 0)),
        (ended(arm=f"/dev/pts/0\n{ON}"), (0, 0, 1)),
        (ended(arm="/dev/pts/0"), (0, 0, 1)),  # it was driven, and did not say how it was left
    ],
    ids=["in order", "not started", "left", "traceback", "torque", "silent"],
)
def test_leftovers_tracebacks_and_torque_at_the_end_are_counted(run: Ended, counts: tuple[int, int, int]) -> None:
    found = figures([ended(), run])
    assert (found["left_behind"], found["tracebacks"], found["torque_on_at_end"]) == counts
    assert len(found["findings"]) == bool(any(counts)) and found["slowest_s"] == 2.0 and found["runs"] == 2


VULNERABLE = f"""
import os, signal, subprocess, sys, tempfile, time
open(os.path.join(tempfile.gettempdir(), "dynid-clock-planted"), "w").close()
signal.signal(signal.SIGINT, signal.SIG_DFL)
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", child], env={{**os.environ, {PARENT_VARIABLE!r}: str(os.getpid())}})
print("Traceback (most recent call last)", flush=True)
time.sleep(60)
"""


def test_output_of_processes_that_ended_badly_is_kept(tmp_path: Path) -> None:
    run = ended(arm=f"/dev/pts/0\n{ON}")
    assert run.poor and not ended().poor
    run.keep(tmp_path / "kept" / "3")
    assert ON in (tmp_path / "kept" / "3" / "simulated_arm.txt").read_text(encoding="utf-8")
    with pytest.raises(FileExistsError):
        run.keep(tmp_path / "kept" / "3")


@pytest.mark.slow
def test_a_demo_that_leaves_files_and_processes_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(interrupts, "TIMEOUT_S", 0.5)
    started: list[int] = []

    def until(condition: object, longest_s: float) -> None:
        if not started:  # the interrupt comes once the fault is planted
            started.append(1)
            while not list(tmp_path.rglob("output.txt")) or not next(tmp_path.rglob("output.txt")).read_text():
                pass
        else:
            original(condition, longest_s)

    original = interrupts._wait
    monkeypatch.setattr(interrupts, "_wait", until)
    run = interrupt(Demo((sys.executable, "-c", VULNERABLE)), "demo", 5.0, signal.SIGINT)
    assert sorted(one.split()[0] for one in run.left) == [str(tmp_path / "dynid-clock-planted"), "process"]
    assert run.traces == 1 and not run.torque_on and run.seconds >= 0.5
    assert not children(0)


PRINTING = """
import sys
from benchmarks.hostile.launched import Copied
Copied.to(sys.argv[1])
print("/dev/pts/0", flush=True)
sys.stdin.readline()
raise ValueError("planted")
"""


def test_output_printed_into_a_closed_pipe_is_kept(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PRINTING, str(tmp_path / "x.log")]
    with Child(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        assert process.stdin and process.stdout and process.stderr
        assert process.stdout.readline() == "/dev/pts/0\n"
        process.stdout.close(), process.stderr.close()
    kept = (tmp_path / "x.log").read_text()
    assert kept.startswith("/dev/pts/0\nTraceback") and "ValueError: planted" in kept


EXECUTED = """
import os, subprocess, sys
executable = os.path.join(os.environ["AMENT_PREFIX_PATH"].split(os.pathsep)[0], "lib/dynid/simulated_arm")
print("[INFO] [launch]: begins", flush=True)
print("[simulated_arm-1] " + subprocess.run([executable, "--help"], capture_output=True, text=True).stdout[:60])
print("[executor_node-2] Traceback (most recent call last):")
print("Traceback (most recent call last):")
"""


def test_every_process_of_a_launch_is_checked(tmp_path: Path) -> None:
    subject = LaunchFile("bringup", ("use_sim:=true", "output:={folder}/x"))
    assert subject.command(tmp_path)[-3:] == [
        str(FILES / "bringup.launch.py"),
        "use_sim:=true",
        f"output:={tmp_path}/x",
    ]
    environment = subject.environment(tmp_path)
    with (tmp_path / "output.txt").open("w") as output:
        output.flush()
        assert not subject.begun(tmp_path)
        subprocess.run([sys.executable, "-c", EXECUTED], stdout=output, env=environment, check=True)
    assert subject.begun(tmp_path) and not LaunchFile("collect", (), moving=True).begun(tmp_path)
    texts = subject.texts(tmp_path)
    assert "simulated-arm" in texts["simulated_arm"]  # the executable is this checkout's
    assert texts["launch"].splitlines() == ["[INFO] [launch]: begins", TRACE.splitlines()[0]]
    run = Ended("x", int(signal.SIGINT), 1.0, 2.0, 0, texts, ())
    assert run.traced == [f"launch: {TRACE.splitlines()[0]}"]
    assert figures([run])["tracebacks_of_python_starting"] == 1


def test_the_launch_benchmark_is_refused_without_launch_ros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launched.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NodeError, match="the Python package launch_ros is not there"):
        next(interrupted_launches(1, 1.0, 0))


# -- attacks ---------------------------------------------------------------------------------------------------


def trace(moved_rad: float = 0.0, speed_rad_s: float = 0.0) -> ArmTrace:
    q, dq = np.zeros((2, 100, ROBOT.size))
    q[50:, 2], dq[50:, 2] = moved_rad, speed_rad_s
    return ArmTrace(np.linspace(0.0, 1.0, 100), q, dq, np.zeros((100, ROBOT.size)))


@pytest.mark.parametrize(
    ("arm", "stopped", "words"),
    [
        (trace(), "", ""),
        (trace(0.02), "", ""),
        (trace(0.05), "", "moved by 0.050 rad"),
        (trace(0.5, 0.6), "stopped: two publishers", ""),  # it was let down
        (trace(0.5, 4.7), "stopped: two publishers", "moved at 4.70 rad/s with 0.00 A, 0.51 s after the start"),
        (trace(0.0, 4.7), "", "moved at 4.70 rad/s with 0.00 A, 0.51 s after the start"),
        (trace().between(2.0, 3.0), "", "the arm's record is empty"),
    ],
)
def test_uncommanded_motion_is_detected(arm: ArmTrace, stopped: str, words: str) -> None:
    found = attack.uncommanded(ROBOT, arm, stopped, 0.03)
    assert found == (f"{ROBOT.joint_names[2]} {words}" if "moved" in words else words)


def write(bag: Path, good: int, cut: int) -> Path:
    writer = BagWriter(bag, [Topic("/joint_states", JOINT_STATE, "reliable")])
    writer.open()
    zero = np.zeros(ROBOT.size)
    raw = JointStateEncoder(ROBOT.joint_names).encode(1, position=zero, velocity=zero, effort=zero)
    for k in range(good + cut):
        writer.write("/joint_states", k + 1, raw if k < good else raw[:50])
    writer.close()
    return bag


def test_a_bag_that_cannot_be_read_is_found(tmp_path: Path) -> None:
    assert attack.unreadable(write(tmp_path / "a", 10, 3)) == ""
    assert "13 states of 14 cannot be read" in attack.unreadable(write(tmp_path / "b", 1, 13))
    assert "cannot be read" in attack.unreadable(write(tmp_path / "c", 0, 3))
    assert "no such bag" in attack.unreadable(tmp_path / "none")
    (bag,) = (tmp_path / "a").glob("*.mcap")
    bag.write_bytes(bag.read_bytes()[:-200])
    assert "truncated" in attack.unreadable(tmp_path / "a")


def test_each_finding_of_an_attack_counts() -> None:
    runs = [
        attack.Attacked("states", 0, "", (), "", "stopped"),
        attack.Attacked("settings", 1, "it moved", (), "", ""),
        attack.Attacked("bytes", 2, "", ("executor ended: x", "recorder ended: y"), "", ""),
        attack.Attacked("texts", 3, "", (), "no such bag", ""),
        attack.Attacked("releases", 4, "", (), "", "", "it was released"),
        attack.Attacked("states", 5, "", (), "", "", "", ("executor listens on 0.0.0.0",)),
        attack.Attacked("a bag", 6, "", (), "", "", harm="it left x"),
    ]
    found = attack.figures(runs)
    counts = ("runs", "uncommanded_motion", "node_deaths", "bags_unreadable", "arms_stopped")
    assert [found[key] for key in counts] == [7, 1, 2, 1, 1]
    assert (found["interlocks_broken"], found["nodes_on_the_network"]) == (1, 1)
    assert found["harmful_files"] == 1 and found["findings"][-1] == "a bag, seed 6: it left x"
    assert found["findings"][-3] == "releases, seed 4: it was released"
    assert found["findings"][-2] == "states, seed 5: executor listens on 0.0.0.0"
    assert found["rows"]["states"] == {"runs": 2, "found": 1} and found["rows"]["a bag"] == {"runs": 1, "found": 1}
    assert found["findings"][1] == "bytes, seed 2: executor ended: x; recorder ended: y"


def test_every_kind_of_peer_sends_something(ros_domain: None) -> None:
    """Every kind of peer also publishes messages that arrive; a silent peer would test nothing."""
    with Supervisor() as call, Supervisor() as listening:
        heard: list[str] = []
        for name, (kind, _, latched) in TOPICS.items():
            quality = LATCHED if latched else STREAM
            listening.node.create_subscription(kind, name, lambda _, name=name: heard.append(name), quality, raw=True)
        listening.node.create_subscription(
            JointTrajectory, "joint_trajectory", lambda _: heard.append("joint_trajectory"), 10, raw=True
        )
        listening.node.create_subscription(Bool, "estop", lambda _: heard.append("estop"), STREAM, raw=True)
        listening.node.create_subscription(
            String, "motion_status", lambda _: heard.append("motion_status"), LATCHED, raw=True
        )
        topics = {"settings": "hardware_settings", "states": "joint_states", "cut_commands": "joint_commands"}
        topics |= {"releases": "estop", "statuses": "motion_status", "applied": "reference", "driver": "diagnostics"}
        topics |= {"commands": "joint_commands", "trajectories": "joint_trajectory", "reports": "diagnostics"}
        topics |= {"cut_states": "joint_states", "experiments": "experiment", "texts": "", "bytes": "", "random": ""}
        for kind in set(KINDS) - {"parameters"}:
            heard.clear()
            peer = Peer(kind, 0, call.node, ROBOT)

            def step(peer: Peer = peer) -> bool:
                peer.step()
                return topics[peer.kind] in heard or (not topics[peer.kind] and bool(heard))

            listening.wait(step, 20.0, f"what {kind} sends")
