"""Springs in the equations of motion, against an arm without them and differences of their potential."""

import numpy as np
import pytest
import yaml
from arms import arm
from spring_arms import ELBOW, SHOULDER, SPRINGS, plain_arm, potential, spring_arm, spring_torques

from dynid.codegen.compile import compile_inverse_dynamics
from dynid.control.dynamics_kernel import compile_single
from dynid.control.equation_terms import compile_terms
from dynid.errors import ConfigurationError, DataError
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.friction import FrictionLaw
from dynid.model.model_file import ModelFile, parameter_rows, read_model_file, save_model
from dynid.model.parameters import BaseParameters
from dynid.model.springs import refuse_springs, without_springs
from dynid.model.standard import from_file, load_nominal, springs_of, to_file
from dynid.robot import FloatArray
from dynid.robot.file import RobotFile
from dynid.runtime.model import Model
from dynid.simulation.plant.arm import plant_standard

ROBOT, PLAIN = spring_arm(), ArmModel.of(plain_arm())
ARM = ArmModel.of(ROBOT)
PHI = ARM.base_parameters(load_nominal(ROBOT, ARM.mdh, ARM.regrouping.standard))
PLAIN_PHI = PLAIN.base_parameters(load_nominal(plain_arm(), PLAIN.mdh, PLAIN.regrouping.standard))
NAMES = ("KS0_2", "KS1_2", "KS3_2", "KS1_3")
EXACT, BY_DIFFERENCES = 1e-9, 1e-6  # N m


def states(count: int = 30) -> FloatArray:
    """q, dq and ddq, (3, count, 3) [rad, rad/s, rad/s^2]."""
    return np.asarray(np.random.default_rng(5).uniform(-1.5, 1.5, (3, count, 3)))


def expected(q: FloatArray, dq: FloatArray, ddq: FloatArray) -> FloatArray:
    """Return the torques of the arm without springs plus the gradient of the potential, (N, 3) [N m]."""
    return np.asarray(PLAIN.inverse_dynamics(q, dq, ddq, PLAIN_PHI) + spring_torques(q))


def test_coefficients_are_parameters_behind_those_of_the_plain_arm() -> None:
    assert ARM.names == (*PLAIN.names, *NAMES)
    assert [ARM.unit(name) for name in NAMES] == ["N*m", "N*m/rad", "N*m/rad^3", "N*m/rad"]
    assert [PHI[name] for name in NAMES] == [4.0, 35.0, -6.0, 20.0]
    assert parameter_rows(ARM, PHI)[-2].grouping == "(q2 + 1.0472)^3"
    assert ARM.regrouping.method == PLAIN.regrouping.method
    assert ARM.structure_hash != PLAIN.structure_hash
    assert ArmModel.of(without_springs(ROBOT)).structure_hash == PLAIN.structure_hash


def test_structure_hash_depends_on_where_positions_count_from() -> None:
    content = ROBOT.file.model_dump()
    content["springs"][0]["about_deg"] += 1.0
    other = ArmModel.of(type(ROBOT)(RobotFile.model_validate(content), ROBOT.folder))
    assert other.names == ARM.names and other.structure_hash != ARM.structure_hash


def test_torque_is_the_plain_arms_and_the_gradient_of_the_potential() -> None:
    q, dq, ddq = states()
    tau = ARM.inverse_dynamics(q, dq, ddq, PHI)
    np.testing.assert_allclose(tau, expected(q, dq, ddq), atol=BY_DIFFERENCES)
    np.testing.assert_allclose(ARM.regressor(q, dq, ddq) @ PHI.values, tau, atol=EXACT)
    standard = load_nominal(ROBOT, ARM.mdh, ARM.regrouping.standard)
    np.testing.assert_allclose(ARM.standard_regressor(q, dq, ddq) @ standard.values, tau, atol=EXACT)
    np.testing.assert_allclose(ARM.forward_dynamics(q, dq, tau, PHI), ddq, atol=1e-8)
    np.testing.assert_allclose(ARM.inertia_matrix(q, PHI), PLAIN.inertia_matrix(q, PLAIN_PHI), atol=EXACT)


