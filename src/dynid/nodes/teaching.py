"""Teaching by demonstration: the arm is recorded while a hand guides it, then it replays the motion.

Both steps use a running chain. During hand guiding, gravity and a fraction of the gear friction are compensated, so the
arm stays where it is left. When it has been at rest for a while, the recording ends. The replay is a motion like any
other: it is checked completely, approached slowly, and tracked with the model.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from dynid.control.guided_replay import MOVED_RAD, STANDSTILL_S, STILL_RAD, GuidedReplay
from dynid.control.model_laws import ComputedTorque, GravityCompensation
from dynid.errors import DataError, NodeError
from dynid.nodes.chain import Chain
from dynid.nodes.collect import Report, begin_recording, end_recording
from dynid.nodes.supervisor import Supervisor
from dynid.recording.driver_recording import load_driver_recording
from dynid.recording.messages import JointStateDecoder
from dynid.robot import FloatArray, Robot

LATEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
DURATION_FACTOR = 4.0  # wall time per arm time in the time limit: a simulated arm waits for a busy host
REST_S, LONGEST_S = 3.0, 300.0
HELD = "guiding_held"  # key in the executor's diagnostics: why the arm was braked and held


class RestDetector:
    """Detector of the end of hand guiding: the arm was moved and has come to rest.

    Args:
        robot: robot whose joints are watched.
        rest_s: time at rest that ends hand guiding [s].

    Attributes:
        now_ns: timestamp of the newest state [ns], used as the present time.
        moved: whether a joint was moved by hand.
    """

    def __init__(self, robot: Robot, rest_s: float) -> None:
        self._decoder, self._rest_s = JointStateDecoder(robot.joint_names), rest_s
        self._first: FloatArray | None = None
        self._still_at, self._since_ns, self._began_ns, self.now_ns = np.zeros(robot.size), 0, 0, 0
        self.moved = False

    @property
    def stands(self) -> bool:
        """Whether the arm may be guided now: `STANDSTILL_S` have passed since its first joint state.

        Until then the arm may still sag under its own weight.
        """
        return bool(self._began_ns) and (self.now_ns - self._began_ns) * 1e-9 >= STANDSTILL_S

    @property
    def rested_s(self) -> float:
        """Time for which the arm has been at rest [s]."""
        return (self.now_ns - self._since_ns) * 1e-9

    @property
    def over(self) -> bool:
        """Whether hand guiding is over: the arm was moved, and has then been at rest for `rest_s`."""
        return self.moved and self.rested_s >= self._rest_s

    def take(self, raw: bytes) -> None:
        """Update the detector with a serialized `joint_states` message; a malformed message is ignored."""
        try:
            state = self._decoder.decode(raw)
        except DataError:
            return
        if state is None:
            return
        self.now_ns, q = state[0], state[1]["position"]
        self._began_ns = self._began_ns or self.now_ns
        if self._first is None or not self.stands:
            self._first = self._still_at = q  # reset while the arm sags after torque on, before hand guiding
            self._since_ns = self.now_ns
        if np.abs(q - self._still_at).max() > STILL_RAD:
            self._still_at, self._since_ns = q, self.now_ns
        self.moved |= bool(np.abs(q - self._first).max() > MOVED_RAD)


def record_guided_motion(chain: Chain, model: Path, bag: Path, report: Report, rest_s: float = REST_S) -> None:
    """Record a motion in which a person guides the arm by hand, until the arm has been at rest for `rest_s` [s].

    Torque is switched on and stays on, and the arm is held afterwards.

    Args:
        chain: running chain whose lifecycle nodes are active, see `Chain.activate`.
        model: accepted model.yaml for gravity compensation.
        bag: folder of the new bag.
        report: function that receives the progress.
        rest_s: time at rest that ends the recording [s].

    Raises:
        NodeError: a node refused, the arm was not hand-guided in time, or the arm was braked and is held; the bag is
            closed then, too.
    """
    call, resting = chain.supervisor, RestDetector(chain.robot, rest_s)
    call.set_parameters("executor", {"model_file": str(model), "controller": GravityCompensation.name})
    begin_recording(call, "", "limited", bag)
    call.set_enabled("hardware", True)
    call.trigger("executor/hold")
    states = call.node.create_subscription(JointState, "joint_states", resting.take, LATEST, raw=True)
    try:
        call.wait(lambda: _over(call, resting, report), DURATION_FACTOR * LONGEST_S, "hand guiding and then rest")
    finally:
        call.node.destroy_subscription(states)
    held = call.reported("executor", HELD)
    end_recording(call)
    if held:
        raise NodeError(
            f"the arm was braked and held during hand guiding: {held}; what was recorded until then is in {bag}"
        )
    call.set_parameters("executor", {"controller": ComputedTorque.name})


def _over(call: Supervisor, resting: RestDetector, report: Report) -> bool:
    if call.reported("executor", HELD):
        return True
    text = "lead the arm" if resting.stands else "wait: the arm must stand still before you guide it"
    text = f"guide the arm; it has rested for {resting.rested_s:.0f} s" if resting.moved else text
    report(text, 0.0, 0.0)
    return resting.over


@dataclass(frozen=True, eq=False)
class ReplayResult:
    """Result of a replay; errors are maxima over all joints and the whole motion.

    Attributes:
        duration_s: duration of the motion [s].
        error_rad: largest deviation from the replay's reference [rad].
        shown_error_rad: largest deviation from the original hand-guided motion [rad]; None if this motion is not known.
    """

    duration_s: float
    error_rad: float
    shown_error_rad: float | None


def replay_recorded(
    chain: Chain, model: Path, motion: Path, bag: Path, report: Report, shown: GuidedReplay | None
) -> ReplayResult:
    """Execute and record a motion from a file under computed torque, and return its tracking errors.

    Args:
        chain: chain that was brought up; the arm is held at its rest posture in the end.
        model: accepted model.yaml.
        motion: trajectory file.
        bag: folder of the new bag.
        report: function that receives the progress.
        shown: hand-guided motion from which the file was made; None if it is not known.

    Raises:
        NodeError: the motion was refused, cancelled, or not finished in time; the error gives the reason.
    """
    chain.supervisor.set_parameters("executor", {"model_file": str(model), "controller": ComputedTorque.name})
    duration = chain.run_trajectory(str(motion), "limited", bag, report)
    recording = load_driver_recording(bag, chain.robot)
    start, end = recording.trajectory_span()
    inside = (recording.time >= start) & (recording.time <= end)
    time, q = recording.time[inside], recording.q[inside]
    assert recording.reference is not None, "the executor publishes it"
    nearest = np.searchsorted(recording.reference.time, time - 1e-6)
    nearest = np.minimum(nearest, len(recording.reference.time) - 1)
    error = float(np.abs(q - recording.reference.q[nearest]).max())
    shown_error = None if shown is None else float(np.abs(q - shown.shown_at(time - start)).max())
    return ReplayResult(duration, error, shown_error)
