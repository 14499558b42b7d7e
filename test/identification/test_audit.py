"""The audit against exhaustive search, closed forms and finite differences; violations and refusals."""

from dataclasses import replace

import numpy as np
import pytest
from arms import arm, auditor, nominal, published

from dynid.errors import DataError
from dynid.identification.feasibility.audit import Auditor, audit
from dynid.identification.feasibility.pose_kernels import compile_pose_kernels
from dynid.model.dynamics import ArmModel
from dynid.model.mdh import MdhChain
from dynid.model.parameters import BaseParameters
from dynid.model.standard import load_standard
from dynid.robot import FloatArray, Structure, load_robot

ROBOT = load_robot("crane_x7")
MODEL = arm("crane_x7")
PUBLISHED = published()
NOMINAL = nominal("crane_x7")
AUDITOR = auditor("crane_x7")


def random_poses(count: int, seed: int) -> FloatArray:
    q = np.random.default_rng(seed).uniform(ROBOT.audit_lower, ROBOT.audit_upper, (count, 7))
    return np.c_[q, np.zeros(count)]


def planar_arm() -> ArmModel:
    """Two parallel joints, the second 0.5 m from the first."""
    zero = np.zeros(2)
    mdh = MdhChain(zero, np.array([0.0, 0.5]), zero, zero, np.eye(4), np.tile(np.eye(4), (2, 1, 1)))
    return ArmModel(mdh, 2, Structure(), np.array([0.0, -9.81, 0.0]))


def test_the_published_model_is_not_positive_definite_with_the_real_geometry() -> None:
    result = AUDITOR.audit(PUBLISHED)
    assert result.certificate == "counterexample" and not result.passed
    assert result.lambda_min == pytest.approx(-0.00208, abs=2e-5)
    pose = np.rad2deg(result.pose)
    np.testing.assert_allclose(pose[[1, 2, 3, 4, 5]], [56.0, 1.6, -124.0, 90.0, 90.0], atol=2.0)
    # what a coarse grid says instead: all is well
    levels = [np.linspace(low, high, 3) for low, high in zip(AUDITOR.lower[1:7], AUDITOR.upper[1:7], strict=True)]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*levels)], axis=1)
    grid = np.c_[np.zeros(len(grid)), grid, np.zeros(len(grid))]
    assert np.linalg.eigvalsh(MODEL.inertia_matrix(grid, PUBLISHED)).min() > 0


@pytest.mark.slow
def test_the_published_model_is_on_the_boundary_with_the_papers_geometry() -> None:
    model = ArmModel.of(ROBOT, lengths_m={"r3": 0.24})
    phi = BaseParameters(model.names, PUBLISHED.values)
    result = audit(model, phi, ROBOT.audit_lower, ROBOT.audit_upper)
    assert result.lambda_min == pytest.approx(-1.3e-5, abs=1e-6)
    assert result.certificate == "counterexample"


def test_the_finding_is_the_eigenvalue_at_the_pose() -> None:
    for phi in (PUBLISHED, NOMINAL):
        result = AUDITOR.audit(phi)
        M = MODEL.inertia_matrix(result.pose, phi)[0]
        assert np.linalg.eigvalsh(M)[0] == pytest.approx(result.lambda_min, abs=1e-12)
        assert (result.pose >= AUDITOR.lower).all() and (result.pose <= AUDITOR.upper).all()


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.0, 1e-3, 3e-3])
def test_exhaustive_search_finds_no_lower_value(scale: float) -> None:
    rng = np.random.default_rng(11)
    q = random_poses(6000, 5)
    for _ in range(3):
        phi = NOMINAL.with_values(NOMINAL.values + scale * rng.normal(size=39))
        brute = float(np.linalg.eigvalsh(MODEL.inertia_matrix(q, phi)).min())
        assert AUDITOR.audit(phi).lambda_min <= brute + 1e-12


def test_search_finds_violations_that_a_million_samples_miss() -> None:
    """Shift the published model until only a tiny region is left below zero."""
    rotors = np.array([name.startswith(("IA", "ZZR1", "ZZR2")) for name in MODEL.names], dtype=float)
    phi = PUBLISHED.with_values(PUBLISHED.values + 0.002 * rotors)
    assert AUDITOR.audit(phi, poses=1_000_000, searches=0).certificate == "sampled"
    result = AUDITOR.audit(phi)
    assert result.certificate == "counterexample"
    assert np.linalg.eigvalsh(MODEL.inertia_matrix(result.pose, phi)).min() < 0


def test_audits_with_different_seeds_agree() -> None:
    found = [AUDITOR.audit(NOMINAL, seed=seed).lambda_min for seed in (1, 2, 3)]
    np.testing.assert_allclose(found, found[0], atol=2e-6)
    first, again = AUDITOR.audit(NOMINAL, seed=4), AUDITOR.audit(NOMINAL, seed=4)
    assert first.lambda_min == again.lambda_min and (first.pose == again.pose).all()