def test_stiffness_is_the_second_derivative_of_the_potential() -> None:
    q, still, step = states()[0], np.zeros((30, 3)), 1e-3
    for axis in (SHOULDER, ELBOW):
        moved = step * np.eye(3)[axis]
        slope = [
            (arm_.inverse_dynamics(q + moved, still, still, phi) - arm_.inverse_dynamics(q - moved, still, still, phi))
            / (2.0 * step)
            for arm_, phi in ((ARM, PHI), (PLAIN, PLAIN_PHI))
        ]
        curved = (potential(q + moved, axis) - 2.0 * potential(q, axis) + potential(q - moved, axis)) / step**2
        np.testing.assert_allclose((slope[0] - slope[1])[:, axis], curved, atol=1e-3)
        assert np.abs(curved).min() > 1.0


@pytest.mark.slow
def test_generated_kernels_have_the_springs() -> None:
    q, dq, ddq = states(8)
    law = of_kinds(PHI, ("FC",), others=True)
    tau = ARM.inverse_dynamics(q, dq, ddq, law)
    np.testing.assert_allclose(compile_inverse_dynamics(ARM)(q, dq, ddq, law), tau, atol=EXACT)
    single = compile_single(ARM)
    np.testing.assert_allclose(single(q[0], dq[0], ddq[0], law.values), tau[0], atol=EXACT)
    inertia, rigid, bias = np.zeros((3, 3)), np.zeros(3), np.zeros(3)
    compile_terms(single)(q[0], dq[0], law.values, inertia, rigid, bias)
    load = ARM.inverse_dynamics(q[:1], dq[:1], 0.0 * q[:1], of_kinds(PHI, KINDS, others=True))[0]
    np.testing.assert_allclose(rigid, load, atol=EXACT)
    np.testing.assert_allclose(bias, tau[0] - inertia @ ddq[0], atol=EXACT)


def test_prediction_includes_springs_that_load_the_gears() -> None:
    q, dq, ddq = states()
    law = FrictionLaw.of(3, {"fb": 0.5, "ke": 0.2})
    links = of_kinds(PHI, ("FV", "FC"), others=True)
    model = Model(ROBOT, links, law)
    without = of_kinds(PLAIN_PHI, ("FV", "FC"), others=True)
    wanted, bias = (PLAIN.inverse_dynamics(q, dq, a, without) + spring_torques(q) for a in (ddq, 0.0 * ddq))
    np.testing.assert_allclose(model.torques(q, dq, ddq), law.motor_torque(dq, wanted, -bias), atol=1e-5)
    still = 0.0 * q
    held = PLAIN.inverse_dynamics(q, still, still, without) + spring_torques(q)
    np.testing.assert_allclose(model.gravity(q), held, atol=BY_DIFFERENCES)


def test_files_hold_springs_and_former_files_load(tmp_path) -> None:
    content = plant_standard(ROBOT)
    assert content.axes[ELBOW].spring_coefficients == {1: 20.0} and content.axes[0].spring_coefficients is None
    standard = from_file(content, ARM.mdh)
    again = to_file(standard, ARM.mdh, ROBOT.name, ROBOT.joint_names, "test")
    assert again.axes == content.axes
    rows = parameter_rows(ARM, PHI)
    file = ModelFile(robot=ROBOT.name, structure_hash=ARM.structure_hash, parameters=rows, standard=again)
    save_model(tmp_path / "model.yaml", file)
    loaded = read_model_file(tmp_path / "model.yaml")
    assert loaded == file and loaded.base_parameters(ARM)["KS3_2"] == -6.0
    assert np.array_equal(loaded.standard_parameters(ARM).values, standard.values)
    # as written before there were springs
    former = yaml.safe_load((tmp_path / "model.yaml").read_text())
    former["structure_hash"] = PLAIN.structure_hash
    former["parameters"] = [row for row in former["parameters"] if not row["name"].startswith("KS")]
    for axis in former["standard"]["axes"]:
        del axis["spring_coefficients"]
    old = ModelFile.model_validate(former)
    assert old.base_parameters(PLAIN).names == PLAIN.names
    assert old.standard_parameters(PLAIN).names == PLAIN.regrouping.standard
    with pytest.raises(DataError, match=r"lacks KS0_2, KS1_2, KS1_3, KS3_2, which springs in robot\.yaml declare"):
        old.base_parameters(ARM)


