"""Screws and Kronecker products against modified DH frames, pinocchio and MuJoCo; one minimal set for all data."""

import mujoco
import numpy as np
import pinocchio
import pytest

from dynid.errors import DataError
from dynid.model.chain import SerialChain
from dynid.model.dynamics import ArmModel
from dynid.model.regressor import standard_regressor
from dynid.model.screws import INERTIA_VECTOR, ScrewChain, turned_onto
from dynid.model.standard import load_standard, pseudo_inertia, ten_parameters
from dynid.robot import FloatArray, known_robots, load_robot
from dynid.robot.urdf_text import read_urdf_text

ROBOTS = known_robots()


def states(size: int, count: int = 40, seed: int = 3) -> tuple[FloatArray, FloatArray, FloatArray]:
    q, dq, ddq = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, count, size))
    return 3.0 * q, 2.0 * dq, 6.0 * ddq


def carried(placement: FloatArray) -> FloatArray:
    """(10, 10): standard parameters in the frame at `placement`, from those in the frame that it is given in."""
    turn = np.linalg.inv(placement)
    return np.array([ten_parameters(turn @ pseudo_inertia(unit) @ turn.T) for unit in np.eye(10)]).T


@pytest.mark.parametrize("name", ROBOTS)
def test_both_regressors_agree(name: str) -> None:
    robot = load_robot(name)
    model, screws = ArmModel.of(robot), ScrewChain.of(robot)
    q, dq, ddq = states(screws.size)
    W = standard_regressor(model.mdh, q, dq, ddq, model.gravity)
    joint_frames = SerialChain.from_robot(robot).joint_placements
    moved = np.zeros_like(W)
    for j in range(screws.size):
        # a link's parameters in its screw frame, from there to its modified DH frame
        placement = np.linalg.inv(screws.placements[j]) @ joint_frames[j] @ model.mdh.in_link[j]
        block = slice(10 * j, 10 * (j + 1))
        moved[..., block] = W[..., block] @ carried(placement)
    np.testing.assert_allclose(screws.regressor(q, dq, ddq), moved, atol=1e-9)


def test_the_mass_matrix_is_that_of_pinocchio() -> None:
    robot = load_robot("lower_limb_3r")
    screws, chain = ScrewChain.of(robot), SerialChain.from_robot(robot)
    pin, data = chain.model, chain.model.createData()
    values = np.zeros(30)
    for j in range(3):
        # from pinocchio's joint frame to the screw frame
        placement = np.linalg.inv(chain.joint_placements[j]) @ screws.placements[j]
        body = pin.inertias[j + 1]
        J = np.zeros((4, 4))
        about = body.inertia - body.mass * pinocchio.skew(body.lever) @ pinocchio.skew(body.lever)
        J[:3, :3] = 0.5 * np.trace(about) * np.eye(3) - about
        J[:3, 3] = J[3, :3] = body.mass * body.lever
        J[3, 3] = body.mass
        values[10 * j : 10 * (j + 1)] = carried(placement) @ ten_parameters(J)
    minimal = screws.minimal_set()
    found = minimal.inertia(states(3)[0], minimal.R @ values)
    for q, M in zip(states(3)[0], found, strict=True):
        expected = pinocchio.crba(pin, data, q)
        expected = np.triu(expected) + np.triu(expected, 1).T
        np.testing.assert_allclose(M, expected, atol=1e-10)


def test_forward_dynamics_of_the_minimal_set_is_that_of_mujoco() -> None:
    robot = load_robot("lower_limb_3r")
    screws = ScrewChain.of(robot)
    model = ArmModel.of(robot)
    nominal = load_standard(robot.folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    minimal = screws.minimal_set()
    q, dq, ddq = states(3)
    rigid = standard_regressor(model.mdh, q, dq, ddq, model.gravity) @ nominal.values[:30]
    Y0 = minimal.regressor(q, dq, ddq)
    values = np.linalg.lstsq(Y0.reshape(-1, Y0.shape[-1]), rigid.ravel(), rcond=None)[0]
    text = read_urdf_text(robot.urdf_path).replace(
        '<robot name="lower_limb_3r">',
        '<robot name="lower_limb_3r"><mujoco><compiler fusestatic="false" balanceinertia="false" '
        'discardvisual="false"/></mujoco>',
    )
    arm = mujoco.MjModel.from_xml_string(text)
    arm.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    data = mujoco.MjData(arm)
    tau = np.random.default_rng(0).uniform(-30.0, 30.0, q.shape)
    found = minimal.forward_dynamics(q, dq, tau, values)
    for k in range(len(q)):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q[k], dq[k], tau[k]
        mujoco.mj_forward(arm, data)
        np.testing.assert_allclose(found[k], data.qacc, rtol=1e-6, atol=1e-6)


def test_the_minimal_set_of_the_3r_is_the_published_one() -> None:
    robot = load_robot("lower_limb_3r")
    model, screws = ArmModel.of(robot), ScrewChain.of(robot)
    nominal = load_standard(robot.folder / "models" / "nominal.yaml", model.mdh, model.regrouping.standard)
    # all joints turn about the frames' own z, which modified DH frames share: only the place of x may differ
    minimal = screws.minimal_set()
    q, dq, ddq = states(3)
    rigid = standard_regressor(model.mdh, q, dq, ddq, model.gravity) @ nominal.values[:30]
    Y0 = minimal.regressor(q, dq, ddq)
    values = np.linalg.lstsq(Y0.reshape(-1, Y0.shape[-1]), rigid.ravel(), rcond=None)[0]
    assert len(values) == 9
    published = [5.888, 5.199, 0.0469, 3.588, 1.284, 0.0381, 0.111, 0.287, 0.0016]  # Table 3, sizes
    np.testing.assert_allclose(np.sort(np.abs(values)), np.sort(published), atol=1e-6)


@pytest.mark.parametrize("name", ["lower_limb_3r", "crane_x7"])
def test_rank_pivots_and_factors_are_the_same_over_random_data(name: str) -> None:
    screws = ScrewChain.of(load_robot(name))
    first = screws.minimal_set()
    for seed in range(1, 101):
        other = screws.minimal_set(seed)
        assert other.pivots == first.pivots
        np.testing.assert_allclose(other.R, first.R, atol=1e-8)


def test_wrong_shapes_are_refused_and_any_axis_gets_a_rotation() -> None:
    screws = ScrewChain.of(load_robot("lower_limb_3r"))
    with pytest.raises(DataError, match="states must be"):
        screws.regressor(np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 4)))
    for axis in np.array([[0, 0, 1.0], [0, 0, -1.0], [1.0, 0, 0], [0.6, 0.0, -0.8]]):
        turn = turned_onto(axis)
        np.testing.assert_allclose(turn @ [0, 0, 1.0], axis, atol=1e-15)
        np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-15)
        assert np.linalg.det(turn) == pytest.approx(1.0)
    assert set(np.unique(INERTIA_VECTOR)) == {-1.0, 0.0, 1.0}
