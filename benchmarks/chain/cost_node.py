"""Starter of a module as a program, which counts the processor time of its parts.

`python -m benchmarks.chain.cost_node MODULE [ARGUMENTS]`; SIGUSR2 makes it write the times so far [ns], by part, into
the file that the environment names. A part within another one is counted separately. Parts that a checkout lacks are
left out: their time then belongs to their caller.
"""

import importlib
import json
import os
import runpy
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

PARTS_FILE = "DYNID_COST_PARTS"
WAIT_S = 5.0
NODES = "dynid.nodes."
# Part, module and name of each function that belongs to it.
PARTS = (
    ("bus", "dynid.hardware.bus.state_cycle", "StateCycle.read"),
    ("bus", "dynid.hardware.bus.state_cycle", "StateCycle.write"),
    ("slow data", "dynid.hardware.arm.dynamixel_arm", "DynamixelArm.slow_poll"),
    ("conversion", "dynid.hardware.arm.dynamixel_arm", "DynamixelArm.read"),
    ("conversion", "dynid.hardware.arm.dynamixel_arm", "DynamixelArm.write_currents"),
    ("guard", "dynid.hardware.safety.guard", "SafetyGuard.filter"),
    ("guard", "dynid.hardware.safety.guard", "SafetyGuard.set_load"),
    ("cycle", "dynid.hardware.loop.arm_cycle", "ArmCycle.run"),
    ("encoding", "dynid.recording.messages", "JointStateEncoder.encode"),
    ("encoding", "dynid.recording.messages", "ReferenceEncoder.encode"),
    ("decoding", "dynid.recording.messages", "JointStateDecoder.decode"),
    ("publish", "rclpy.publisher", "Publisher.publish"),
    ("receive", "dynid.nodes.hardware_node", "HardwareNode._take_commands"),
    ("receive", "dynid.nodes.hardware_node", "HardwareNode._on_command"),
    ("control", "dynid.control.motion", "MotionExecutor.update"),
    ("receive", "dynid.nodes.executor_node", "ExecutorNode._on_state"),
    ("write", "dynid.recording.bag_writer", "BagWriter.write"),
    ("receive", "dynid.nodes.recorder_node", "RecorderNode._on_message"),
    ("arm", "dynid.simulation.plant.arm", "ArmPlant.advance"),
)


class PartTimes:
    """Processor time by part, of all threads; a part within another one is not counted twice."""

    def __init__(self) -> None:
        self.ns = Counter[str]()
        self._local = threading.local()

    def counted(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls the given one and counts its processor time."""
        local, times, now = self._local, self.ns, time.thread_time_ns

        def call(*arguments: Any, **named: Any) -> Any:
            outer = getattr(local, "inner_ns", 0)
            local.inner_ns, began_ns = 0, now()
            try:
                return function(*arguments, **named)
            finally:
                whole = now() - began_ns
                times[part] += whole - local.inner_ns
                local.inner_ns = outer + whole

        return call

    def count_all(self) -> None:
        """Count each part that this process can load."""
        for part, module, path in PARTS:
            try:
                owner: Any = importlib.import_module(module)
            except ImportError:
                continue
            *outer, name = path.split(".")
            for one in outer:
                owner = getattr(owner, one, None)
            if (function := getattr(owner, name, None)) is not None:
                setattr(owner, name, self.counted(part, function))


def main() -> None:
    """Run the module that the first argument names, with the other arguments, and count its parts."""
    del sys.argv[0]
    times, file = PartTimes(), Path(os.environ[PARTS_FILE])

    def write(_: int, __: FrameType | None) -> None:
        new = file.with_suffix(".new")
        new.write_text(json.dumps(dict(times.ns)), encoding="utf-8")
        os.replace(new, file)

    signal.signal(signal.SIGUSR2, write)
    times.count_all()
    if sys.argv[0].startswith(NODES):  # not a second time under another name, which would not be counted
        importlib.import_module(sys.argv[0]).main()
    else:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
