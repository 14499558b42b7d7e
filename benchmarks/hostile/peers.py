"""Hostile peers: processes of the same ROS domain that send messages to a running chain, by kind and seed.

`python -m benchmarks.hostile.peers KIND SEED SECONDS` runs one of them.
"""

import random
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from dynid.hardware.loop.diagnostics import LOOP, STATE, TIMES_OFF, driver_settings
from dynid.hardware.safety.guard_states import GuardState
from dynid.nodes.common import LATCHED, STREAM
from dynid.nodes.recorder_node import TOPICS
from dynid.nodes.supervisor import Supervisor
from dynid.parent import end_with_parent, expected_parent
from dynid.recording.messages import JointStateEncoder, ReferenceEncoder, encode_string
from dynid.robot import Robot, load_robot

PERIOD_S = 0.01
PRESSED_S = 1.0
BROKE = 5  # exit code of a peer that achieved a forbidden effect
NODES = ("hardware", "executor", "recorder")
Step = Callable[[], None]


class Peer:
    """Hostile node of one kind; `step` sends its messages once and is called repeatedly."""

    def __init__(self, kind: str, seed: int, node: Node, robot: Robot) -> None:
        self.kind, self.node, self.robot = kind, node, robot
        self.rng = random.Random(f"{kind} {seed}")
        self.broke = ""  # description of a forbidden effect that the peer achieved
        self.step: Step = getattr(self, f"_{kind}")()

    def _publisher(self, kind: Any, topic: str, *, latched: bool = False) -> Any:
        return self.node.create_publisher(kind, topic, LATCHED if latched else STREAM)

    def _posture(self) -> Any:
        return np.array(self.robot.rest_posture) + [self.rng.uniform(-0.1, 0.1) for _ in self.robot.joint_names]

    def _state(self, *fields: str) -> bytes:
        encoder = JointStateEncoder(self.robot.joint_names, fields=fields)
        vectors = {"position": self._posture(), "velocity": 0 * self._posture(), "effort": 20 * self._posture()}
        return encoder.encode(time.time_ns(), **{name: vectors[name] for name in fields})

    def _settings(self) -> Step:
        """Publish latched settings of another mount, once."""
        mounts = [name for name in self.robot.file.mounts_gravity_m_s2 if name != self.robot.file.default_mount]
        text = driver_settings(self.robot, self.rng.choice(mounts), "/dev/ttyUSB0", simulated=False).model_dump_json()
        publisher = self._publisher(String, "hardware_settings", latched=True)
        publisher.publish(String(data=text))
        return lambda: None

    def _states(self) -> Step:
        """Publish states of an arm at other positions."""
        publisher = self._publisher(JointState, "joint_states")
        return lambda: publisher.publish(self._state("position", "velocity", "effort"))

    def _cut_states(self) -> Step:
        """Publish states that are truncated at random places."""
        return self._cut("joint_states", "position", "velocity", "effort")

    def _cut_commands(self) -> Step:
        """Publish commands that are truncated at random places."""
        return self._cut("joint_commands", "effort")

    def _cut(self, topic: str, *fields: str) -> Step:
        publisher = self._publisher(JointState, topic)

        def step() -> None:
            raw = self._state(*fields)
            publisher.publish(raw[: self.rng.randrange(4, len(raw))])

        return step

    def _commands(self) -> Step:
        """Publish torques as large as the arm's."""
        publisher = self._publisher(JointState, "joint_commands")
        return lambda: publisher.publish(self._state("effort"))

    def _trajectories(self) -> Step:
        """Publish motions that are endless, have many points, are out of reach, or are invalid."""
        publisher = self.node.create_publisher(JointTrajectory, "joint_trajectory", 10)
        beyond = 2.0 * self.robot.upper  # motions within the limits are permitted requests
        point = ReferenceEncoder(self.robot.joint_names, "hostile").encode(0, beyond, 0 * beyond, 0 * beyond)

        def step() -> None:
            count = self.rng.choice([0, 1, 2, 1000, 100_000])
            message = bytearray(point)
            place = message.index(struct.pack("<I", 1), 16)
            struct.pack_into("<I", message, place, self.rng.choice([count, 2**31]))
            publisher.publish(bytes(message[: place + 4]) + bytes(message[place + 4 :]) * min(count, 50_000))

        return self._seldom(step, 0.5)

    def _texts(self) -> Step:
        """Publish latched texts of 50 MB."""
        publishers = [self._publisher(String, topic, latched=True) for topic in ("robot_description", "experiment")]
        raw = encode_string("x" * 50_000_000)
        return self._seldom(lambda: self.rng.choice(publishers).publish(raw), 1.0)

    def _reports(self) -> Step:
        """Publish a flood of diagnostics."""
        publisher = self._publisher(DiagnosticArray, "diagnostics")
        pairs = [KeyValue(key=f"k{k}", value="x" * 1000) for k in range(100)]
        message = DiagnosticArray(status=[DiagnosticStatus(name="hardware", message="enabled", values=pairs)])
        return lambda: publisher.publish(message)

    def _experiments(self) -> Step:
        """Publish invalid experiments."""
        publisher = self._publisher(String, "experiment", latched=True)
        texts = ["{not json", "[]", "null", '{"phases": 1}', "\\u0000", "{" * 10_000]
        return lambda: publisher.publish(String(data=self.rng.choice(texts)))

    def _statuses(self) -> Step:
        """Publish invalid motion statuses, and statuses that report every motion as done."""
        publisher = self._publisher(String, "motion_status", latched=True)
        texts = ["{not json", "[]", "null", '{"id": 1}', "[" * 10_000, '{"id": "", "state": "done"}', "x" * 10**7]
        return lambda: publisher.publish(String(data=self.rng.choice(texts)))

    def _applied(self) -> Step:
        """Publish applied torques and references that are not the arm's."""
        torques = self._publisher(JointState, "applied_commands")
        references = self._publisher(JointTrajectory, "reference")
        encoder = ReferenceEncoder(self.robot.joint_names, "hostile")

        def step() -> None:
            torques.publish(self._state("effort"))
            posture = self._posture()
            references.publish(encoder.encode(time.time_ns(), posture, 0 * posture, 0 * posture))

        return step

    def _driver(self) -> Step:
        """Publish reports of a driver that is enabled, stopped, ended, or had its torque off."""
        publisher = self._publisher(DiagnosticArray, "diagnostics")

        def step() -> None:
            state = self.rng.choice([one.value for one in GuardState] + ["", "x" * 10_000])
            pairs = {
                STATE: state,
                TIMES_OFF: str(self.rng.randrange(5)),
                "incomplete": self.rng.choice(["9", "-1", "x"]),
            }
            values = [KeyValue(key=key, value=value) for key, value in pairs.items()]
            level = bytes([self.rng.randrange(3)])
            status = DiagnosticStatus(name=LOOP, level=level, message=state, values=values)
            publisher.publish(DiagnosticArray(status=[status]))

        return step

    def _bytes(self) -> Step:
        """Publish random bytes on every topic."""
        publishers = [self._publisher(kind, name, latched=latched) for name, (kind, _, latched) in TOPICS.items()]
        publishers.append(self.node.create_publisher(JointTrajectory, "joint_trajectory", 10))

        def step() -> None:
            raw = b"\0\1\0\0" + self.rng.randbytes(self.rng.randrange(200))
            self.rng.choice(publishers).publish(raw)

        return step

    def _parameters(self) -> Step:
        """Set parameters of every node to values of every type."""
        kinds = {"set_parameters": SetParameters, "set_parameters_atomically": SetParametersAtomically}
        clients = [self.node.create_client(k, f"{n}/{s}") for n in NODES for s, k in kinds.items()]
        names = ["trajectory", "profile", "controller", "model_file", "friction_share", "output", "storage", "mount"]
        names += ["port_name", "rate_hz", "completion_timeout_s", "minimum_free_mib", "model.accepted", "robot", "x"]

        def step() -> None:
            client = self.rng.choice(clients)
            values = (True, -1, 2**62, 0.5, float("nan"), "", "/dev/zero", "../x", "gravity_compensation", ["a b"], [1])
            message = Parameter(self.rng.choice(names), value=self.rng.choice(values)).to_parameter_msg()
            if client.service_is_ready():
                client.call_async(client.srv_type.Request(parameters=[message]))

        return step

    def _releases(self) -> Step:
        """Release the emergency stop that another publisher keeps pressed, and switch torque on."""
        button = self._publisher(Bool, "estop", latched=True)
        button.publish(Bool(data=True))
        window = self._publisher(Bool, "estop")
        clear = self.node.create_client(Trigger, "hardware/clear_fault")
        enable = self.node.create_client(SetBool, "hardware/enable")

        def note(future: Any) -> None:
            if future.result().success:
                self.broke = "an emergency stop that is pressed was released by another publisher's false"

        def ask() -> None:
            for client, request in ((clear, Trigger.Request()), (enable, SetBool.Request(data=True))):
                if client.service_is_ready():
                    client.call_async(request).add_done_callback(note)

        begin_s, calls = time.monotonic(), self._seldom(ask, 0.5)

        def step() -> None:
            window.publish(Bool(data=False))
            if time.monotonic() - begin_s > PRESSED_S:  # before, the driver may not have received the message
                calls()

        return step

    def _random(self) -> Step:
        """Run two kinds at once."""
        steps = [getattr(self, f"_{kind}")() for kind in self.rng.sample(KINDS[:-1], 2)]
        return lambda: self.rng.choice(steps)()

    def _seldom(self, step: Step, period_s: float) -> Step:
        due = [0.0]

        def now_and_then() -> None:
            if time.monotonic() >= due[0]:
                due[0] = time.monotonic() + period_s
                step()

        return now_and_then


KINDS = (
    "settings",
    "states",
    "cut_states",
    "cut_commands",
    "commands",
    "trajectories",
    "texts",
    "reports",
    "experiments",
    "statuses",
    "applied",
    "driver",
    "bytes",
    "parameters",
    "releases",
    "random",
)


def main(kind: str, seed: int, seconds: float, robot: str) -> None:
    """Run one peer for a time [s]."""
    end_with_parent(expected_parent() or 0)
    with Supervisor() as call:
        peer = Peer(kind, seed, call.node, load_robot(robot))
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            peer.step()
            due_s = time.monotonic() + PERIOD_S
            call.wait(lambda due_s=due_s: time.monotonic() >= due_s, 10.0, "the next step")  # type: ignore[misc]
    if peer.broke:
        print(peer.broke)
        sys.exit(BROKE)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
