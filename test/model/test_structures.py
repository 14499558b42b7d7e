"""Prismatic joints, parallel axes, coupled motors and friction terms, against pinocchio and by virtual work."""

import numpy as np
import pinocchio
import pytest
from compiled_arm import compile_forward_dynamics, compile_inertia_matrix

from dynid.codegen.compile import compile_inverse_dynamics, compile_regressor
from dynid.model.base_parameters import Regrouping
from dynid.model.chain import SerialChain, pinocchio_chain_model
from dynid.model.drive import DriveTerms
from dynid.model.dynamics import ArmModel
from dynid.model.mdh import derive_mdh
from dynid.model.numerical_regrouping import grouping, independent_columns, is_zero_column
from dynid.model.parameters import BaseParameters
from dynid.model.standard import LinkInertia, from_link_frame
from dynid.robot import FloatArray, Stribeck, Structure

FULL = Structure(products_of_inertia=True, coulomb_friction=True)
GRAVITY = np.array([0.0, 0.0, -9.81])


def chain(kinds: str, *, parallel: bool = False) -> SerialChain:
    """A chain of revolute (r) and prismatic (p) joints, skew or with parallel axes."""
    rng = np.random.default_rng(len(kinds) + 10 * kinds.count("p"))
    text = '<robot name="t"><link name="l0"/>'
    for k, kind in enumerate(kinds):
        xyz, rpy = (
            (f"{0.3 * (k > 0)} 0 0", "0 0 0") if parallel else (" ".join(map(str, rng.uniform(-0.3, 0.3, 3))),) * 2
        )
        name = {"r": "revolute", "p": "prismatic"}[kind]
        text += (
            f'<link name="l{k + 1}"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" '
            f'izz="1"/></inertial></link><joint name="j{k}" type="{name}"><parent link="l{k}"/><child link="l{k + 1}"/>'
            f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="0 0 1"/>'
            f'<limit lower="-3" upper="3" effort="1" velocity="1"/></joint>'
        )
    return SerialChain(pinocchio_chain_model(text + "</robot>", tuple(f"j{k}" for k in range(len(kinds)))))


def arm(kinds: str, *, parallel: bool = False, gravity: FloatArray = GRAVITY, structure: Structure = FULL) -> ArmModel:
    return ArmModel(derive_mdh(chain(kinds, parallel=parallel)), len(kinds), structure, gravity)


def bodies(count: int) -> list[LinkInertia]:
    rng = np.random.default_rng(count)
    made = []
    for _ in range(count):
        root = rng.uniform(-0.3, 0.3, (3, 3))
        made.append(LinkInertia(rng.uniform(0.5, 3.0), rng.uniform(-0.2, 0.2, 3), root @ root.T + 0.1 * np.eye(3)))
    return made


def links_of(model: ArmModel) -> FloatArray:
    """Standard parameters (s,) of random bodies without drives."""
    parts = [from_link_frame(body, model.mdh.in_link[j]) for j, body in enumerate(bodies(model.chain_size))]
    return np.concatenate([*parts, np.zeros(len(model.regrouping.standard) - 10 * model.chain_size)])


@pytest.mark.parametrize("parallel", [False, True], ids=["skew", "parallel"])
@pytest.mark.parametrize("kinds", ["rrr", "prr", "rpr", "rrp", "ppp", "rprp"])
def test_torques_equal_those_of_pinocchio(kinds: str, parallel: bool) -> None:
    serial, model = chain(kinds, parallel=parallel), arm(kinds, parallel=parallel)
    reference = serial.model.copy()
    for j, body in enumerate(bodies(len(kinds))):
        reference.inertias[j + 1] = pinocchio.Inertia(body.mass, body.centre_of_mass, body.inertia)
    reference.gravity.linear = np.array(GRAVITY)
    data = reference.createData()
    phi = BaseParameters(model.names, model.regrouping.K @ links_of(model))
    q, dq, ddq = np.random.default_rng(1).uniform(-2, 2, (3, 40, len(kinds)))
    tau = model.inverse_dynamics(q, dq, ddq, phi)
    M = model.inertia_matrix(q, phi)
    for k in range(40):
        np.testing.assert_allclose(tau[k], pinocchio.rnea(reference, data, q[k], dq[k], ddq[k]), atol=1e-9)
        upper = np.triu(pinocchio.crba(reference, data, q[k]))
        np.testing.assert_allclose(M[k], upper + np.triu(upper, 1).T, atol=1e-9)


