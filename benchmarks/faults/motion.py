"""Motion of the arm in a fault run: a random piece of a known motion, and the executor that commands it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynid.control.controller import load_controller
from dynid.control.ff_pd import FeedforwardPd
from dynid.control.motion import SETTLE_S, MotionExecutor
from dynid.errors import SafetyError
from dynid.hardware.arm.dynamixel_arm import ArmSample
from dynid.robot import FloatArray, Robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.trajectory import Trajectory

PROFILE = "limited"
SHORTEST_SEGMENT_S = 0.3
EDGE_S = 0.05  # distance of a fault from the ends of its segment, at which the arm stands still [s]


@dataclass(frozen=True, eq=False)
class JointCommand:
    """Command of an executor: the stamp of the answered state [ns], and torques (n,) [N m]."""

    stamp_ns: int
    tau: FloatArray


Disturbance = Callable[[JointCommand], list[JointCommand]]
"""What arrives at the driver instead of a command, from the fault on."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Motion of two segments from rest, and the time of the fault from the start of the motion [s]."""

    trajectory: Trajectory
    fault_s: float


def random_piece(robot: Robot, random: np.random.Generator) -> Piece:
    """Return two successive segments of a random excitation motion, with a fault in the first one."""
    excitation = load_excitation(robot)
    while True:
        whole = excitation.trajectory(str(random.choice(excitation.names)), PROFILE)
        first = int(random.integers(len(whole.laws) - 1))
        laws = whole.laws[first : first + 2]
        moves = np.abs(whole.waypoints[first + 1] - whole.waypoints[first]).max() > 0.0
        if moves and laws[0].duration >= SHORTEST_SEGMENT_S:
            break
    piece = Trajectory(whole.name, whole.joint_names, whole.waypoints[first : first + 3], laws)
    moment = float(random.uniform(EDGE_S, laws[0].duration - EDGE_S))
    return Piece(piece, SETTLE_S + moment)


class Commander:
    """Executor in one process with the driver, from states to commands.

    Args:
        robot: robot with limits and controller.
        trajectory: executed motion.

    Attributes:
        disturbance: change of the commands; None for no change.
        given_up: reason why the executor ended the motion; "" if it did not.
    """

    def __init__(self, robot: Robot, trajectory: Trajectory) -> None:
        self._motion = MotionExecutor(robot, FeedforwardPd(load_controller(robot)))
        self._trajectory = trajectory
        self.disturbance: Disturbance | None = None
        self.given_up = ""

    def begin(self, sample: ArmSample) -> None:
        """Start the motion from this state."""
        self._motion.begin(self._trajectory, sample.q, sample.stamp_ns)

    def commands(self, sample: ArmSample) -> list[JointCommand]:
        """Return the commands that arrive at the driver in answer to a state."""
        try:
            step = self._motion.update(sample.stamp_ns, sample.q)
        except SafetyError as error:
            self.given_up = str(error)
            return []
        if step is None:
            return []
        command = JointCommand(sample.stamp_ns, step.tau)
        return [command] if self.disturbance is None else self.disturbance(command)
