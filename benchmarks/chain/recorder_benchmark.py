"""Load test of the recorder, and completeness of the bags of recorders that are killed at random moments."""

import os
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.highlevel import AnyReader
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from dynid.errors import DynidError, NodeError
from dynid.nodes.common import STREAM
from dynid.nodes.domain import PrivateDomain
from dynid.nodes.processes import Process, ProcessGroup
from dynid.nodes.supervisor import Supervisor
from dynid.recording.bag_reader import read_bag
from dynid.recording.bag_repair import repair_bag
from dynid.recording.messages import JointStateEncoder, ReferenceEncoder
from dynid.recording.series import joint_series
from dynid.recording.topics import JOINT_STATES
from dynid.robot import Robot

PERIOD_S = 0.001
SETTLED_SHARE = 0.1  # share of the run after which memory is compared
ARRIVAL_S = 10.0
SHORTEST_KILL_S, LONGEST_KILL_S = 1.2, 3.0  # time of recording before a kill [s]; the recorder flushes every second
TOPICS = ("joint_states", "joint_commands", "reference")
Progress = Callable[[float], None]


@dataclass(frozen=True)
class RecorderFigures:
    """Figures of a run.

    Attributes:
        seconds: duration of the load: 1 kHz each of states, commands and references.
        messages_expected: messages that were published to the recorder.
        messages_recorded: published messages that are in the bag.
        cpu_percent: processor time of the recorder, in percent of one core.
        rss_growth_mib: growth of its memory after the first tenth of the time.
        kills: number of recorders that were killed while they recorded.
        bags_opened: bags of killed recorders that dynid could read unchanged, and rosbags after repair.
        worst_seconds_lost: longest time from the last message in such a bag to the kill.
    """

    seconds: float
    messages_expected: int
    messages_recorded: int
    cpu_percent: float
    rss_growth_mib: float
    kills: int
    bags_opened: int
    worst_seconds_lost: float


class _Load:
    """Publisher of states, commands and references at the rates of an experiment."""

    def __init__(self, call: Supervisor, robot: Robot) -> None:
        self._call = call
        self._state, self._reference = JointStateEncoder(robot.joint_names), ReferenceEncoder(robot.joint_names)
        self._zero = np.zeros(robot.size)
        kinds: tuple[Any, ...] = (JointState, JointState, JointTrajectory)
        self._publishers = [
            call.node.create_publisher(kind, name, STREAM) for kind, name in zip(kinds, TOPICS, strict=True)
        ]
        self.cycles = 0

    def run(self, seconds: float, progress: Progress) -> None:
        """Publish for a time [s]; late messages are caught up."""
        begin, count = time.monotonic(), round(seconds / PERIOD_S)
        for k in range(count):
            self._publish(k)
            ahead = begin + (k + 1) * PERIOD_S - time.monotonic()
            if ahead > 0.0:
                time.sleep(ahead)
            if k % 1000 == 0:
                progress(k * PERIOD_S)
        self.cycles += count

    def _publish(self, k: int) -> None:
        stamp, values = time.time_ns(), self._zero + 1e-3 * k
        state = self._state.encode(stamp, position=values, velocity=values, effort=values)
        for publisher, raw in zip(
            self._publishers, (state, state, self._reference.encode(stamp, values, values, values)), strict=True
        ):
            publisher.publish(raw)

    def wait_for_reader(self) -> None:
        """Wait until a subscriber has discovered all topics."""
        self._call.wait(
            lambda: all(one.get_subscription_count() for one in self._publishers),
            ARRIVAL_S,
            "the recorder's subscriptions",
        )

    def end(self) -> None:
        """End publishing."""
        for publisher in self._publishers:
            self._call.node.destroy_publisher(publisher)