@pytest.mark.parametrize("kinds", ["rrr", "prr", "rprp"])
def test_base_columns_are_independent_and_complete(kinds: str) -> None:
    for parallel in (False, True):
        for gravity in (GRAVITY, np.array([9.81, 0.0, 0.0])):
            model = arm(kinds, parallel=parallel, gravity=gravity)
            W = model.regressor(*np.random.default_rng(2).uniform(-2, 2, (3, 200, len(kinds)))).reshape(
                -1, len(model.names)
            )
            singular = np.linalg.svd(W, compute_uv=False)
            assert singular[-1] > 1e-5 * singular[0]
            assert model.regrouping.K.shape[0] == len(model.names)


def test_the_numerical_groups_are_the_closed_forms() -> None:
    """Where both ways apply they give the same groups; where the closed form does not, the numerical way is taken."""
    from dynid.model import base_parameters

    model = arm("rrrr")
    assert model.regrouping.method == "closed form"
    W = base_parameters._sampled_regressor(model.mdh, model.drive, model.gravity)
    usable = list(range(W.shape[1]))
    order = base_parameters._preference(model.regrouping.standard, usable, 40)
    rows = base_parameters._numerical(W, usable, sorted(independent_columns(W, order)))
    assert tuple(k for k, _ in rows) == model.regrouping.representatives
    np.testing.assert_allclose([row for _, row in rows], model.regrouping.K, atol=1e-9)
    assert arm("rpr").regrouping.method == "numerical"
    # the recursion puts masses into products of inertia, which this structure has not
    assert arm("rrr", structure=Structure()).regrouping.method == "numerical"


def test_the_planar_arm_has_the_textbook_groups() -> None:
    """Three parallel axes, gravity across them (Khalil and Dombre, planar arm): the mass beyond pulls at each link."""
    planar: Regrouping = arm("rrr", parallel=True, gravity=np.array([0.0, -9.81, 0.0])).regrouping
    links = [name for name in planar.names if name[0] not in "IF"]
    assert links == ["ZZR1", "MXR1", "MY1", "ZZR2", "MXR2", "MY2", "ZZ3", "MX3", "MY3"]
    assert planar.formula("MXR1") == "MXR1 = MX1 + 0.3 M2 + 0.3 M3"
    assert planar.formula("ZZR1") == "ZZR1 = ZZ1 + 0.09 M2 + 0.09 M3 + IA1"
    # without gravity in the plane the first link's moments reach no torque
    assert "MX1" not in " ".join(arm("rrr", parallel=True).regrouping.names)


def test_a_column_that_is_zero_to_rounding_is_not_independent() -> None:
    rng = np.random.default_rng(3)
    W = rng.normal(size=(50, 3))
    W = np.column_stack([W, 1e-14 * rng.normal(size=50), W[:, 0] - 2 * W[:, 1]])
    assert list(is_zero_column(W)) == [False, False, False, True, False]
    assert independent_columns(W, [0, 1, 2, 3, 4]) == [0, 1, 2]
    assert independent_columns(W, [4, 3, 2, 1, 0]) == [4, 2, 1]
    np.testing.assert_array_equal(grouping(W[:, :3], W), [[1, 0, 0, 0, 1], [0, 1, 0, 0, -2], [0, 0, 1, 0, 0]])


# -- drives ----------------------------------------------------------------------------------------------------

COUPLING = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 1.0]])
DRIVEN = Structure(
    products_of_inertia=True, coulomb_friction=True, friction_offset=True, stribeck=Stribeck(velocity_rad_s=0.3)
)


def coupled_arm(kinds: str = "rrr") -> ArmModel:
    return ArmModel(derive_mdh(chain(kinds)), len(kinds), DRIVEN, GRAVITY, COUPLING)


