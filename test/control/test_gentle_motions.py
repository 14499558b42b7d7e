"""Motions that do not overload servos which switch themselves off, and when the demo chooses them."""

import numpy as np
import pytest
from arms import arm, nominal

from dynid.control.motion_check import MotionCheck, model_torques, robot_limits
from dynid.control.safe_box import SafeBox, scene_of
from dynid.control.self_collision import SelfCollision
from dynid.demo.demo import GENTLE_MOTIONS, MOTIONS, usual_motions
from dynid.errors import SafetyError
from dynid.model.gear_presets import gear_friction
from dynid.nodes.chain import ChainOptions
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation


@pytest.fixture(scope="module")
def check(robot) -> MotionCheck:
    """Return the motion check with the simulated arm's true parameters and published gear friction."""
    torques = model_torques(arm("crane_x7"), nominal("crane_x7"), gear_friction(robot, "M6"))
    limits = robot_limits(robot, load_excitation(robot).acceleration_limits)
    return MotionCheck(robot, limits, torques, SelfCollision(robot))


@pytest.mark.slow
@pytest.mark.parametrize("name", GENTLE_MOTIONS)
def test_gentle_motions_use_up_no_servos_overload(check, robot, name):
    motion = load_excitation(robot).trajectory(name)
    half = np.full(robot.size, 0.3)  # what a motion before it, and the way to its start, may leave
    check.check([motion], half)
    q = motion.sample_all(np.arange(0.0, motion.duration, 0.02))[0]
    assert SafeBox(robot, scene_of(robot)).shortfall(q, np.zeros(robot.size)).max() < 0.0


@pytest.mark.parametrize("name", MOTIONS)
def test_faster_demo_motions_exceed_the_overload_limit(check, robot, name):
    with pytest.raises(SafetyError, match="of the overload that switches it off"):
        check.check([load_excitation(robot).trajectory(name)])


def test_the_demo_takes_gentle_motions_where_servos_trip(robot):
    assert usual_motions(robot, ChainOptions("crane_x7")) == MOTIONS
    assert usual_motions(robot, ChainOptions("crane_x7", motor=("heat",))) == MOTIONS
    for effect in ("overload", "all"):
        assert usual_motions(robot, ChainOptions("crane_x7", motor=(effect,))) == GENTLE_MOTIONS
    other = load_robot("aloha_class")  # has no such motions
    assert usual_motions(other, ChainOptions("aloha_class", motor=("all",))) == MOTIONS
