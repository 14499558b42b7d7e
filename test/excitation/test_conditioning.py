"""Trajectories that determine every parameter, with condition numbers like the paper's."""

import numpy as np
import pytest

from dynid.excitation.conditioning import paper_condition_numbers
from dynid.model.dynamics import ArmModel
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation


@pytest.fixture(scope="module")
def singular_values():
    robot = load_robot("crane_x7")
    model, excitation = ArmModel.of(robot), load_excitation(robot)

    def values(name, profile):
        trajectory = excitation.trajectory(name, profile)
        W = model.regressor(*trajectory.sample_all(np.arange(0.0, trajectory.duration, 0.04)))
        return np.linalg.svd(W.reshape(-1, len(model.names)), compute_uv=False)

    return values


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["paper", "limited"])
def test_condition_numbers_come_near_the_papers(singular_values, profile):
    paper = paper_condition_numbers(40)
    assert len(paper) == 40
    ratios = []
    for name, kappa in paper.items():
        values = singular_values(name, profile)
        ratios.append(values[0] / values[-1] / kappa)
    assert 0.5 <= np.median(ratios) <= 2.0
    assert max(ratios) < 6.0 and min(ratios) > 0.2


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("demo_identification", 40.0),
        ("demo_validation", 40.0),
        ("gentle_identification", 50.0),
        ("gentle_validation", 60.0),
    ],
)
def test_demo_motions_identify_all_39_parameters(singular_values, name, limit):
    values = singular_values(name, "limited")
    assert len(values) == 39
    assert values[0] / values[-1] < limit


def test_motion_of_one_joint_at_a_time_leaves_parameters_unexcited():
    """What the checks above reject: AG02's single-joint part alone leaves parameters unexcited."""
    robot = load_robot("crane_x7")
    model, excitation = ArmModel.of(robot), load_excitation(robot)
    whole = excitation.trajectory("AG02", "paper")
    steps = excitation.file.patterns["single_joints"]
    times = np.arange(0.0, whole.knots[3 * len(steps)], 0.04)
    W = model.regressor(*whole.sample_all(times)).reshape(-1, len(model.names))
    assert np.linalg.matrix_rank(W) < 39
