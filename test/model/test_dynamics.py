"""The regressor and the inertia matrix against pinocchio, an independent implementation."""

import numpy as np
import pinocchio
import pytest

from dynid.errors import DataError
from dynid.model.chain import SerialChain
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters, StandardParameters
from dynid.model.regressor import (
    columns_of_last_link,
    fill_link_columns,
    link_columns,
    link_motions,
    link_torques,
    standard_regressor,
)
from dynid.model.standard import load_standard, pseudo_inertia, to_link_frame
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")


def nominal(model: ArmModel) -> StandardParameters:
    return load_standard(ROBOT.folder / "models" / "nominal.yaml", model.mdh)


def pinocchio_with(standard: StandardParameters, model: ArmModel) -> pinocchio.Model:
    """pinocchio's chain with the inertias of `standard` and without rotors."""
    reference = SerialChain.from_robot(ROBOT).model.copy()
    for j in range(7):
        body = to_link_frame(standard.link(j), model.mdh.in_link[j])
        reference.inertias[j + 1] = pinocchio.Inertia(body.mass, body.centre_of_mass, body.inertia)
    reference.gravity.linear = np.array(model.gravity)
    reference.armature = standard.axis("IA")[:7].copy()
    return reference


@pytest.mark.parametrize("mount", ["upright", "hanging"])
def test_inverse_dynamics_equals_that_of_pinocchio(mount: str) -> None:
    model = ArmModel.of(ROBOT, mount=mount)
    standard = nominal(model)
    reference = pinocchio_with(standard, model)
    data = reference.createData()
    rng = np.random.default_rng(5)
    q, dq, ddq = rng.uniform(-2, 2, (3, 50, 8))
    tau = model.inverse_dynamics(q, dq, ddq, model.base_parameters(standard))
    for k in range(50):
        expected = pinocchio.rnea(reference, data, q[k, :7], dq[k, :7], ddq[k, :7])
        expected = expected + standard.axis("FV")[:7] * dq[k, :7]
        np.testing.assert_allclose(tau[k, :7], expected, atol=1e-10)
    hand = standard.axis("IA")[7] * ddq[:, 7] + standard.axis("FV")[7] * dq[:, 7]
    np.testing.assert_allclose(tau[:, 7], hand, atol=1e-12)


def test_inertia_matrix_equals_that_of_pinocchio_and_is_symmetric() -> None:
    model = ArmModel.of(ROBOT)
    standard = nominal(model)
    reference = pinocchio_with(standard, model)
    data = reference.createData()
    q = np.random.default_rng(6).uniform(-2, 2, (20, 8))
    M = model.inertia_matrix(q, model.base_parameters(standard))
    np.testing.assert_allclose(M, np.swapaxes(M, 1, 2), atol=1e-14)
    for k in range(20):
        crba = pinocchio.crba(reference, data, q[k, :7])
        np.testing.assert_allclose(M[k, :7, :7], np.triu(crba) + np.triu(crba, 1).T, atol=1e-10)


def test_forward_dynamics_inverts_inverse_dynamics() -> None:
    model = ArmModel.of(ROBOT)
    phi = model.base_parameters(nominal(model))
    q, dq, ddq = np.random.default_rng(7).uniform(-2, 2, (3, 30, 8))
    tau = model.inverse_dynamics(q, dq, ddq, phi)
    np.testing.assert_allclose(model.forward_dynamics(q, dq, tau, phi), ddq, atol=1e-8)


def test_published_model_is_indefinite_at_the_known_pose() -> None:
    from dynid.model.model_file import read_model_file

    model = ArmModel.of(ROBOT)
    phi = read_model_file(ROBOT.folder / "models" / "paper.yaml").base_parameters(model)
    pose = np.deg2rad([[0, 56, 2, -124, 90, 90, 0, 0]])
    assert np.linalg.eigvalsh(model.inertia_matrix(pose, phi)[0])[0] == pytest.approx(-0.0021, abs=1e-4)
    shorter = ArmModel.of(ROBOT, lengths_m=ROBOT.file.geometry_profiles_m["paper"])
    same = BaseParameters(shorter.names, phi.values)
    assert np.linalg.eigvalsh(shorter.inertia_matrix(pose, same)[0])[0] > -1e-4


def test_nominal_links_are_physical() -> None:
    standard = nominal(ArmModel.of(ROBOT))
    for j in range(7):
        assert np.linalg.eigvalsh(pseudo_inertia(standard.link(j)))[0] > 0


def test_wrong_shapes_and_foreign_parameters_are_refused() -> None:
    model = ArmModel.of(ROBOT)
    with pytest.raises(DataError, match="states must be"):
        model.regressor(np.zeros((3, 7)), np.zeros((3, 7)), np.zeros((3, 7)))
    with pytest.raises(DataError, match="another model"):
        model.inertia_matrix(np.zeros((1, 8)), BaseParameters(("A", "B"), np.zeros(2)))
    with pytest.raises(DataError, match="finite"):
        BaseParameters(("A",), np.array([np.nan]))


def test_states_of_another_shape_are_refused_before_compiled_code_reads_them() -> None:
    model = ArmModel.of(load_robot("crane_x7"))
    narrow, wide = np.zeros((3, 6)), np.zeros((3, 8))
    for q, dq in ((narrow, narrow), (wide, wide), (np.zeros((3, 7)), np.zeros((2, 7)))):
        for function in (link_motions, standard_regressor, columns_of_last_link):
            with pytest.raises(DataError, match=r"must be \(N, 7\)"):
                function(model.mdh, q, dq, dq, model.gravity)
    q = np.zeros((3, 7))
    with pytest.raises(DataError, match=r"link parameters must be \(7, 10\)"):
        link_torques(model.mdh, q, q, q, model.gravity, np.zeros((6, 10)))
    with pytest.raises(DataError, match="parameters 0 to 69, got 3 to 70"):
        link_columns(model.mdh, q, q, q, model.gravity, np.array([3, 70]))
    with pytest.raises(DataError, match="the regressor must have 3 samples, 7 joints, 1 columns"):
        fill_link_columns(model.mdh, q, q, q, model.gravity, np.array([3]), np.zeros((3, 6, 1)))
