"""Causes of a refused model: a missing spring at a joint is named if it explains the residual."""

import numpy as np
import pytest
from recordings import motion, recorded

from dynid.identification.diagnosis.causes import cause_of
from dynid.identification.estimators.regression import Regression
from dynid.identification.settings import load_identification
from dynid.model.dynamics import ArmModel
from dynid.robot import FloatArray, load_robot

ROBOT = load_robot("aloha_class")
MODEL, SETTINGS = ArmModel.of(ROBOT), load_identification(ROBOT)
COULOMB = SETTINGS.coulomb_friction.model_copy(update={"structure": "Coulomb-viscous"})
SECONDS = 25.0
TIME, Q, DQ, DDQ = motion(ROBOT, SECONDS, 0)
NAMES = ROBOT.joint_names


def cause(added: FloatArray | float, factors: FloatArray | float = 1.0) -> str:
    """What is said of a recording whose torques are times factors (n,), and more by `added` (N, n) [N m]."""
    samples = recorded(ROBOT, torques=lambda tau: factors * tau + added).samples(SETTINGS)
    return cause_of(MODEL, samples, Regression.stack(MODEL, samples, COULOMB))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("added", "words"),
    [
        (
            0.4 * Q * (np.arange(ROBOT.size) == 2),
            ("a spring of 0.39", "N m/rad at elbow would explain 9", "does a cable"),
        )
    ],
)
def test_missing_spring_is_named(added: FloatArray, words: tuple[str, ...]) -> None:
    found = cause(added)
    assert all(one in found for one in words), found


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 1.4, -1.0])
def test_no_spring_is_named_for_clean_data_or_wrong_torque_scales(factor: float) -> None:
    """A wrong torque constant or sign is named by other checks."""
    assert cause(0.0, np.where(np.arange(ROBOT.size) == 2, factor, 1.0)) == ""
