"""Teach an arm by showing: a hand leads it while it is recorded, then it replays what it was shown.

Both work on a running chain. While it is led, the arm carries its own weight and a share of its gears' friction; left
alone it stays where it is, and when it has rested for a while, the recording ends. The replay is a motion as any other:
checked whole, approached slowly, and followed with the model.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from dynid.control.model_laws import ComputedTorque, GravityCompensation
from dynid.control.shown import MOVED_RAD, STANDS_S, STILL_RAD, Shown
from dynid.errors import DataError, NodeError
from dynid.nodes.chain import Chain
from dynid.nodes.collect import Report, begin_recording, end_recording
from dynid.nodes.supervisor import Supervisor
from dynid.recording.messages import JointStateDecoder
from dynid.recording.recording import load_recording
from dynid.robot import FloatArray, Robot

LATEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
LONGEST = 4.0  # times the arm's own time: a simulated arm waits for a busy host
REST_S, LONGEST_S = 3.0, 300.0
HELD = "guiding_held"  # in the executor's diagnostics


class Resting:
    """Notices that an arm which was led has come to rest, from its states.

    Args:
        robot: whose joints it watches.
        rest_s: so long it must have rested [s].
    """

    def __init__(self, robot: Robot, rest_s: float) -> None:
        self._decoder, self._rest_s = JointStateDecoder(robot.joint_names), rest_s
        self._first: FloatArray | None = None
        self._still_at, self._since_ns, self._began_ns, self.now_ns = np.zeros(robot.size), 0, 0, 0
        self.moved = False

    @property
    def stands(self) -> bool:
        """Whether the arm had the time in which it must stand by itself, before a hand may lead it."""
        return bool(self._began_ns) and (self.now_ns - self._began_ns) * 1e-9 >= STANDS_S

    @property
    def rested_s(self) -> float:
        """How long it has been at rest [s]."""
        return (self.now_ns - self._since_ns) * 1e-9

    @property
    def over(self) -> bool:
        """Whether it was moved, and has rested since for long enough."""
        return self.moved and self.rested_s >= self._rest_s

    def take(self, raw: bytes) -> None:
        """A state as bytes; what is none is left out."""
        try:
            state = self._decoder.decode(raw)
        except DataError:
            return
        if state is None:
            return
        self.now_ns, q = state[0], state[1]["position"]
        self._began_ns = self._began_ns or self.now_ns
        if self._first is None or not self.stands:
            self._first = self._still_at = q  # the arm sags when torque comes on, and no hand leads it yet
            self._since_ns = self.now_ns
        if np.abs(q - self._still_at).max() > STILL_RAD:
            self._still_at, self._since_ns = q, self.now_ns
        self.moved |= bool(np.abs(q - self._first).max() > MOVED_RAD)


def led(chain: Chain, model: Path, bag: Path, report: Report, rest_s: float = REST_S) -> None:
    """Record the arm while a hand leads it, until it has rested for a while [s]; torque stays on, and the arm is held.

    Args:
        chain: active, see `Chain.activate`.
        model: accepted model.yaml, which carries the arm.
        bag: new.
        report: receives what is going on.

    Raises:
        NodeError: a node refused, nobody led the arm within five minutes, or the arm was braked and is held; the bag is
            closed then, too.
    """
    call, resting = chain.supervisor, Resting(chain.robot, rest_s)
    call.set_parameters("executor", {"model_file": str(model), "controller": GravityCompensation.name})
    begin_recording(call, "", "limited", bag)
    call.set_enabled("hardware", True)
    call.trigger("executor/hold")
    states = call.node.create_subscription(JointState, "joint_states", resting.take, LATEST, raw=True)
    try:
        call.wait(lambda: _over(call, resting, report), LONGEST * LONGEST_S, "hand guiding and then rest")
    finally:
        call.node.destroy_subscription(states)
    held = call.reported("executor", HELD)
    end_recording(call)
    if held:
        raise NodeError(
            f"the arm was braked and held while it was led: {held}; what was recorded until then is in {bag}"
        )
    call.set_parameters("executor", {"controller": ComputedTorque.name})


def _over(call: Supervisor, resting: Resting, report: Report) -> bool:
    if call.reported("executor", HELD):
        return True
    text = "lead the arm" if resting.stands else "wait: the arm must stand by itself before you lead it"
    text = f"lead the arm; it has rested for {resting.rested_s:.0f} s" if resting.moved else text
    report(text, 0.0, 0.0)
    return resting.over


@dataclass(frozen=True, eq=False)
class Replayed:
    """How a replay came out, largest over all joints and the whole motion.

    Attributes:
        duration_s: of the motion [s].
        error_rad: off its own reference [rad].
        shown_error_rad: off where the hand had the arm [rad]; None where that is not known.
    """

    duration_s: float
    error_rad: float
    shown_error_rad: float | None


def replayed(chain: Chain, model: Path, motion: Path, bag: Path, report: Report, shown: Shown | None) -> Replayed:
    """Execute and record a motion from a file under computed torque, then compare.

    Args:
        chain: brought up; the arm is held at its rest posture in the end.
        model: accepted model.yaml.
        motion: trajectory file.
        bag: new.
        shown: what the file was made of, where that is known.

    Raises:
        NodeError: refused, cancelled, or not done in time; says why.
    """
    chain.supervisor.set_parameters("executor", {"model_file": str(model), "controller": ComputedTorque.name})
    duration = chain.run_trajectory(str(motion), "limited", bag, report)
    recording = load_recording(bag, chain.robot)
    start, end = recording.trajectory_span()
    inside = (recording.time >= start) & (recording.time <= end)
    time, q = recording.time[inside], recording.q[inside]
    assert recording.reference is not None, "the executor publishes it"
    place = np.searchsorted(recording.reference.time, time - 1e-6)
    place = np.minimum(place, len(recording.reference.time) - 1)
    error = float(np.abs(q - recording.reference.q[place]).max())
    away = None if shown is None else float(np.abs(q - shown.shown_at(time - start)).max())
    return Replayed(duration, error, away)
