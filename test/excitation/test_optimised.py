"""Optimised excitation: gradients against differences, rest at both ends, condition numbers, limits."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from random_arm import random_arm
from typer.testing import CliRunner

from dynid.cli import app
from dynid.errors import ConfigurationError, SafetyError
from dynid.excitation import optimiser as excitation_optimiser
from dynid.excitation.objectives import Problem, cost, d_optimality, log_condition, optimise, start_coefficients
from dynid.excitation.optimiser import (
    Clearance,
    ExcitationOptimiser,
    ExcitationWish,
    OptimisedExcitation,
    condition_number,
    repulsion,
    trajectory_file,
)
from dynid.excitation.series import Series, SeriesKind
from dynid.robot import load_robot
from dynid.trajectory.families import load_excitation
from dynid.trajectory.files import load_trajectory_file
from dynid.trajectory.polynomial import through_points

ROBOT = load_robot("crane_x7")
EXCITATION = load_excitation(ROBOT)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the iterations to a quarter of the command's number, which suffices for these tests."""
    monkeypatch.setattr(excitation_optimiser, "optimise", partial(optimise, iterations=10))


@pytest.fixture(scope="module")
def optimiser() -> ExcitationOptimiser:
    return ExcitationOptimiser(ROBOT, EXCITATION)


@pytest.mark.parametrize("kind", ["fourier", "spline"])
def test_series_rest_at_both_ends_and_have_true_derivatives(kind: SeriesKind) -> None:
    series = Series.of(kind, 7.0, 12)
    for rows in series.functions(np.array([0.0, 7.0]))[1:]:
        assert np.abs(rows).max() < 1e-9
    t = np.linspace(0.3, 6.7, 50)
    for order in (0, 1):
        ahead, behind = (series.functions(t + step)[order] for step in (1e-5, -1e-5))
        np.testing.assert_allclose((ahead - behind) / 2e-5, series.functions(t)[order + 1], atol=1e-6)
    with pytest.raises(ConfigurationError, match="expected at least"):
        Series.of(kind, 7.0, 2)


@pytest.mark.parametrize("objective", [log_condition, d_optimality])
def test_gradients_of_the_objectives_equal_finite_differences(objective) -> None:
    rng = np.random.default_rng(0)
    root, step = rng.normal(size=(20, 6)), rng.normal(size=(6, 6))
    A, step = root.T @ root, 1e-6 * (step + step.T)
    change = (objective(A + step)[0] - objective(A - step)[0]) / 2.0
    assert change == pytest.approx(float((objective(A)[1] * step).sum()), rel=1e-5)


def test_objectives_are_condition_and_determinant() -> None:
    A = np.diag([4.0, 400.0, 40000.0])
    assert log_condition(A)[0] == pytest.approx(np.log(100.0), rel=1e-6)
    assert d_optimality(A)[0] == pytest.approx(-np.log(64e6) / 6.0)


def test_the_cost_gradient_beyond_limits_equals_finite_differences(optimiser: ExcitationOptimiser) -> None:
    times = np.arange(0.0, 8.0, 0.2)
    bounds = optimiser.bounds("limited", 0.3)
    phi = np.full(39, 0.1)
    problem = Problem(Series.of("fourier", 8.0, 5), times, optimiser.regressor, phi, bounds, "condition")
    coefficients = 2.0 * start_coefficients(problem, 1)
    assert cost(problem, coefficients, 1e3)[0] > cost(problem, coefficients, 0.0)[0] + 0.1
    step = 1e-6 * np.random.default_rng(0).normal(size=coefficients.shape)
    change = cost(problem, coefficients + step, 1e2)[0] - cost(problem, coefficients - step, 1e2)[0]
    assert change / 2.0 == pytest.approx(float((cost(problem, coefficients, 1e2)[1] * step).sum()), rel=1e-3)


