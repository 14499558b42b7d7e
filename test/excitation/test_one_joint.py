"""Motion of one joint at a time: only that joint, at its fastest, and parameters that it determines."""

import numpy as np
import pytest

from dynid.errors import ConfigurationError, SafetyError
from dynid.excitation.one_joint import OneJointWish, Sine
from dynid.excitation.optimiser import ExcitationOptimiser
from dynid.model.dynamics import ArmModel
from dynid.model.standard import load_standard
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.polynomial import PolynomialTrajectory

pytestmark = pytest.mark.slow

ROBOT = load_robot("crane_x7")
Alone = tuple[PolynomialTrajectory, tuple[Sine, ...]]


@pytest.fixture(scope="module")
def optimiser() -> ExcitationOptimiser:
    return ExcitationOptimiser(ROBOT, load_excitation(ROBOT))


@pytest.fixture(scope="module")
def alone(optimiser: ExcitationOptimiser) -> Alone:
    return optimiser.one_joint("limited").motion("alone", OneJointWish())


def test_one_joint_moves_at_a_time_from_the_last_one_inward(optimiser: ExcitationOptimiser, alone: Alone) -> None:
    motion, sines = alone
    assert [sine.joint for sine in sines] == list(reversed(ROBOT.joint_names))
    optimiser.check(motion, "limited")
    times = np.arange(0.0, motion.duration, 0.005)
    q, dq, ddq = motion.sample_all(times)
    moving = np.abs(dq) > 1e-6
    assert (moving.sum(axis=1) <= 1).all()
    first = [int(np.flatnonzero(moving[:, j])[0]) for j in range(ROBOT.size)]
    assert first == sorted(first, reverse=True)
    step = 1e-4
    ahead, behind = motion.sample_all(times + step)[0], motion.sample_all(times - step)[0]
    np.testing.assert_allclose((ahead - behind) / (2.0 * step), dq, atol=1e-3)
    np.testing.assert_allclose((ahead - 2.0 * q + behind) / step**2, ddq, atol=0.05 * np.abs(ddq).max())


def test_the_frequency_is_the_highest_that_is_allowed(optimiser: ExcitationOptimiser, alone: Alone) -> None:
    maker, (_, sines) = optimiser.one_joint("limited"), alone
    slow = optimiser.bounds("limited").velocity * 0.5
    maker._velocity = slow
    _, slower = maker.motion("slower", OneJointWish())
    for fast, less in zip(sines, slower, strict=True):
        assert less.frequency_rad_s <= fast.frequency_rad_s
    assert sum(one.frequency_rad_s for one in slower) < 0.8 * sum(one.frequency_rad_s for one in sines)


def test_several_postures_determine_all_base_parameters(optimiser: ExcitationOptimiser, alone: Alone) -> None:
    """Noise-free torques of the sequence give the base parameters back, which one posture does not determine."""
    model = ArmModel.of(ROBOT)
    standard = load_standard(ROBOT.folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    phi = model.base_parameters(standard).values
    ranks = []
    for motion in (alone[0], optimiser.one_joint("limited").motion("two", OneJointWish(periods=2, postures=2))[0]):
        W = optimiser.regressor(*motion.sample_all(np.arange(0.0, motion.duration, 0.02))).reshape(-1, len(phi))
        ranks.append(np.linalg.matrix_rank(W / np.linalg.norm(W, axis=0).clip(1e-9), tol=1e-6))
    assert ranks[0] < ranks[1] == 39
    np.testing.assert_allclose(np.linalg.lstsq(W, W @ phi, rcond=None)[0], phi, atol=1e-6)


def test_impossible_one_joint_motions_are_refused(optimiser: ExcitationOptimiser) -> None:
    maker = optimiser.one_joint("limited")
    with pytest.raises(ConfigurationError, match="expected at least 2 periods and 1 posture"):
        maker.motion("none", OneJointWish(periods=1))
    maker._velocity = np.full(ROBOT.size, 1e-3)
    with pytest.raises(SafetyError, match="cannot move by"):
        maker.motion("still", OneJointWish())
