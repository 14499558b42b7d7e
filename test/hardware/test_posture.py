"""Kinematics of the guard against pinocchio and finite differences."""

import numpy as np
import pytest

from dynid.hardware.safety.posture import Posture
from dynid.model.chain import SerialChain
from dynid.robot import Robot, load_robot

STEP = 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["crane_x7", "kr300", "puma560"])
def test_the_tool_is_where_pinocchio_places_it(name: str) -> None:
    robot = load_robot(name)
    posture, chain = Posture(robot), SerialChain.from_robot(robot)
    q = np.random.default_rng(1).uniform(-1.0, 1.0, robot.size)
    posture.place(q)
    last = chain.placements(q[: chain.size])[-1]
    assert posture.tool == pytest.approx(last[:3, :3] @ np.array(robot.file.tool_m) + last[:3, 3], abs=1e-12)


def test_the_slope_is_the_derivative_of_the_height_and_minus_the_height_that_of_the_slope(robot: Robot) -> None:
    posture, q = Posture(robot), np.random.default_rng(2).uniform(-1.0, 1.0, robot.size)
    posture.place(q)
    height = posture.height.copy()
    for axis in range(robot.chain_size):
        slopes = []
        for side in (1.0, -1.0):
            posture.place(q + side * STEP * (np.arange(robot.size) == axis))
            slopes.append(posture.slope[axis])
        assert (slopes[0] - slopes[1]) / (2.0 * STEP) == pytest.approx(-height[axis], abs=1e-6)


def test_an_upright_arm_balances_and_a_hanging_one_does_not(robot: Robot) -> None:
    q = np.zeros(robot.size)
    for mount, above in (("upright", True), ("hanging", False)):
        posture = Posture(robot, mount)
        posture.place(q)
        assert ((posture.height[[1, 3, 5]] > 0.02) == above).all()
        assert posture.height[[0, 2, 4, 6, 7]] == pytest.approx(0.0, abs=1e-9)  # about the vertical, and the hand


def test_velocities_are_brought_within_the_speed_of_the_tool(robot: Robot) -> None:
    posture, q = Posture(robot), np.random.default_rng(3).uniform(-1.0, 1.0, robot.size)
    dq = np.random.default_rng(4).uniform(-2.0, 2.0, robot.size)
    posture.place(q)
    factor, before = posture.pace(dq, 0.2, 0.2, 1.0), posture.tool
    posture.place(q + STEP * factor * dq)
    speed = np.linalg.norm(posture.tool - before) / STEP
    assert speed <= 0.2 * 1.0001 and (speed > 0.15 or factor == 1.0)
    assert posture.pace(np.zeros(robot.size), 0.2, 0.2, 1.0) == 1.0


def test_an_unknown_joint_rate_makes_the_speed_of_the_arm_unknown(robot: Robot) -> None:
    posture = Posture(robot)
    posture.place(np.zeros(robot.size))
    for axis in range(7):
        assert np.isnan(posture.speed(np.where(np.arange(robot.size) == axis, np.nan, 0.1)))


def test_downward_motion_near_the_table_is_slower(robot: Robot) -> None:
    q = np.deg2rad([0.0, 90.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    down = np.where(np.arange(robot.size) == 1, 1.0, 0.0)
    posture = Posture(robot)
    posture.place(q)
    tool_m = float(posture.tool[2])
    free = posture.pace(down, 0.25, 0.1, 0.1)
    for above_m, up, factor in ((0.2, 0.0, 1.0), (0.0, 0.0, 0.4), (0.05, 0.0, 0.7), (-0.2, 0.0, 1.0), (0.0, 1.0, 1.0)):
        near = Posture(robot, None, tool_m - above_m)
        near.place(q)
        rates = down - 2.0 * up * down
        assert near.pace(rates, 0.25, 0.1, 0.1) == pytest.approx(factor * free, rel=1e-6)
