"""Dynamics of elastic joints against MuJoCo and manual Lagrange equations; classification of parameters."""

import numpy as np
import pytest

from dynid.errors import ConfigurationError, DataError
from dynid.identification.elastic.classification import classify, classify_structure
from dynid.identification.elastic.model import ElasticModel, ElasticStates
from dynid.identification.elastic.mujoco_arm import MujocoElasticArm
from dynid.identification.elastic.settings import load_elastic
from dynid.robot import load_robot


def elastic(name: str, gear: float | None = None) -> ElasticModel:
    robot = load_robot(name)
    file = load_elastic(robot)
    if gear is not None:
        file = file.model_copy(update={"gear_ratio": (gear,) * robot.size})
    return ElasticModel(robot, file)


def disagreement(model: ElasticModel, by: ElasticModel) -> float:
    """Largest residual [N m] of one model's equations at accelerations that MuJoCo computes from the other's."""
    rng, n = np.random.default_rng(2), model.size
    free = model.nominal.copy()
    free[model.place("FV")] = free[model.place("FC")] = 0.0
    light = free.copy()
    light[model.place("IA")] *= 0.01  # at a gear ratio of 1 a rotor would outweigh its link
    arm = MujocoElasticArm(by, light)
    worst = 0.0
    for _ in range(20):
        q, dq, dtheta = rng.uniform(-2.0, 2.0, (3, n))
        theta, tau = q + rng.uniform(-0.02, 0.02, n), rng.uniform(-20.0, 20.0, n)
        arm.set_state(q, theta, dq, dtheta)
        ddq, ddtheta = arm.accelerations(tau)
        states = ElasticStates(*(one[None] for one in (q, dq, ddq, theta, dtheta, ddtheta)))
        rows = model.regressor(states)[0] @ light
        scale = np.abs(model.regressor(states)[0] * light).max()
        worst = max(worst, float(np.abs(rows - np.concatenate([np.zeros(n), tau])).max() / scale))
    return worst


@pytest.mark.parametrize(
    ("name", "gear"), [("planar_2r_elastic", None), ("puma560", None), ("puma560", 8.0), ("puma560", -8.0)]
)
def test_equations_agree_with_mujoco(name: str, gear: float | None) -> None:
    model = elastic(name, gear)
    assert disagreement(model, model) < 1e-8


def test_rotors_that_do_not_turn_with_their_links_are_found() -> None:
    """The simplified model of elastic joints, N to infinity, is another arm than one with a gear ratio of 8."""
    assert disagreement(elastic("puma560", 1e9), elastic("puma560", 8.0)) > 1e-6


def test_two_joints_obey_manual_equations_of_motion() -> None:
    model = elastic("planar_2r_elastic")
    rng = np.random.default_rng(3)
    q, dq, ddq, dth, ddth = rng.uniform(-2, 2, (5, 2))
    th = q + 0.01
    m1, m2, a, l1, l2, g = 20.0, 10.0, 0.5, 0.25, 0.25, 9.81
    I1, I2, (J1, J2), N2 = 20 * 0.25 / 12, 10 * 0.25 / 12, (2.0, 1.0), model.file.gears[1]
    h, c = m2 * a * l2 * np.sin(q[1]), m2 * a * l2 * np.cos(q[1])
    m22 = I2 + m2 * l2**2
    m12, m11 = m22 + c, I1 + m1 * l1**2 + m22 + m2 * a**2 + 2 * c + J2 / N2**2
    weight = np.array([(m1 * l1 + m2 * a) * np.cos(q[0]), 0.0]) * g + m2 * l2 * g * np.cos(q.sum())
    links = [
        m11 * ddq[0] + m12 * ddq[1] - h * (2 * dq[0] * dq[1] + dq[1] ** 2) + J2 / N2 * ddth[1],
        m12 * ddq[0] + m22 * ddq[1] + h * dq[0] ** 2,
    ]
    K = model.file.stiffness
    links = links + weight + K * (q - th)
    motors = np.array([J1 * ddth[0], J2 * (ddth[1] + ddq[0] / N2)]) - K * (q - th)
    motors += np.array([10.0, 5.0]) * dth + np.array([8.0, 4.0]) * np.sign(dth)
    states = ElasticStates(*(one[None] for one in (q, dq, ddq, th, dth, ddth)))
    np.testing.assert_allclose(model.regressor(states)[0] @ model.nominal, [*links, *motors], rtol=1e-9)


def test_parameters_of_the_planar_arm_are_of_three_kinds() -> None:
    found = classify_structure(elastic("planar_2r_elastic"))
    kinds = found.kinds
    assert len(kinds) == 28
    # A plane's motion shows no inertia across it, no height of the centres of mass.
    hidden = {f"{kind}{j}" for kind in ("XX", "XY", "XZ", "YY", "YZ", "MZ") for j in (1, 2)} | {"M1"}
    assert {name for name, kind in kinds.items() if kind == "unidentifiable"} == hidden
    assert {"MX2", "MY2", "ZZ2", "IA1", "K1", "K2", "FV1", "FC2"} <= {k for k, v in kinds.items() if v == "independent"}
    assert kinds["M2"] == kinds["MX1"] == kinds["ZZ1"] == "dependent"
    assert any({"MX1", "M2"} <= set(found.group(name)) for name in found.names)


def test_groups_give_the_same_torques() -> None:
    model = elastic("puma560")
    found = classify_structure(model)
    rng = np.random.default_rng(5)
    states = ElasticStates(*rng.uniform(-1, 1, (6, 30, 6)))
    W = model.regressor(states)
    parameters = rng.uniform(-1, 1, len(model.names))
    np.testing.assert_allclose(W[..., list(found.kept)] @ (found.K @ parameters), W @ parameters, atol=1e-6)


def test_classification_covers_three_kinds_of_columns() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 20))
    found = classify(np.column_stack([a, 2 * b, np.zeros(20), b]), ("a", "twice", "none", "b"))
    assert found.kinds == {"a": "independent", "twice": "dependent", "none": "unidentifiable", "b": "dependent"}
    assert found.group("bR") == {"twice": 2.0, "b": 1.0}
    with pytest.raises(DataError, match="more rows"):
        classify(np.ones((2, 3)), ("a", "b", "c"))


def test_a_robot_without_elastic_joints_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"has no elastic\.yaml"):
        load_elastic(load_robot("planar_3r"))


def test_states_of_another_arm_are_refused() -> None:
    with pytest.raises(DataError, match="must be"):
        elastic("puma560").regressor(ElasticStates(*np.zeros((6, 3, 2))))
