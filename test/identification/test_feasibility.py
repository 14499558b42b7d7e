"""Consistent projection: certificates, bounds, and what must be refused."""

import cvxpy as cp
import numpy as np
import pytest

from dynid.errors import InfeasibleError
from dynid.identification.feasibility import MARGIN_TOLERANCE, consistent_projection, lifted
from dynid.identification.model_file import load_model
from dynid.identification.semidefinite import minimise
from dynid.model.dynamics import ArmModel
from dynid.model.standard import LinkInertia, from_link_frame, load_standard, pseudo_inertia, to_link_frame
from dynid.robot import load_robot

ROBOT = load_robot("crane_x7")
MODEL = ArmModel.of(ROBOT)
BOUNDS = ROBOT.file.physical_bounds
PUBLISHED = load_model(ROBOT.folder / "models" / "paper.yaml").base_parameters(MODEL)


def test_projection_of_the_published_model() -> None:
    result = consistent_projection(MODEL, PUBLISHED, BOUNDS)
    assert result.distance == pytest.approx(0.0136, abs=5e-4)
    assert result.total_mass <= BOUNDS.total_mass_kg + 1e-6
    for j, link in enumerate(BOUNDS.links):
        parameters = result.standard.link(j)
        assert np.linalg.eigvalsh(pseudo_inertia(parameters))[0] >= BOUNDS.pseudo_inertia_margin
        body = to_link_frame(parameters, MODEL.mdh.in_link[j])
        assert link.mass_kg[0] - 1e-6 <= body.mass <= link.mass_kg[1] + 1e-6
        assert (body.centre_of_mass >= np.array(link.centre_of_mass_lower_m) - 1e-5).all()
        assert (body.centre_of_mass <= np.array(link.centre_of_mass_upper_m) + 1e-5).all()
    np.testing.assert_array_equal(result.base.values, MODEL.regrouping.K @ result.standard.values)


def test_consistent_means_positive_definite_at_every_sampled_pose() -> None:
    result = consistent_projection(MODEL, PUBLISHED, BOUNDS)
    rng = np.random.default_rng(8)
    q = np.c_[rng.uniform(ROBOT.audit_lower, ROBOT.audit_upper, (5000, 7)), np.zeros(5000)]
    assert np.linalg.eigvalsh(MODEL.inertia_matrix(q, result.base)).min() > 0.004


def test_the_nominal_file_is_this_projection() -> None:
    stored = MODEL.base_parameters(load_standard(ROBOT.folder / "models" / "nominal.yaml", MODEL.mdh))
    result = consistent_projection(MODEL, PUBLISHED, BOUNDS)
    np.testing.assert_allclose(stored.values, result.base.values, atol=2e-5)


def test_a_consistent_model_is_left_where_it_is() -> None:
    inside = consistent_projection(MODEL, PUBLISHED, BOUNDS).base
    assert consistent_projection(MODEL, inside, BOUNDS).distance < 1e-5


def test_impossible_bounds_are_refused_with_a_sentence() -> None:
    heavy = BOUNDS.model_copy(update={"total_mass_kg": 0.1})
    with pytest.raises(InfeasibleError, match="widen"):
        consistent_projection(MODEL, PUBLISHED, heavy)


def test_a_stall_of_the_solver_costs_another_attempt_but_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = consistent_projection(MODEL, PUBLISHED, BOUNDS)
    solve = cp.Problem.solve

    def stalls_at_the_default(problem: cp.Problem, **options: object) -> object:
        if "max_step_fraction" not in options:
            raise cp.SolverError("stalled")
        return solve(problem, **options)

    monkeypatch.setattr(cp.Problem, "solve", stalls_at_the_default)
    again = consistent_projection(MODEL, PUBLISHED, BOUNDS)
    np.testing.assert_allclose(again.base.values, undisturbed.base.values, atol=1e-6)


def test_a_solver_that_never_finds_anything_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def stalls(problem: cp.Problem, **options: object) -> object:
        tried.append(options)
        raise cp.SolverError("stalled")

    monkeypatch.setattr(cp.Problem, "solve", stalls)
    with pytest.raises(InfeasibleError, match="first stage: the solver gave up 3 times"):
        consistent_projection(MODEL, PUBLISHED, BOUNDS)
    assert len(tried) == 3


