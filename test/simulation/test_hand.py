"""A hand at the simulated arm compared with the arm without it, and hands that apply no force."""

import numpy as np
import pytest

from dynid.errors import ConfigurationError, UnknownNameError
from dynid.robot import load_robot
from dynid.simulation.plant.arm import ArmPlant
from dynid.simulation.plant.hand import Push, pushed
from dynid.simulation.plant.nuisances import NUISANCES

ROBOT = load_robot("crane_x7")
PAN = ROBOT.joint_names[0]


def test_a_push_moves_the_joint_that_it_names_to_and_fro() -> None:
    push = Push.parse(f"{PAN}:2.5:2", ROBOT)
    assert push == Push(0, 2.5, 2.0)
    np.testing.assert_allclose(pushed([push, push], 0.5, ROBOT.size), 5.0 * np.eye(ROBOT.size)[0])
    arms = [
        ArmPlant(ROBOT, switched_off=NUISANCES, hold_until_current=False, hand=hand, friction="viscous")
        for hand in ((push,), ())
    ]
    for arm in arms:
        arm.advance(0.4)
    assert arms[0].q[0] - arms[1].q[0] > 0.05 and arms[0].dq[0] > 0.1


@pytest.mark.parametrize("text", [PAN, f"{PAN}:1", f"{PAN}:x:2", f"{PAN}:nan:2", f"{PAN}:1:0", f"{PAN}:1:2:3"])
def test_invalid_push_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="push '"):
        Push.parse(text, ROBOT)
    with pytest.raises(UnknownNameError, match="elbow"):
        Push.parse("elbow:1:2", ROBOT)
