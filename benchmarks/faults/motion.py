"""What drives the arm in a fault run: a random piece of a known motion, and the executor that commands it."""

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
EDGE_S = 0.05  # a fault keeps this distance from the ends of its segment, where the arm stands still


@dataclass(frozen=True, eq=False)
class JointCommand:
    """What an executor sends: the stamp of the state that it answers [ns], and torques (n,) [N m]."""

    stamp_ns: int
    tau: FloatArray


Disturbance = Callable[[JointCommand], list[JointCommand]]
"""What arrives at the driver instead of a command, from the fault on."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A motion of two segments from rest, and the moment of the fault, counted from the start of the motion [s]."""

    trajectory: Trajectory
    fault_s: float


def random_piece(robot: Robot, random: np.random.Generator) -> Piece:
    """Any two successive segments of any excitation motion of a robot; the fault falls into the first."""
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
    """The executor's part in one process with the driver: states in, commands out.

    Args:
        robot: limits, controller.
        trajectory: what it executes.

    Attributes:
        disturbance: changes what is sent; None leaves it alone.
        given_up: why the executor gave the motion up, empty while it did not.
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
        """What arrives at the driver in answer to a state."""
        try:
            step = self._motion.update(sample.stamp_ns, sample.q)
        except SafetyError as error:
            self.given_up = str(error)
            return []
        if step is None:
            return []
        command = JointCommand(sample.stamp_ns, step.tau)
        return [command] if self.disturbance is None else self.disturbance(command)