def measure(robot: Robot, seconds: float, kills: int, seed: int, progress: Progress) -> RecorderFigures:
    """Record under load for some time, then kill recorders at random moments.

    Args:
        robot: robot whose joints the messages name.
        seconds: duration of the load [s].
        kills: number of recorders killed.
        seed: seed of the moments.
        progress: function that is called with the time of the load so far [s].

    Raises:
        NodeError: a recorder refused or ended by itself.
    """
    with PrivateDomain(), tempfile.TemporaryDirectory(prefix="dynid-recorder-") as name, Supervisor() as call:
        folder = Path(name)
        expected, recorded, cpu, growth = _loaded(call, robot, folder, seconds, progress)
        rng = random.Random(seed)
        outcomes = [_killed(call, robot, folder / f"kill-{k}", f"recorder_{k}", rng) for k in range(kills)]
    return RecorderFigures(
        seconds=seconds,
        messages_expected=expected,
        messages_recorded=recorded,
        cpu_percent=round(cpu, 2),
        rss_growth_mib=round(growth, 2),
        kills=kills,
        bags_opened=sum(opened for opened, _ in outcomes),
        worst_seconds_lost=round(max((lost for _, lost in outcomes), default=0.0), 3),
    )


def _start(group: ProcessGroup, call: Supervisor, name: str, bag: Path) -> Process:
    """Start a recorder that records to a new bag, under a new name, since ROS forgets a killed node late."""
    process = group.start(name, ["-m", "dynid.nodes.recorder_node", "--ros-args", "-r", f"__node:={name}"])
    for step in ("configure", "activate"):
        call.transition(name, step)
    call.set_parameters(name, {"output": str(bag)})
    call.trigger(f"{name}/start")
    return process


def _loaded(
    call: Supervisor, robot: Robot, folder: Path, seconds: float, progress: Progress
) -> tuple[int, int, float, float]:
    """Return published and recorded messages, processor time [%] and memory growth [MiB] of a recorder under load."""
    with ProcessGroup(folder / "logs", {}) as group:
        process = _start(group, call, "recorder", folder / "bag")
        load = _Load(call, robot)
        load.wait_for_reader()
        load.run(SETTLED_SHARE * seconds, progress)
        before, memory, began = _processor_s(process.pid), _memory_mib(process.pid), time.monotonic()
        load.run((1.0 - SETTLED_SHARE) * seconds, lambda done: progress(SETTLED_SHARE * seconds + done))
        cpu = 100.0 * (_processor_s(process.pid) - before) / (time.monotonic() - began)
        growth = _memory_mib(process.pid) - memory
        call.wait(lambda: _reported(call, TOPICS[-1]) >= load.cycles, ARRIVAL_S, "the arrival of every message")
        call.trigger("recorder/stop")
        load.end()
    counts = read_bag(folder / "bag").counts
    return len(TOPICS) * load.cycles, sum(counts.get(f"/{topic}", 0) for topic in TOPICS), cpu, growth


def _reported(call: Supervisor, topic: str) -> int:
    return int(call.reported("recorder", f"/{topic}") or 0)


def _killed(call: Supervisor, robot: Robot, bag: Path, name: str, rng: random.Random) -> tuple[bool, float]:
    """Return whether the bag of a killed recorder could be read, before and after its repair, and its loss [s]."""
    with ProcessGroup(bag.parent / "logs", {}) as group:
        process = _start(group, call, name, bag)
        load = _Load(call, robot)
        load.run(rng.uniform(SHORTEST_KILL_S, LONGEST_KILL_S), lambda _: None)
        moment_ns = time.time_ns()
        process.kill()
        group.processes.remove(process)
        load.end()
    try:
        last = int(joint_series(read_bag(bag)[f"/{JOINT_STATES}"]).stamp_ns[-1])
        repair_bag(bag)
        with AnyReader([bag]) as reader:
            opened = any(True for _ in reader.messages())
    except (DynidError, IndexError, OSError):
        return False, LONGEST_KILL_S
    return opened, (moment_ns - last) * 1e-9


def _processor_s(pid: int) -> float:
    """Return the processor time of a process so far [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mib(pid: int) -> float:
    """Return the resident memory of a process [MiB]."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def refuse_other_systems() -> None:
    """Raise NodeError on systems without /proc of Linux, from which the figures come.

    Raises:
        NodeError: there is none.
    """
    if not Path("/proc/self/statm").is_file():
        raise NodeError("this benchmark reads processor time and memory from /proc, which only Linux has")