def test_coupled_motors_obey_virtual_work() -> None:
    """Motor 3 turns with q3 + q2 / 2: its kinetic energy and its losses are those of that speed."""
    drive = coupled_arm().drive
    assert drive.coupled == (2,) and {"FVM3", "FCM3"} <= set(drive.standard_names)
    assert not {"FVM1", "FCM1"} & set(drive.standard_names)
    rng = np.random.default_rng(4)
    dq, ddq = rng.normal(size=(2, 20, 3))
    names = ("IA3", "FVM3", "FCM3", "FV3")
    power = np.einsum("ni,nik->nk", dq, drive.columns(names, 0.0 * dq, dq, ddq))
    motor, acceleration = dq[:, 2] + 0.5 * dq[:, 1], ddq[:, 2] + 0.5 * ddq[:, 1]
    expected = np.stack([motor * acceleration, motor**2, np.abs(motor), dq[:, 2] ** 2], axis=1)
    np.testing.assert_allclose(power, expected, atol=1e-12)
    rotors = np.array([1.0, 2.0, 3.0])
    torque = drive.columns(("IA1", "IA2", "IA3"), 0.0 * dq, dq, ddq) @ rotors
    np.testing.assert_allclose(torque, ddq @ drive.inertia(rotors), atol=1e-12)


def test_friction_terms_have_their_shapes() -> None:
    drive = DriveTerms.of(2, DRIVEN)
    dq = np.array([[0.3, -0.3], [30.0, 0.0]])
    W = drive.columns(("FC1", "FC2", "OF2", "FS1", "FS2", "FV2"), 0.0 * dq, dq, np.zeros((2, 2)))
    e = np.exp(-1.0)
    np.testing.assert_allclose(W[0], [[1, 0, 0, e, 0, 0], [0, -1, 1, 0, -e, -0.3]], atol=1e-12)
    np.testing.assert_allclose(W[1], [[1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]], atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", ["rrr", "prp"])
def test_kernels_are_the_reference_model(kinds: str) -> None:
    model = coupled_arm(kinds)
    rng = np.random.default_rng(5)
    values = links_of(model)
    values[10 * model.chain_size :] = rng.uniform(0.1, 0.5, len(values) - 10 * model.chain_size)
    phi = BaseParameters(model.names, model.regrouping.K @ values)
    q, dq, ddq = rng.uniform(-2, 2, (3, 33, 3))
    W, tau = model.regressor(q, dq, ddq), model.inverse_dynamics(q, dq, ddq, phi)
    np.testing.assert_allclose(W @ phi.values, tau)
    np.testing.assert_allclose(compile_regressor(model)(q, dq, ddq), W, atol=1e-10)
    np.testing.assert_allclose(compile_inverse_dynamics(model)(q, dq, ddq, phi), tau, atol=1e-10)
    M = model.inertia_matrix(q, phi)
    np.testing.assert_allclose(compile_inertia_matrix(model)(q, phi), M, atol=1e-10)
    np.testing.assert_allclose(compile_forward_dynamics(model)(q, dq, tau, phi), ddq, atol=1e-8)
    np.testing.assert_allclose(model.forward_dynamics(q, dq, tau, phi), ddq, atol=1e-8)
    # M is how the torques change with the accelerations
    for j in range(3):
        step = ddq + np.eye(3)[j]
        np.testing.assert_allclose(M[:, :, j], model.inverse_dynamics(q, dq, step, phi) - tau, atol=1e-9)


def test_units_of_prismatic_axes_are_those_of_forces() -> None:
    model = arm("rp", structure=DRIVEN)
    units = {name: model.unit(name) for name in ("IA1", "IA2", "FV1", "FV2", "FC2", "OF1", "OF2", "FS2", "ZZR1", "M2")}
    assert units == {
        "IA1": "kg*m^2",
        "IA2": "kg",
        "FV1": "N*m*s/rad",
        "FV2": "N*s/m",
        "FC2": "N",
        "OF1": "N*m",
        "OF2": "N",
        "FS2": "N",
        "ZZR1": "kg*m^2",
        "M2": "kg",
    }
    assert model.unit("MX2") == "kg*m" and model.unit("IAR2") == "kg"


def test_hash_covers_all_inputs_of_the_torques() -> None:
    plain = arm("rrr", structure=DRIVEN)
    other = DRIVEN.model_copy(update={"stribeck": Stribeck(velocity_rad_s=0.2)})
    hashes = {plain.structure_hash, coupled_arm().structure_hash, arm("rrr", structure=other).structure_hash}
    assert len(hashes) == 3