def test_the_audit_finds_the_closed_form_minimum_of_a_planar_arm() -> None:
    model = planar_arm()
    values = {"ZZR1": 0.2, "ZZR2": 0.05, "ZZ2": 0.05, "MX2": 0.11, "IA2": 0.01}
    phi = BaseParameters(model.names, np.array([values.get(name, 0.0) for name in model.names]))
    lower, upper = np.array([-1.0, -0.5]), np.array([1.0, 2.5])
    auditor = Auditor(model, lower, upper)
    assert auditor.free == [1]
    q2 = np.linspace(lower[1], upper[1], 20001)
    q = np.c_[0 * q2, q2]
    expected = np.linalg.eigvalsh(model.inertia_matrix(q, phi))[:, 0]
    result = auditor.audit(phi)
    assert result.lambda_min == pytest.approx(expected.min(), abs=1e-9)
    assert result.pose[1] == pytest.approx(q2[np.argmin(expected)], abs=1e-3)


@pytest.mark.slow
def test_a_richer_structure_is_audited_too() -> None:
    structure = Structure(products_of_inertia=True, coulomb_friction=True)
    model = ArmModel.of(ROBOT, structure=structure)
    phi = model.base_parameters(load_standard(ROBOT.folder / "models" / "nominal.yaml", model.mdh))
    result = audit(model, phi, ROBOT.audit_lower, ROBOT.audit_upper)
    assert len(model.names) == 65 and result.passed
    assert result.lambda_min == pytest.approx(AUDITOR.audit(NOMINAL).lambda_min, abs=1e-6)


def test_a_decoupled_axis_counts_in_the_audit() -> None:
    values = np.array(NOMINAL.values)
    values[MODEL.names.index("IA8")] = -1e-3
    assert AUDITOR.audit(NOMINAL.with_values(values)).lambda_min == pytest.approx(-1e-3, abs=1e-9)


def test_eigenvalue_slopes_equal_finite_differences() -> None:
    q = random_poses(20, 6)
    functions = AUDITOR.functions
    values, vectors = functions.smallest(q, NOMINAL.values)
    slopes = functions.slopes(q, NOMINAL.values, vectors)
    step = 1e-6
    for joint in range(7):
        ahead, behind = q.copy(), q.copy()
        ahead[:, joint] += step
        behind[:, joint] -= step
        plus, minus = (np.linalg.eigvalsh(MODEL.inertia_matrix(x, NOMINAL))[:, 0] for x in (ahead, behind))
        np.testing.assert_allclose(slopes[:, joint], (plus - minus) / (2 * step), atol=1e-9)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(MODEL.inertia_matrix(q, NOMINAL))[:, 0], atol=1e-13)


def test_margins_equal_plain_algebra_and_slopes_finite_differences() -> None:
    kernels, q, eps = compile_pose_kernels(MODEL), random_poses(101, 7), 0.001
    margin, slope = kernels.slopes(q, NOMINAL.values, eps)
    M = MODEL.inertia_matrix(q, NOMINAL) - eps * np.eye(8)
    np.testing.assert_allclose(margin, 1 / np.trace(np.linalg.inv(M), axis1=1, axis2=2), rtol=1e-9)
    np.testing.assert_allclose(margin, kernels.margins(q, NOMINAL.values, eps), rtol=1e-12)
    smallest = np.linalg.eigvalsh(M)[:, 0]
    assert (margin <= smallest + 1e-15).all() and (smallest <= 8 * margin).all()
    for joint in range(7):
        step = np.eye(8)[joint] * 1e-6
        ahead, behind = (kernels.margins(q + s, NOMINAL.values, eps) for s in (step, -step))
        np.testing.assert_allclose(slope[:, joint], (ahead - behind) / 2e-6, atol=1e-9)


def test_the_sign_of_the_margin_is_that_of_the_eigenvalue() -> None:
    q = random_poses(500, 8)
    smallest = np.linalg.eigvalsh(MODEL.inertia_matrix(q, PUBLISHED))[:, 0]
    for eps in np.quantile(smallest, [0.1, 0.5, 0.9]):
        margin = AUDITOR.kernels.margins(q, PUBLISHED.values, float(eps))
        np.testing.assert_array_equal(margin > 0, smallest > eps)


def test_cuts_equal_the_quadratic_form_of_the_regressor() -> None:
    q, v = random_poses(7, 9), np.random.default_rng(10).normal(size=(7, 8))
    expected = np.einsum("na,nabp,nb->np", v, MODEL.inertia_regressor(q), v)
    np.testing.assert_allclose(AUDITOR.functions.cuts(q, v), expected, atol=1e-12)


def test_the_limit_decides_the_audit_and_wrong_inputs_are_refused() -> None:
    assert AUDITOR.audit(NOMINAL, limit=1e-4).passed
    beyond = AUDITOR.audit(NOMINAL, limit=0.02)
    assert not beyond.passed and beyond.certificate == "counterexample" and len(beyond.worst_poses) > 1
    assert (np.linalg.eigvalsh(MODEL.inertia_matrix(beyond.worst_poses, NOMINAL))[:, 0] < 0.02).all()
    with pytest.raises(DataError, match="ordered pairs"):
        Auditor(MODEL, ROBOT.audit_upper, ROBOT.audit_lower)
    with pytest.raises(DataError, match="7 ordered pairs"):
        Auditor(MODEL, ROBOT.audit_lower[:3], ROBOT.audit_upper[:3])
    with pytest.raises(DataError, match="another model"):
        AUDITOR.audit(replace(NOMINAL, names=NOMINAL.names[::-1]))
    with pytest.raises(DataError, match="rad"):
        Auditor(MODEL, ROBOT.audit_lower * 3, ROBOT.audit_upper * 3).audit(NOMINAL)