def test_links_that_come_near_are_pushed_apart() -> None:
    collision = Clearance(ROBOT)
    penalty = repulsion(collision)
    q = np.random.default_rng(0).uniform(ROBOT.lower, ROBOT.upper, (300, ROBOT.size))
    touching = np.array([row for row in q if collision.contact_at(row) is not None])
    assert len(touching) and penalty(touching[:1])[0] > 0.0
    assert penalty(ROBOT.rest_posture[None])[0] == 0.0


@pytest.mark.slow
@pytest.mark.usefixtures("soon")
def test_optimised_motion_beats_the_primitive_of_equal_duration(optimiser: ExcitationOptimiser, tmp_path: Path) -> None:
    primitive = EXCITATION.trajectory("AP01", "limited")
    found = optimiser.optimise("best", ExcitationWish(primitive.duration))
    assert found.kappa < 0.7 * condition_number(optimiser.regressor, primitive)
    path = tmp_path / "best.yaml"
    path.write_text(trajectory_file(found.motion), encoding="utf-8")
    read = load_trajectory_file(path, EXCITATION, ROBOT.rest_posture)
    optimiser.check(read, "limited")
    assert condition_number(optimiser.regressor, read) == pytest.approx(found.kappa, rel=1e-4)
    fast = found.motion.knots / 1.5
    q, dq, ddq = found.motion.sample_all(found.motion.knots)
    with pytest.raises(SafetyError):
        optimiser.check(through_points("fast", ROBOT.joint_names, fast, q, 1.5 * dq, 2.25 * ddq), "limited")


def test_best_start_is_that_of_the_objective(optimiser: ExcitationOptimiser, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best motion by the determinant need not have the smallest condition number."""
    figures = {0: (30.0, -1.2), 1: (40.0, -1.4), 2: (20.0, -1.3)}  # condition number and objective of each start
    made = {
        seed: OptimisedExcitation(EXCITATION.trajectory("AP01", "limited"), *each) for seed, each in figures.items()
    }
    monkeypatch.setattr(optimiser, "_optimised", lambda name, wish, seed: made[seed])
    assert optimiser.optimise("m", ExcitationWish(8.0, objective="d_optimal", starts=3)) is made[1]


@pytest.mark.slow
@pytest.mark.usefixtures("soon")
def test_objective_of_a_result_is_the_minimised_one(optimiser: ExcitationOptimiser) -> None:
    found = optimiser.optimise("m", ExcitationWish(8.0, objective="d_optimal", terms=8))
    W = optimiser.regressor(*found.motion.sample_all(np.arange(0.0, 8.0, 0.04)))
    flat = W.reshape(-1, W.shape[-1])
    _, value = np.linalg.slogdet(flat.T @ flat / len(W))
    assert found.objective == pytest.approx(-value / (2.0 * flat.shape[1]))


@pytest.mark.slow
@pytest.mark.usefixtures("soon")
def test_excitation_keeps_the_limits_of_a_sliding_joint(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(random_arm(4, prismatic=True), encoding="utf-8")
    command = ["robot", "new", "arm", "--urdf", str(tmp_path / "arm.urdf"), "--out", str(tmp_path / "arm")]
    assert CliRunner().invoke(app, command).exit_code == 0
    robot = load_robot(tmp_path / "arm")
    slides = robot.prismatic.index(True)
    own = ExcitationOptimiser(robot, load_excitation(robot))
    found = own.optimise("m", ExcitationWish(9.0, terms=8))
    own.check(found.motion, "limited")
    q = found.motion.sample_all(np.linspace(0.0, 9.0, 500))[0][:, slides]
    assert robot.lower[slides] <= q.min() < q.max() <= robot.upper[slides]
    assert np.ptp(q) > 0.3 * (robot.upper - robot.lower)[slides] and found.kappa < 1000.0
    free = own.regressor(np.full((1, robot.size), 1e3), np.zeros((1, robot.size)), np.zeros((1, robot.size)))
    assert np.isfinite(free).all()  # far beyond every limit, where the optimisation also looks
