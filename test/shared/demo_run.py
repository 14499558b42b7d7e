"""A running `dynid demo`, for the tests of the whole chain."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 for Python is not installed")

from installed import environment

from dynid.parent import PARENT_VARIABLE
from dynid.recording.bag_reader import read_bag
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
MOTIONS = ("demo_identification", "demo_validation")
CHECK_INTERVAL_S = 0.02
EVENT_TIMEOUT_S = 300.0
RUN_TIMEOUT_S = 600.0  # of 100 s on a machine that keeps up
CHILDREN = {"simulated_arm", "recorder", "identification", "executor", "hardware"}


class Demo:
    """A running `dynid demo` in a ROS domain of its own, of this tree or by the words of another `dynid`."""

    def __init__(self, folder: Path, *arguments: str, dynid: Sequence[str] = ()) -> None:
        self.output, self._text = folder / "run", folder / "output.txt"
        self._read_size, self._counts = 0, Counter[str]()
        own = environment() if dynid else os.environ  # what is installed finds no other dynid on its paths
        variables = {name: value for name, value in own.items() if name != "ROS_DOMAIN_ID"}
        variables |= {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
        command = [*(dynid or (sys.executable, "-m", "dynid")), "demo", "--out", str(self.output), *arguments]
        with self._text.open("wb") as stream:
            self.process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=variables, cwd=folder)

    @property
    def text(self) -> str:
        return self._text.read_text(encoding="utf-8")

    def log(self, name: str) -> str:
        path = self.output / "logs" / f"{name}.log"
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def last_lines(self) -> str:
        """Return the last log lines of the nodes that move the arm, for the message of a failed test."""
        ends = {name: self.log(name).splitlines()[-8:] for name in ("executor", "hardware", "simulated_arm")}
        return "\n".join(f"{name}: {line[:300]}" for name, lines in ends.items() for line in lines)

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
        """Wait for a condition on the demo's files, or for its end."""
        self._wait(lambda: event() or self.process.poll() is not None, what)

    def wait_for(self, event: Callable[[], bool], what: str) -> None:
        """Wait for a condition on the demo's files; the demo must not end before."""
        self.wait_until(event, what)
        assert event(), f"the demo ended with {self.process.returncode} before {what}: {self.text}\n{self.last_lines()}"

    def wait_until_alone(self) -> None:
        self._wait(lambda: not self.children(), "the end of all children")

    @staticmethod
    def _wait(event: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + EVENT_TIMEOUT_S
        while not event():
            assert time.monotonic() < deadline, f"{what} did not happen"
            time.sleep(CHECK_INTERVAL_S)

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
        """Kill the demo and its children at the end of a test."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for child in self.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def finished(folder: Path, *arguments: str, dynid: Sequence[str] = ()) -> Demo:
    """Run a demo to its end and return it."""
    demo = Demo(folder, *arguments, dynid=dynid)
    try:
        demo.process.wait(RUN_TIMEOUT_S)
    finally:
        demo.kill()
    return demo
