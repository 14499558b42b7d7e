"""Torque constants: each joint has its servo's, and held-out data with others are refused."""

from dataclasses import replace

import numpy as np
import pytest
from arms import arm, nominal
from recordings import recorded

from dynid.errors import DataError
from dynid.identification.held_out import validate
from dynid.model.identified import Model
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
SMALL, LARGE = 2.3179, 3.1317  # XM430-W350 and XM540-W270 [N m/A]
CONSTANTS = (SMALL, LARGE, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL)
MODEL = Model(ROBOT, nominal("crane_x7"), None, "upright", CONSTANTS, arms={"upright": arm("crane_x7")})


def test_the_second_joint_has_the_large_servo() -> None:
    np.testing.assert_array_equal(ROBOT.torque_constants, CONSTANTS)


def test_held_out_data_with_other_constants_are_refused() -> None:
    data = replace(recorded(ROBOT, coulomb=0.0), torque_constants=CONSTANTS)
    assert validate(MODEL, [data]).verdict.accepted
    for other in ((LARGE, SMALL, *CONSTANTS[2:]), (), tuple(1.01 * one for one in CONSTANTS)):
        with pytest.raises(DataError, match="torques are not comparable"):
            validate(MODEL, [replace(data, torque_constants=other)])