def test_standard_parameters_without_the_declared_coefficients_are_refused() -> None:
    content = plant_standard(ROBOT)
    axes = tuple(axis.model_copy(update={"spring_coefficients": None}) for axis in content.axes)
    with pytest.raises(ConfigurationError, match=r"joint_2 for no power, and springs .* declare 0, 1, 3"):
        springs_of(ROBOT, content.model_copy(update={"axes": axes}))
    with pytest.raises(ConfigurationError, match="declare none"):
        springs_of(plain_arm(), content)
    with pytest.raises(DataError, match="KS0_2, KS1_2, KS3_2, KS1_3, which the robot's structure and springs"):
        from_file(content, ARM.mdh, PLAIN.regrouping.standard)


@pytest.mark.parametrize(
    ("springs", "words"),
    [
        ([{"joint": "joint_9", "powers": [1]}], "'joint_9' is no chain joint"),
        ([{"joint": "joint_2", "powers": [1]}, {"joint": "joint_2", "powers": [2]}], "'joint_2' has 2; list all"),
        ([{"joint": "joint_2", "powers": [1, 1]}], "powers of 'joint_2' are"),
        ([{"joint": "joint_2", "powers": [7]}], "powers"),
        ([{"joint": "joint_2", "powers": []}], "powers"),
    ],
)
def test_springs_that_no_model_can_have_are_refused(springs: list[dict[str, object]], words: str) -> None:
    content = ROBOT.file.model_dump() | {"springs": springs}
    with pytest.raises(ValueError, match=words):
        RobotFile.model_validate(content)


def test_a_constant_torque_is_stated_once() -> None:
    content = ROBOT.file.model_dump()
    content["structure"]["friction_offset"] = True
    with pytest.raises(ValueError, match="power 0 of 'joint_2' is the friction_offset"):
        RobotFile.model_validate(content)


def test_a_sliding_joints_spring_counts_from_zero() -> None:
    content = ROBOT.file.model_dump()
    content["joints"] = [dict(joint) for joint in content["joints"]]
    content["joints"][1] |= {"lower_deg": None, "upper_deg": None, "lower_m": -1.0, "upper_m": 1.0}
    content["joints"][1] |= {"velocity_limit_rad_s": None, "velocity_limit_m_s": 1.0}
    content["rest_posture_deg"] = None
    with pytest.raises(ValueError, match="'joint_2' slides, so about_deg must be 0"):
        RobotFile.model_validate(content)


def test_kr300_has_the_spring_of_its_counterbalance() -> None:
    model = arm("kr300")
    assert model.names[-1] == "KS1_2"
    q = np.random.default_rng(0).uniform(-1.0, 1.0, (5, 6))
    W = model.regressor(q, 0.0 * q, 0.0 * q)
    np.testing.assert_allclose(W[:, 1, -1], q[:, 1] + 0.5 * np.pi)
    assert not np.delete(W[:, :, -1], 1, axis=1).any()


def test_methods_without_springs_refuse_them() -> None:
    with pytest.raises(ConfigurationError, match=r"a method cannot take springs into account.*joint_2, joint_3"):
        refuse_springs(ROBOT, "a method")
    refuse_springs(plain_arm(), "a method")


def test_a_spring_splits_into_its_linear_part_and_the_rest() -> None:
    shoulder, elbow = springs_of(ROBOT, plant_standard(ROBOT))
    assert elbow.linear() == (20.0, np.deg2rad(40.0)) and elbow.beyond_linear() is None
    stiffness, rest = shoulder.linear()
    beyond = shoulder.beyond_linear()
    q = np.linspace(-2.0, 2.0, 9)
    assert beyond is not None and beyond.coefficients == ((3, -6.0),)
    np.testing.assert_allclose(stiffness * (q - rest) + beyond.torque(q), shoulder.torque(q), atol=1e-12)
    assert shoulder.words("joint_2") == (
        "joint_2: 4 N m + 35 N m/rad (q + 1.0472 rad) + -6 N m/rad^3 (q + 1.0472 rad)^3"
    )
    assert SPRINGS[ELBOW][1] == dict(elbow.coefficients)


def test_values_of_another_order_are_refused() -> None:
    with pytest.raises(DataError, match="another model"):
        PLAIN.values_of(PHI)
    assert isinstance(PHI, BaseParameters)