def says(problem: cp.Problem, status: str) -> None:
    problem._status = status


def test_an_inaccurate_solution_is_improved_by_another_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = consistent_projection(MODEL, PUBLISHED, BOUNDS)
    solve, tried = cp.Problem.solve, []

    def inaccurate_at_the_default(problem: cp.Problem, **options: object) -> None:
        tried.append(options)
        solve(problem, **options)
        if "max_step_fraction" not in options:
            for variable in problem.variables():
                variable.value = 1.001 * variable.value
            says(problem, cp.OPTIMAL_INACCURATE)

    monkeypatch.setattr(cp.Problem, "solve", inaccurate_at_the_default)
    again = consistent_projection(MODEL, PUBLISHED, BOUNDS)
    np.testing.assert_allclose(again.base.values, undisturbed.base.values, atol=1e-6)
    assert len(tried) >= 4  # of two stages


def test_the_best_of_inaccurate_solutions_counts_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    x = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [x >= 4])
    tried = []

    def always_inaccurate(problem: cp.Problem, **options: object) -> None:
        tried.append(options)
        x.value = np.full(2, [1.0, 3.0, 2.0][len(tried) - 1])
        says(problem, cp.OPTIMAL_INACCURATE)

    monkeypatch.setattr(cp.Problem, "solve", always_inaccurate)
    minimise(problem, "it", "no cure")
    assert len(tried) == 3 and x.value.tolist() == [3.0, 3.0]


def test_a_program_that_was_proven_infeasible_has_no_inaccurate_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    x = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [x >= 4])
    statuses = [cp.OPTIMAL_INACCURATE, cp.INFEASIBLE]

    def solve(problem: cp.Problem, **options: object) -> None:
        x.value = np.ones(2)
        says(problem, statuses.pop(0))

    monkeypatch.setattr(cp.Problem, "solve", solve)
    with pytest.raises(InfeasibleError, match="it: infeasible; no cure"):
        minimise(problem, "it", "no cure")
    assert statuses == []


@pytest.mark.parametrize("missing", [0.03, 0.9 * MARGIN_TOLERANCE])
def test_a_link_a_hair_outside_is_lifted_onto_the_margin(missing: float) -> None:
    margin = 1e-6
    rng = np.random.default_rng(0)
    for _ in range(20):
        link = from_link_frame(
            LinkInertia(rng.uniform(0.1, 1.0), rng.uniform(-0.1, 0.1, 3), np.diag(rng.uniform(1.1, 1.9, 3)) * 1e-3),
            np.eye(4),
        )
        lowest = np.linalg.eigvalsh(pseudo_inertia(link))[0]
        link -= (lowest - (1 - missing) * margin) * np.array([2.0, 0, 0, 2.0, 0, 2.0, 0, 0, 0, 1.0])
        found = lifted(link, margin)
        assert np.linalg.eigvalsh(pseudo_inertia(link))[0] == pytest.approx((1 - missing) * margin, rel=1e-6)
        assert margin <= np.linalg.eigvalsh(pseudo_inertia(found))[0] < margin * (1 + 1e-5)
        assert np.abs(found - link).max() < 2.1 * missing * margin


def test_a_link_far_outside_or_inside_is_left_as_it_is() -> None:
    inside = consistent_projection(MODEL, PUBLISHED, BOUNDS).standard.link(0)
    assert lifted(inside, 1e-6) is inside
    lowest = float(np.linalg.eigvalsh(pseudo_inertia(inside))[0])
    assert lifted(inside, 1.2 * lowest) is inside


def test_a_solution_below_the_margin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the solver says of it."""
    monkeypatch.setattr("dynid.identification.feasibility.MARGIN_RESERVE", 0.5)
    with pytest.raises(InfeasibleError, match=r"smallest pseudo-inertia eigenvalue 5\S* is below the required"):
        consistent_projection(MODEL, PUBLISHED, BOUNDS)
