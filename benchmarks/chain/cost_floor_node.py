"""Node that only receives and publishes the messages of the chain's driver, executor or recorder.

`python -m benchmarks.chain.cost_floor_node ROLE SECONDS HZ` prints its processor time [ns] as JSON.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

START_S, END_S = 3.0, 2.0  # time for discovery; time in which other nodes may still receive [s]
ROLES = ("executor", "recorder", "driver")  # the last one sets the pace
NAMES = tuple(f"joint_{number}" for number in range(8))
ZEROS = [0.0] * len(NAMES)


def paced(rate_hz: int, seconds: float, work: Callable[[], None]) -> int:
    """Call a function at a rate for a time [s]; return the number of calls."""
    count, next_s = 0, time.monotonic()
    end_s = next_s + seconds
    while next_s < end_s:
        work()
        count += 1
        next_s += 1.0 / rate_hz
        if (left_s := next_s - time.monotonic()) > 0.0:
            time.sleep(left_s)
    return count


class FloorNode:
    """One of the three nodes; messages come from buffers, and received messages are not decoded.

    Args:
        role: one of `ROLES`.
    """

    def __init__(self, role: str) -> None:
        import rclpy
        from rclpy.node import Node
        from sensor_msgs.msg import JointState
        from trajectory_msgs.msg import JointTrajectory

        from dynid.nodes.common import NEWEST, STREAM, set_middleware_defaults

        set_middleware_defaults()
        rclpy.init()
        self.node, self.role, self.cycles = Node(f"floor_{role}"), role, 0
        self._state, self._trajectory, self._newest, self._stream = JointState, JointTrajectory, NEWEST, STREAM
        {"executor": self._be_executor, "recorder": self._be_recorder, "driver": self._be_driver}[role]()

    def _be_executor(self) -> None:
        from dynid.recording.messages import JointStateEncoder, ReferenceEncoder

        command = JointStateEncoder(NAMES, fields=("position", "effort")).encode(0, position=ZEROS, effort=ZEROS)
        reference = ReferenceEncoder(NAMES).encode(0, ZEROS, ZEROS, ZEROS)
        commands, references = self._publisher(self._state, "commands"), self._publisher(self._trajectory, "reference")

        def answer(_: bytes) -> None:
            commands.publish(command)
            references.publish(reference)

        self._subscribe(self._state, "states", self._newest, answer)

    def _be_recorder(self) -> None:
        for topic in ("states", "commands", "applied"):
            self._subscribe(self._state, topic, self._stream)
        self._subscribe(self._trajectory, "reference", self._stream)

    def _be_driver(self) -> None:
        from dynid.recording.messages import JointStateEncoder

        state = JointStateEncoder(NAMES).encode(0, position=ZEROS, velocity=ZEROS, effort=ZEROS)
        torque = JointStateEncoder(NAMES, fields=("effort",)).encode(0, effort=ZEROS)
        states, torques = self._publisher(self._state, "states"), self._publisher(self._state, "applied")
        self._subscribe(self._state, "commands", self._newest)

        def publish() -> None:
            states.publish(state)
            torques.publish(torque)

        self.publish = publish

    def _subscribe(
        self, kind: Any, topic: str, quality: Any, callback: Callable[[bytes], None] = lambda _: None
    ) -> None:
        self.node.create_subscription(kind, f"floor_{topic}", callback, quality, raw=True)

    def _publisher(self, kind: Any, topic: str) -> Any:
        return self.node.create_publisher(kind, f"floor_{topic}", self._stream)

    def run(self, seconds: float, rate_hz: int) -> dict[str, int]:
        """Run for a time [s]; return the processor time [ns] and, for the driver, the number of cycles."""
        from rclpy.experimental.events_executor import EventsExecutor

        executor = EventsExecutor()
        executor.add_node(self.node)

        def spin_until(end_s: float) -> None:
            while time.monotonic() < end_s:
                executor.spin_once(timeout_sec=0.1)

        def drive() -> None:
            self.cycles = paced(rate_hz, seconds, self.publish)

        began_s = time.monotonic()
        spin_until(began_s + START_S)
        began_ns, pace = time.process_time_ns(), threading.Thread(target=drive)
        if self.role == "driver":
            pace.start()
        spin_until(began_s + START_S + seconds + END_S)
        if self.role == "driver":
            pace.join()
        return {"ns": time.process_time_ns() - began_ns, "cycles": self.cycles}


if __name__ == "__main__":
    print(json.dumps(FloorNode(sys.argv[1]).run(float(sys.argv[2]), int(sys.argv[3]))), flush=True)
