"""`Model`: compiled calls against the readable reference, for one or many states, and refusals."""

import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio
import pytest
from benchmarks.speed.known_models import LAWS, ROBOTS, known_model, random_states, reference_load, reference_torques
from geared_arms import variant
from spring_arms import spring_arm

from dynid.errors import DataError
from dynid.model.drive import KINDS, of_kinds
from dynid.model.dynamics import ArmModel
from dynid.model.parameters import BaseParameters
from dynid.robot import Robot, load_robot
from dynid.runtime import programs
from dynid.runtime.model import Model

EXACT = 1e-9
CRANE = known_model("crane_x7")
Q, DQ, DDQ = random_states(8, 40)


def close(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare with `EXACT` of the largest value, or absolutely where that is below 1."""
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=EXACT * max(1.0, float(np.abs(expected).max())), rtol=0.0)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("robot", ROBOTS)
def test_calls_equal_the_reference(robot: str, law: str) -> None:
    model = known_model(robot, law)
    compare(model)


def compare(model: Model) -> None:
    """All calls of a model against `ArmModel` at random states."""
    arm, beside = model.arm(), model.friction_law
    q, dq, ddq = random_states(model.robot.size, 60, seed=1)
    still = 0.0 * q
    tau = model.torques(q, dq, ddq)
    close(tau, reference_torques(model, q, dq, ddq))
    close(model.gravity(q), arm.inverse_dynamics(q, still, still, model.base))
    close(model.inertia_matrix(q), arm.inertia_matrix(q, model.base))
    assert beside is not None
    lost = beside.torque(dq, tau, reference_load(model, q, dq))
    close(model.forward_dynamics(q, dq, tau), arm.forward_dynamics(q, dq, tau - lost, model.base))
    np.testing.assert_allclose(np.median(np.abs(model.forward_dynamics(q, dq, tau) - ddq)), 0.0, atol=EXACT)
    links = arm.inverse_dynamics(q, dq, still, of_kinds(model.base, KINDS, others=True))
    carried = arm.inverse_dynamics(q, dq, still, model.base)
    own = carried - links  # friction and offsets among the base parameters
    at_load = beside.motor_torque(dq, carried, reference_load(model, q, dq)) - links
    close(model.friction(dq, links), at_load)
    assert np.abs(at_load - own).max() > 0.05


@pytest.fixture
def coupled(tmp_path: Path) -> Robot:
    """An arm of which one motor turns with two joints."""
    return variant("coupled", tmp_path)


def test_springs_and_coupled_motors_count_as_in_the_reference(coupled: Robot) -> None:
    for robot in (spring_arm(), coupled):
        compare(known_model(robot))


def test_coupled_coulomb_friction_counts_once(coupled: Robot) -> None:
    structure = coupled.file.structure.model_copy(update={"coulomb_friction": True, "friction_offset": True})
    robot = Robot(coupled.file.model_copy(update={"structure": structure}), coupled.folder)
    arm = ArmModel.of(robot)
    assert any(name.startswith("FCM") for name in arm.names) and any(name.startswith("OF") for name in arm.names)
    values = np.linspace(0.2, 1.0, len(arm.names))
    model = Model(robot, BaseParameters(arm.names, values))
    q, dq, ddq = random_states(robot.size, 20, seed=2)
    close(model.torques(q, dq, ddq), reference_torques(model, q, dq, ddq))
    close(model.gravity(q), arm.inverse_dynamics(q, 0.0 * q, 0.0 * q, model.base))


def test_one_state_equals_a_row_of_many() -> None:
    one = CRANE.torques(Q[3], DQ[3], DDQ[3])
    assert one.shape == (8,)
    np.testing.assert_array_equal(one, CRANE.torques(Q, DQ, DDQ)[3])
    assert CRANE.inertia_matrix(Q[0]).shape == (8, 8) and CRANE.inertia_matrix(Q).shape == (40, 8, 8)
    assert CRANE.jacobian(Q[0]).shape == (6, 8) and CRANE.jacobian(Q).shape == (40, 6, 8)
    assert CRANE.coriolis(Q[0], DQ[0]).shape == (8, 8)
    assert CRANE.friction(DQ[0], DQ[0]).shape == (8,) and CRANE.forward_dynamics(Q[0], DQ[0], DQ[0]).shape == (8,)
    listed = CRANE.torques(Q[3].tolist(), DQ[3].tolist(), DDQ[3].tolist())  # type: ignore[arg-type]
    np.testing.assert_array_equal(listed, one)


def test_angles_of_any_size_are_the_same_pose() -> None:
    turns = 2.0 * np.pi * np.array([0, 1, -2, 3, -4, 5, 100, 0])
    np.testing.assert_allclose(CRANE.torques(Q + turns, DQ, DDQ), CRANE.torques(Q, DQ, DDQ), atol=1e-10)


@pytest.mark.parametrize("robot", ["crane_x7", "serial_9dof"])
def test_coriolis_matrix_gives_torques_and_is_skew_with_the_rate_of_inertia(robot: str) -> None:
    model = known_model(robot)
    q, dq, _ = random_states(model.robot.size, 20, seed=3)
    C = model.coriolis(q, dq)
    links = of_kinds(model.base, KINDS, others=True)
    moving = model.arm().inverse_dynamics(q, dq, 0.0 * q, links)
    resting = model.arm().inverse_dynamics(q, 0.0 * q, 0.0 * q, links)
    close(np.einsum("nij,nj->ni", C, dq), moving - resting)
    h = 1e-6
    rate = (model.inertia_matrix(q + h * dq) - model.inertia_matrix(q - h * dq)) / (2.0 * h)
    left = rate - 2.0 * C
    np.testing.assert_allclose(left + np.swapaxes(left, 1, 2), 0.0, atol=1e-7)


def test_the_jacobian_of_another_last_frame_is_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arm's equations of motion are the same, and so is its key; the tool's place is not."""
    names: list[str] = []
    monkeypatch.setattr(programs, "load_programs", lambda name, *_: names.append(name))
    own = ArmModel.of(load_robot("crane_x7")).mdh.in_link
    turned = [*own[:-1], own[-1] @ np.diag([-1.0, -1.0, 1.0, 1.0])]
    for frames in (own, own, turned):
        arm: Any = SimpleNamespace(mdh=SimpleNamespace(in_link=frames))
        programs.load_jacobian(arm, np.array([0.1, 0.0, 0.05]))
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize("robot", ["crane_x7", "serial_9dof"])
def test_jacobian_is_the_derivative_of_the_tool(robot: str) -> None:
    model = known_model(robot)
    tool = (0.03, -0.02, 0.2)
    file = model.robot.file.model_copy(update={"tool_m": tool})
    model = replace(model, robot=Robot(file, model.robot.folder))
    arm, c, h = model.arm(), model.robot.chain_size, 1e-6
    q = random_states(model.robot.size, 1, seed=4)[0][0]

    def placed(position: np.ndarray) -> np.ndarray:
        return np.asarray(arm.mdh.placements(position[:c])[-1] @ np.linalg.inv(arm.mdh.in_link[-1]))

    J = model.jacobian(q)
    assert not J[:, c:].any()
    for j in range(c):
        step = h * np.eye(model.robot.size)[j]
        by_j = (placed(q + step) - placed(q - step)) / (2.0 * h)
        turn = by_j[:3, :3] @ placed(q)[:3, :3].T
        np.testing.assert_allclose(J[:3, j], (by_j @ [*tool, 1.0])[:3], atol=1e-8)
        np.testing.assert_allclose(J[3:, j], [turn[2, 1], turn[0, 2], turn[1, 0]], atol=1e-8)


def test_model_prints_in_a_line_and_survives_a_pickle() -> None:
    assert repr(CRANE).startswith("Model(crane_x7, accepted, 39 base parameters, friction FV FC FA OF FS KM")
    assert len(repr(CRANE)) < 160
    CRANE.gravity(Q)
    again = pickle.loads(pickle.dumps(CRANE))
    np.testing.assert_array_equal(again.torques(Q, DQ, DDQ), CRANE.torques(Q, DQ, DDQ))


def test_intervals_hold_parameters_and_friction_with_deviations() -> None:
    with pytest.raises(DataError, match="has no standard deviations"):
        CRANE.intervals()
    sd = np.linspace(0.1, 0.2, len(CRANE.base.names))
    law = CRANE.friction_law
    assert law is not None
    known = np.full_like(law.values, np.nan)
    known[1, 2] = 0.01
    base = BaseParameters(CRANE.base.names, CRANE.base.values, np.diag(sd**2))
    model = replace(CRANE, base=base, friction_law=replace(law, deviations=known))
    found = model.intervals()
    assert set(found) == {*base.names, "FC3"}
    low, high = found[base.names[4]]
    assert high - low == pytest.approx(2.0 * 1.959964 * sd[4]) and low + high == pytest.approx(2.0 * base.values[4])
    assert model.intervals(0.5)["FC3"][1] < found["FC3"][1]
    with pytest.raises(DataError, match=r"level of intervals is 95; expected a probability"):
        model.intervals(95)


def test_pinocchio_plus_friction_gives_the_torques() -> None:
    made, c = CRANE.pinocchio(), CRANE.robot.chain_size
    data = made.createData()
    base = [
        0.0 if name[:2] in ("FV", "FC") else value
        for name, value in zip(CRANE.base.names, CRANE.base.values, strict=True)
    ]
    smooth = Model(CRANE.robot, CRANE.base.with_values(np.array(base)), standard=CRANE.standard)
    found = np.array([pinocchio.rnea(made, data, *(one[:c] for one in row)) for row in zip(Q, DQ, DDQ, strict=True)])
    np.testing.assert_allclose(found, smooth.torques(Q, DQ, DDQ)[:, :c], atol=1e-6)
    resting = np.array([pinocchio.computeGeneralizedGravity(made, data, q[:c]) for q in Q])
    beside = CRANE.friction(DQ, CRANE.gravity(Q))
    np.testing.assert_allclose(resting + beside[:, :c], (CRANE.gravity(Q) + beside)[:, :c], atol=1e-6)
    with pytest.raises(DataError, match="holds base parameters only"):
        replace(CRANE, standard=None).pinocchio()


def test_pinocchio_of_coupled_rotors_or_other_lengths_is_refused(coupled: Robot) -> None:
    model = known_model(coupled)
    assert model.standard is not None
    values = np.array(model.standard.values)
    values[model.standard.names.index("IA3")] = 0.1
    with pytest.raises(DataError, match="move several joints"):
        replace(model, standard=replace(model.standard, values=values)).pinocchio()
    with pytest.raises(DataError, match="replaces the lengths r3"):
        replace(CRANE, lengths_m={"r3": 0.24}).pinocchio()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((Q, DQ[:3], DDQ), r"shapes \(40, 8\), \(3, 8\), \(40, 8\); expected \(8,\) or \(N, 8\) each"),
        ((Q[:, :7],) * 3, r"expected \(8,\) or \(N, 8\)"),
        ((Q, DQ[0], DDQ), r"\(40, 8\), \(8,\)"),
        ((Q[None],) * 3, r"\(1, 40, 8\)"),
        ((["a"] * 8,) * 3, "no array of numbers"),
    ],
)
def test_states_that_do_not_fit_are_refused(given: tuple[object, ...], words: str) -> None:
    with pytest.raises(DataError, match=words):
        CRANE.torques(*given)  # type: ignore[arg-type]
