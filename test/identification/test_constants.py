"""Torque constants: each joint has its servo's, and held-out data with other constants are refused."""

from dataclasses import replace

import numpy as np
import pytest
from arms import arm, nominal
from recordings import recorded

from dynid.errors import DataError
from dynid.hardware.loop.diagnostics import driver_settings
from dynid.identification.held_out import validate
from dynid.robot import load_robot
from dynid.runtime.model import Model

ROBOT = load_robot("crane_x7")
SMALL, LARGE = 2.3179, 3.1317  # XM430-W350 and XM540-W270 [N m/A]
CONSTANTS = (SMALL, LARGE, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL)
ALOHA = [2.409, 4.818, 4.818, 1.783]
MODEL = Model(ROBOT, nominal("crane_x7"), None, "upright", CONSTANTS, arms={"upright": arm("crane_x7")})


def test_the_second_joint_has_the_large_servo() -> None:
    np.testing.assert_array_equal(ROBOT.torque_constants, CONSTANTS)
    assert driver_settings(ROBOT, "upright", "/dev/null", simulated=False).torque_constants_nm_per_a == CONSTANTS
    # a joint's own constant, of two servos side by side, comes before its servo model's
    assert load_robot("aloha_class").torque_constants[[0, 1, 2, 5]].tolist() == ALOHA


def test_held_out_data_with_other_constants_are_refused() -> None:
    data = replace(recorded(ROBOT, coulomb=0.0), torque_constants=CONSTANTS)
    assert validate(MODEL, [data]).verdict.accepted
    for other in ((LARGE, SMALL, *CONSTANTS[2:]), (), tuple(1.01 * one for one in CONSTANTS)):
        with pytest.raises(DataError, match="torques are not comparable"):
            validate(MODEL, [replace(data, torque_constants=other)])
