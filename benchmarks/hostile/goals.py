"""Hostile motions: dense points, steps, and motions faster than planned; accepted ones are checked.

A motion that passes the check must keep its limits at every moment, which is tested every 20 microseconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dynid.control.motion_check import MotionCheck, MotionLimits, nominal_torques, robot_limits
from dynid.control.self_collision import SelfCollision
from dynid.errors import DynidError
from dynid.robot import FloatArray, Robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.motion import Motion
from dynid.trajectory.polynomial import through_points

FINE_S = 20e-6
EXCESS = 1e-4  # allowed relative excess over a limit, as torques between samples are interpolated by a cubic
KINDS = ("close points", "step", "run faster", "drawn derivatives")
BLOCK = 100_000  # number of instants checked together


@dataclass(frozen=True)
class GoalOutcome:
    """One goal: its kind and seed, why it was refused ("" if accepted), and its largest shares of limits."""

    kind: str
    seed: int
    refusal: str
    acceleration: float = 0.0
    torque: float = 0.0

    @property
    def violates(self) -> bool:
        """Whether the goal was accepted although it violates a limit."""
        return max(self.acceleration, self.torque) > 1.0 + EXCESS


def drawn_goal(robot: Robot, kind: str, random: np.random.Generator) -> Motion:
    """Return a random goal of a kind, at about the highest speed of the arm; errors are those of `through_points`."""
    count, n = int(random.integers(4, 9)), robot.size
    low, high = robot.lower, robot.upper
    middle = np.clip(robot.rest_posture, low + 0.25 * (high - low), high - 0.25 * (high - low))
    spread = random.uniform(0.05, 0.5)
    postures = middle + spread * random.normal(size=(count, n)) * (high - low) / 8.0
    gaps = random.uniform(0.2, 1.0, count - 1)
    if kind == "close points":
        at = int(random.integers(1, count - 1))
        gap = float(10.0 ** random.uniform(-3.4, -1.5))  # 0.4 to 30 ms
        moved = postures[at] + random.normal(size=n) * float(10.0 ** random.uniform(-6.0, -1.0))
        postures = np.insert(postures, at + 1, moved, axis=0)
        gaps = np.insert(gaps, at, gap)
    elif kind == "step":
        at = int(random.integers(1, count))
        postures[at:] += random.normal(size=n) * float(10.0 ** random.uniform(-4.0, -0.5))
        gaps[at - 1] = float(10.0 ** random.uniform(-3.0, -0.5))
    times = np.concatenate([[0.0], np.cumsum(gaps)])
    fast = float(random.uniform(0.3, 2.0)) if kind == "run faster" else 1.0
    speeds = np.gradient(postures, times, axis=0)
    bends = np.gradient(speeds, times, axis=0)
    if kind == "drawn derivatives":
        speeds, bends = random.normal(size=(2, *postures.shape)) * np.array([0.6, 4.0])[:, None, None]
    speeds[[0, -1]] = 0.0
    rows = [postures, speeds * fast, bends * fast**2][: int(random.integers(1, 4))]
    return through_points(kind, robot.joint_names, times / fast, *rows)


def judged(check: MotionCheck, limits: MotionLimits, motion: Motion, seed: int) -> GoalOutcome:
    """Check a motion, and if it is accepted, test its limits independently."""
    assert check.torques is not None
    try:
        check.check([motion])
    except DynidError as error:
        return GoalOutcome(motion.name, seed, str(error))
    times = np.arange(0.0, motion.duration, FINE_S)
    shares = np.zeros(2)
    for begin in range(0, len(times), BLOCK):
        q, dq, ddq = motion.sample_all(times[begin : begin + BLOCK])
        most: tuple[FloatArray, FloatArray] = (np.abs(ddq), np.abs(check.torques(q, dq, ddq)))
        for k, (values, limit) in enumerate(zip(most, (limits.acceleration, limits.torque), strict=True)):
            shares[k] = max(shares[k], float((values / limit).max()))
    return GoalOutcome(motion.name, seed, "", *shares.tolist())


def goal_outcomes(robot: Robot, cases: int, seed: int = 0) -> Iterator[GoalOutcome]:
    """Draw and test goals, one of each kind in turn, for an arm with half of its torque or less."""
    usual = robot_limits(robot, load_excitation(robot).acceleration_limits)
    torques, collision = nominal_torques(robot, None), SelfCollision(robot)
    for case in range(cases):
        kind, number = KINDS[case % len(KINDS)], seed + case
        random = np.random.default_rng([number, 56])
        # with less torque than this arm's strong motors have, torque limits also refuse motions
        limits = replace(usual, torque=usual.torque * random.uniform(0.25, 0.6))
        check = MotionCheck(robot, limits, torques, collision)
        slower = 1.0
        for _ in range(6):  # a refused motion is tried again more slowly, so that some of each kind pass
            motion = drawn_goal(robot, kind, np.random.default_rng([number, 55]))
            found = judged(check, limits, slowed(motion, slower), number)
            if not found.refusal:
                break
            slower *= float(random.uniform(1.2, 2.0))
        yield found


def slowed(motion: Motion, factor: float) -> Motion:
    """Return the same motion with its duration multiplied by a factor."""
    pieces = motion.pieces()
    knots = np.append(pieces.begins, motion.duration)
    inner = np.arange(len(pieces.begins))
    begin = pieces.derivatives(inner, np.zeros(len(inner)), 3)
    end = pieces.derivatives(inner[-1:], pieces.durations[-1:], 3)
    q, dq, ddq = (np.vstack([a, b]) for a, b in zip(begin, end, strict=True))
    dq[[0, -1]] = 0.0
    return through_points(motion.name, motion.joint_names, knots * factor, q, dq / factor, ddq / factor**2)


def figures(found: list[GoalOutcome]) -> dict[str, dict[str, float | int]]:
    """Return, by kind, the numbers of goals and accepted goals, the largest shares of limits, and violations."""
    table: dict[str, dict[str, float | int]] = {}
    for kind in KINDS:
        mine = [one for one in found if one.kind == kind]
        table[kind] = {
            "goals": len(mine),
            "accepted": sum(not one.refusal for one in mine),
            "acceleration": round(max((one.acceleration for one in mine), default=0.0), 6),
            "torque": round(max((one.torque for one in mine), default=0.0), 6),
            "violations": sum(one.violates for one in mine),
        }
    return table
