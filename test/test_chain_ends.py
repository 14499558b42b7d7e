"""The chain interrupted, killed or delayed by its host: `dynid demo` in processes, as a user starts it."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from demo_run import CHILDREN, EVENT_TIMEOUT_S, MOTIONS, ROBOT, Demo

from dynid.hardware.loop.paused_clock import REPLY_PATIENCE_S
from dynid.recording.bag_reader import read_bag
from dynid.recording.driver_recording import load_driver_recording

pytestmark = pytest.mark.timeout(900)
RATE_HZ = "250"  # where the rate is no question: a quarter of the messages, and of the time that they take


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


def in_motion(demo: Demo) -> bool:
    """The approach is over: currents flow, and there is something to lose."""
    return demo.recorded(MOTIONS[0]) > 500 and demo.recorded(MOTIONS[0], "/experiment") >= 2  # one for each phase


def moving(start: Callable[..., Demo], *arguments: str) -> Demo:
    """A demo that has come to its first motion."""
    demo = start("--rate", RATE_HZ, *arguments)
    demo.wait_for(partial(in_motion, demo), "the motion")
    return demo


def assert_interrupted_in_motion(demo: Demo) -> None:
    """Check the state that every interrupt of a motion must leave."""
    assert demo.process.wait(EVENT_TIMEOUT_S) == 130, demo.text
    assert demo.children() == set() and "interrupted" in demo.text and "Traceback" not in demo.text
    assert "Traceback" not in "".join(demo.log(name) for name in CHILDREN)
    demo.assert_arm_at_rest()
    assert np.any(demo.arm_summary()["max_abs_current_a"])
    bag = read_bag(demo.bag(MOTIONS[0]))
    assert bag.findings == () and bag.counts["/joint_states"] > 500
    assert not (demo.output / "model").exists()


def test_a_port_that_does_not_exist_ends_the_demo_with_one_sentence(start: Callable[..., Demo]) -> None:
    demo = start("--real-arm", "/dev/nothing", "--yes")
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
    """Return the command line of a process; '' if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").replace("\0", " ")
    except OSError:
        return ""


def gaps_s(demo: Demo, begin: int, end: int) -> tuple[float, float]:
    """The longest time between two of these states, and between one and the next command, by their stamps [s]."""
    bag = load_driver_recording(demo.bag(MOTIONS[0]), ROBOT)
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
    demo.wait_for(lambda: demo.recorded(MOTIONS[0]) > stood + 300, "more states")
    recorded = demo.recorded(MOTIONS[0])
    demo.process.send_signal(signal.SIGINT)
    assert_interrupted_in_motion(demo)
    states_s, commands_s = gaps_s(demo, began, recorded)
    # a read that the standstill cut in two is asked again; of the standstill itself nothing reaches the arm
    assert states_s < 0.1 * STANDSTILL_S and commands_s < 0.1 * STANDSTILL_S
    assert demo.arm_summary()["held_time_s"] > 2.5 * STANDSTILL_S + 0.9 * LONG_STANDSTILL_S


def test_an_arm_on_the_wall_clock_does_not_wait_for_its_host(start: Callable[..., Demo]) -> None:
    demo = start("--wall-clock", "--rate", RATE_HZ)
    # not for the motion: what this host holds up by itself ends an arm that does not wait
    demo.wait_for(lambda: demo.recorded(MOTIONS[0]) > 100, "states")
    hold_up(named(demo, "simulated-arm"), STANDSTILL_S)
    stood = demo.recorded(MOTIONS[0])
    demo.wait_until(lambda: demo.recorded(MOTIONS[0]) > stood + 500, "states after the standstill")
    demo.process.send_signal(signal.SIGINT)
    demo.process.wait(EVENT_TIMEOUT_S)
    states = load_driver_recording(demo.bag(MOTIONS[0]), ROBOT).time  # the executor may not have begun yet
    assert float(np.diff(states).max()) > 0.5 * STANDSTILL_S
    assert demo.arm_summary()["held_time_s"] == 0.0


# -- interrupted -----------------------------------------------------------------------------------------------


def test_an_interrupt_at_the_start_leaves_the_arm_at_rest(start: Callable[..., Demo]) -> None:
    demo = start()
    demo.wait_for(lambda: "\n" in demo.log("simulated_arm"), "the arm's start")
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(EVENT_TIMEOUT_S) == 130, demo.text
    assert demo.children() == set() and "Traceback" not in demo.text
    demo.assert_arm_at_rest()


def test_two_interrupts_during_the_motion_leave_the_arm_at_rest(start: Callable[..., Demo]) -> None:
    demo = moving(start)
    assert len(demo.children()) == len(CHILDREN)
    demo.process.send_signal(signal.SIGINT)
    demo.wait_for(lambda: len(demo.children()) < len(CHILDREN), "the end of the first child")
    demo.process.send_signal(signal.SIGINT)
    assert_interrupted_in_motion(demo)


def test_an_interrupt_of_the_identification_leaves_complete_files(start: Callable[..., Demo], tmp_path: Path) -> None:
    at_rest, turned = ROBOT.rest_posture[6], ROBOT.rest_posture[6] + 0.3
    points = [{"time_s": t, "positions_rad": [q]} for t, q in ((0.0, at_rest), (3.0, turned), (6.0, at_rest))]
    short = {"schema_version": 1, "name": "short", "joint_names": [ROBOT.joint_names[6]], "points": points}
    (tmp_path / "short.yaml").write_text(json.dumps(short), encoding="utf-8")
    # of one joint nothing is identified: V01 moves all
    motions = ("--identification", "V01", "--validation", tmp_path / "short.yaml")
    demo = start(*map(str, motions), "--seed", "3", "--no-gain", "--rate", RATE_HZ)
    demo.wait_for(lambda: "identifying by regression from V01" in demo.log("identification"), "the identification")
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(EVENT_TIMEOUT_S) == 130, demo.text
    assert demo.children() == set() and "Traceback" not in demo.text
    demo.assert_arm_at_rest()
    assert read_bag(demo.bag("short")).findings == ()
    left = {path.name for path in demo.output.iterdir()}
    assert left in ({"bags", "logs"}, {"bags", "logs", "model"})  # the result is there as a whole, or not at all


def test_a_killed_demo_ends_its_children(start: Callable[..., Demo]) -> None:
    demo = moving(start)
    demo.process.kill()
    demo.process.wait()
    demo.wait_until_alone()
    assert read_bag(demo.bag(MOTIONS[0])).counts["/joint_states"] > 500


def test_a_demo_killed_at_its_start_ends_its_children(start: Callable[..., Demo]) -> None:
    """Python takes a second to load a node; one whose parent is gone by then must not stay."""
    demo = start()
    demo.wait_for(lambda: len(demo.children()) >= 2, "the first children")
    demo.process.kill()
    demo.process.wait()
    demo.wait_until_alone()
