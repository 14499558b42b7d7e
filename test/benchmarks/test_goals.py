"""Trajectory goals of other software: accepted ones keep their limits between samples."""

import numpy as np
import pytest
from benchmarks.hostile.goals import KINDS, GoalOutcome, figures, goal_outcomes, judged

from dynid.control.motion_check import MotionCheck, nominal_torques, robot_limits
from dynid.errors import SafetyError
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.polynomial import through_points

ROBOT = load_robot("crane_x7")


def test_accepted_goals_keep_acceleration_and_torque_at_every_moment() -> None:
    found = list(goal_outcomes(ROBOT, 24))
    table = figures(found)
    assert all(row["violations"] == 0 for row in table.values()), table
    assert sum(row["accepted"] for row in table.values()) >= 8
    assert max(one.acceleration for one in found) > 0.5 and max(one.torque for one in found) > 0.5


def test_a_check_of_samples_alone_is_counted_as_a_violation() -> None:
    """A check at grid points alone accepts motions that exceed a limit between them."""

    class Sampled(MotionCheck):
        def check(self, parts, load=None):  # type: ignore[no-untyped-def]
            for part in parts:
                _, _, ddq = part.sample_all(np.arange(0.0, part.duration, 0.002))
                if not (np.abs(ddq) <= limits.acceleration).all():
                    raise SafetyError("refused")

    limits = robot_limits(ROBOT, load_excitation(ROBOT).acceleration_limits)
    check = Sampled(ROBOT, limits, nominal_torques(ROBOT, None))
    q = np.tile(np.array(ROBOT.rest_posture), (4, 1))
    q[2:, 0] += 1e-4
    still = np.zeros((4, ROBOT.size))
    motion = through_points("close points", ROBOT.joint_names, [0.0, 0.5003, 0.5017, 1.0], q, still, still)
    sampled, whole = (judged(one, limits, motion, 1) for one in (check, MotionCheck(ROBOT, limits, check.torques)))
    assert sampled.violates and sampled.acceleration > 5.0
    assert figures([sampled])["close points"]["violations"] == 1
    assert "accelerates with" in whole.refusal and not whole.violates


@pytest.mark.parametrize(("shares", "violates"), [((0.9, 1.00001), False), ((1.01, 0.2), True), ((0.2, 1.01), True)])
def test_a_goal_beyond_a_limit_counts(shares: tuple[float, float], violates: bool) -> None:
    assert GoalOutcome(KINDS[0], 1, "", *shares).violates is violates
