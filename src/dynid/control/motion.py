"""Executing one trajectory on an arm: smooth approach, the trajectory, a smooth way to the rest posture, then hold.

No ROS and no clock of its own: time is the stamp of the measured state, so a late or missing cycle does not bend the
motion, and the same class drives the real arm, the simulated arm and the lock-step simulation.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dynid.control.controller import Controller
from dynid.errors import SafetyError
from dynid.robot import FloatArray, Robot
from dynid.trajectory.trajectory import Trajectory, approach

Phase = Literal["approach", "trajectory", "rest", "done", "cancelled"]
LONGEST_STEP_S = 0.02  # after a longer gap in the states the reference goes on from where it was, it does not jump
BRAKE_RAD_S2 = 4.0  # deceleration of a cancelled motion
FIRST_DT_S = 0.001
SETTLE_S = 0.5  # standstill before and after the trajectory, so that it begins and ends at rest
LARGEST_SAG_RAD = 0.12  # a held arm is nearer than this to its reference
ON_REFERENCE_RAD = 0.35  # farther from the reference than this, the arm does not follow: stop


@dataclass(frozen=True, eq=False)
class MotionStep:
    """One control cycle: torque (n,) [N m] and the reference it follows, each (n,)."""

    tau: FloatArray
    q_ref: FloatArray
    dq_ref: FloatArray
    ddq_ref: FloatArray


class Brake:
    """From a moving reference to rest: all joints slow down linearly and stop together."""

    def __init__(self, q: FloatArray, dq: FloatArray) -> None:
        self.q, self.dq = q, dq
        self.duration = float(np.abs(dq).max()) / BRAKE_RAD_S2

    def sample(self, t: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """q, dq, ddq (n,) at time t [s]."""
        rest = np.zeros_like(self.dq)
        if t >= self.duration:
            return self.q + self.dq * self.duration / 2, rest, rest
        slope = self.dq / self.duration
        return self.q + self.dq * t - slope * t**2 / 2, self.dq - slope * t, -slope


class MotionExecutor:
    """Runs trajectories with a controller.

    Args:
        robot: gives rest posture, limits and joint names.
        controller: the torque law; it is reset at the begin of each motion.
        lower, upper: position limits (n,) [rad] that a trajectory must keep; None are the robot's.
    """

    def __init__(
        self, robot: Robot, controller: Controller, lower: FloatArray | None = None, upper: FloatArray | None = None
    ) -> None:
        self.robot, self.controller = robot, controller
        self.lower = robot.lower if lower is None else lower
        self.upper = robot.upper if upper is None else upper
        self.phase: Phase | None = None
        self.phases: list[tuple[Phase, int]] = []
        self._plan: list[tuple[Phase, Trajectory | Brake]] = []
        self._began_ns = self._last_ns = 0
        self._last: MotionStep | None = None

    @property
    def active(self) -> bool:
        """Whether torque is commanded: moving or holding."""
        return self.phase is not None

    @property
    def moving(self) -> bool:
        """Whether a motion is under way."""
        return self.phase in ("approach", "trajectory", "rest")

    def elapsed(self, stamp_ns: int) -> float:
        """Seconds since the present phase began."""
        return (stamp_ns - self._began_ns) / 1e9

    def begin(self, trajectory: Trajectory, q: FloatArray, stamp_ns: int) -> None:
        """Start a motion from the measured posture q (n,) [rad].

        Raises:
            SafetyError: a motion is under way, or the trajectory leaves the limits (joint, time and value named).
        """
        if self.moving:
            raise SafetyError(f"a motion is under way (phase {self.phase}); cancel it first")
        trajectory.check_limits(self.lower, self.upper, self.robot.velocity_limits)
        names, holding = self.robot.joint_names, self._last
        if holding is not None and not np.abs(q - holding.q_ref).max() <= LARGEST_SAG_RAD:
            holding = None  # it was moved or let go meanwhile
        start = q if holding is None else holding.q_ref  # a held arm sags a little: go on from the reference
        self._plan = [
            ("approach", approach(start, trajectory.start, names)),
            ("trajectory", trajectory),
            ("rest", approach(trajectory.end, self.robot.rest_posture, names, name="rest")),
        ]
        self.phases = []
        if holding is None:
            self.controller.reset(q)
            self._last_ns = stamp_ns - round(FIRST_DT_S * 1e9)
        self._enter("approach", stamp_ns)

    def cancel(self, stamp_ns: int) -> None:
        """Brake to rest and hold; does nothing where nothing moves."""
        if self.moving and self._last is not None:
            self._plan = [("cancelled", Brake(self._last.q_ref, self._last.dq_ref))]
            self._enter("cancelled", stamp_ns)

    def release(self) -> None:
        """Stop commanding torque, for when the arm was disabled."""
        self.phase, self._last = None, None

    def update(self, stamp_ns: int, q: FloatArray) -> MotionStep | None:
        """The torque of this cycle from the state measured at `stamp_ns`; None where nothing is commanded.

        Raises:
            SafetyError: the arm is too far from its reference; the motion has been released.
        """
        dt = (stamp_ns - self._last_ns) / 1e9
        if self.phase is None or dt <= 0:
            return None
        self._last_ns = stamp_ns
        if dt > LONGEST_STEP_S:
            self._began_ns += round((dt - FIRST_DT_S) * 1e9)
        q_ref, dq_ref, ddq_ref = self._reference(stamp_ns)
        error = q - q_ref
        worst = int(np.argmax(np.abs(error)))  # NaN counts as the largest
        if not abs(error[worst]) <= ON_REFERENCE_RAD:
            self.release()
            raise SafetyError(
                f"{self.robot.joint_names[worst]} is {np.rad2deg(error[worst]):.1f} deg off its reference, at most "
                f"{np.rad2deg(ON_REFERENCE_RAD):.0f} deg are allowed; the motion was given up"
            )
        self._last = MotionStep(self.controller.update(dt, q, q_ref, dq_ref, ddq_ref), q_ref, dq_ref, ddq_ref)
        return self._last

    def _enter(self, phase: Phase, stamp_ns: int) -> None:
        self.phase, self._began_ns = phase, stamp_ns
        self.phases.append((phase, stamp_ns))

    def _reference(self, stamp_ns: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The reference now; a phase that is over hands over to the next at its exact planned end."""
        while len(self._plan) > 1 and self.elapsed(stamp_ns) >= self._plan[0][1].duration + SETTLE_S:
            end_ns = self._began_ns + round((self._plan[0][1].duration + SETTLE_S) * 1e9)
            self._plan.pop(0)
            self._enter(self._plan[0][0], end_ns)
        segment = self._plan[0][1]
        if self.phase == "rest" and self.elapsed(stamp_ns) >= segment.duration:
            self._enter("done", stamp_ns)
        if self.phase == "done":
            rest = np.zeros(self.robot.size)
            return self.robot.rest_posture, rest, rest
        return segment.sample(self.elapsed(stamp_ns))
